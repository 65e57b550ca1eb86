"""The whole SDK on a real cluster: what it can say, the nodes understand, and the other way round.

Every history that these runs leave is checked with the Replayer, from both exported forms.
"""

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from dev_cluster import DevCluster, dev_cluster, wait_for

from raftflow_sdk import (
    DEFAULT_VERSION,
    ActivityFailure,
    ActivityInfo,
    AlreadyExists,
    ApiError,
    AsyncContext,
    CancelledFailure,
    ChildFailure,
    Client,
    Context,
    NotFound,
    Replayer,
    RetryPolicy,
    RunFailed,
    Worker,
    WorkflowFailure,
)

pytestmark = pytest.mark.cluster

STARTED = threading.Event()


def fan_out(ctx: Context) -> object:
    steps = [ctx.start_activity("echo", str(n)) for n in range(10)]
    first = ctx.race(*steps)
    return [first in steps, *ctx.gather(*steps)]


async def fan_out_async(ctx: AsyncContext) -> object:
    async def pipeline(n: int) -> str:
        return str(await ctx.activity("echo", await ctx.activity("echo", str(n))))

    return await ctx.gather(*(pipeline(n) for n in range(10)))


def races(ctx: Context) -> object:
    slow = ctx.start_activity("slow")
    timer = ctx.start_timer("soon", 0.2)
    winner = ctx.race(slow, timer, cancel_rest=True)
    try:
        slow.result()
    except CancelledFailure as err:
        return [winner is timer, err.reason]
    return "not cancelled"


def patient(ctx: Context) -> object:
    try:
        ctx.wait_for_signal("first", "go", timeout=0.2)
    except TimeoutError:
        pass
    return ctx.wait_for_signal("second", "go")


async def compensates(ctx: AsyncContext) -> object:
    try:
        await ctx.gather(ctx.activity("slow"), ctx.sleep("long", 3600))
    except CancelledFailure:
        undone = await ctx.activity("echo", f"undone: {ctx.cancel_reason}")
        ctx.upsert_search_attributes({"undone": undone})
        raise


def counts(ctx: Context) -> object:
    number = int(ctx.input)
    ctx.sleep("tick", 0.01)
    if number:
        ctx.continue_as_new(str(number - 1))
    return ctx.workflow_id


def parent(ctx: Context) -> object:
    good = ctx.start_child("Echo", "hello")
    named = ctx.start_child("Echo", "named", workflow_id=f"{ctx.workflow_id}/child", name="named")
    bad = ctx.start_child("Broken", name="bad")
    try:
        bad.result()
    except ChildFailure as err:
        return [good.result(), named.result(), err.error_type, str(err)]
    return None


def echo_workflow(ctx: Context) -> object:
    return ctx.activity("echo", ctx.input)


def broken(ctx: Context) -> object:
    raise WorkflowFailure("no luck", error_type="Unlucky")


def remembers(ctx: Context) -> object:
    version = ctx.version("change", DEFAULT_VERSION, 1)
    drawn = ctx.side_effect("draw", lambda: uuid.uuid4().hex)
    before, own = ctx.now(), ctx.uuid()
    ctx.upsert_search_attributes({"stage": "waiting", "n": 2, "gone": None})
    ctx.sleep("pause", 0.1)
    assert 0.1 <= (ctx.now() - before).total_seconds() < 5
    ctx.wait_for_signal("gate", "go")
    return [version, drawn, own, ctx.uuid() != own, ctx.random().random()]


def retries(ctx: Context) -> object:
    policy = RetryPolicy(max_attempts=3, initial_backoff=30, jitter=0.5, backoff_coefficient=1.5)
    return ctx.activity("stubborn", retry=policy, priority=1)


WORKFLOWS: dict[str, Callable[[Any], object]] = {
    "FanOut": fan_out,
    "FanOutAsync": fan_out_async,
    "Races": races,
    "Patient": patient,
    "Compensates": compensates,
    "Counts": counts,
    "Parent": parent,
    "Echo": echo_workflow,
    "Broken": broken,
    "Remembers": remembers,
    "Retries": retries,
}


async def echo(text: str) -> str:
    return text


def slow(_: str, info: ActivityInfo) -> str:
    STARTED.set()
    info.cancelled.wait(30)
    return "slow"


def stubborn(_: str, info: ActivityInfo) -> str:
    if info.attempt < 3:
        # Long before what the policy says.
        raise ActivityFailure("not yet", next_retry_delay=0.05)
    return f"attempt {info.attempt}"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    with dev_cluster(tmp_path_factory.mktemp("sdk") / "cluster") as running:
        yield running


@pytest.fixture(scope="module")
def client(cluster: DevCluster) -> Iterator[Client]:
    addresses = [cluster.http(node) for node in cluster.ids()]
    worker = Worker(addresses, activity_slots=4)
    for name, code in WORKFLOWS.items():
        worker.workflow(name)(code)
    for activity in (echo, slow, stubborn):
        worker.activity(activity.__name__)(activity)
    with worker:
        yield Client(addresses)


def check_history(client: Client, workflow_id: str, directory: Path) -> None:
    replayer = Replayer(WORKFLOWS)
    file = directory / f"{uuid.uuid4().hex}.history"
    for run in client.runs(workflow_id):
        run_id = run["run_id"]
        by_json = replayer.check(client.history(workflow_id, run_id=run_id))
        file.write_bytes(client.export(workflow_id, run_id=run_id))
        assert replayer.check(file) == by_json


def result(client: Client, directory: Path, workflow_type: str, text: str = "") -> Any:
    workflow_id = f"{workflow_type}-{uuid.uuid4().hex[:8]}"
    client.start(workflow_type, workflow_id=workflow_id, input=text)
    value = client.result(
        workflow_id, wait=30, decode="json" if workflow_type != "Echo" else "text"
    )
    check_history(client, workflow_id, directory)
    return value


def test_many_steps_at_once(client: Client, tmp_path: Path) -> None:
    numbers = [str(n) for n in range(10)]
    assert result(client, tmp_path, "FanOut") == [True, *numbers]
    assert result(client, tmp_path, "FanOutAsync") == numbers


def test_a_race_cancels_its_losers(client: Client, tmp_path: Path) -> None:
    began = time.monotonic()
    assert result(client, tmp_path, "Races") == [True, "lost the race"]
    assert time.monotonic() - began < 10


def test_a_wait_that_timed_out_takes_no_signal(client: Client, tmp_path: Path) -> None:
    client.start("Patient", workflow_id="patient")
    steps = lambda: client.describe("patient")["steps"]  # noqa: E731
    wait_for("the second wait", lambda: len(steps()) == 3)
    client.signal("patient", "go", "now")
    assert client.result("patient", wait=20) == "now"
    assert [step["status"] for step in steps()] == ["CANCELLED", "COMPLETED", "COMPLETED"]
    check_history(client, "patient", tmp_path)


def test_a_graceful_cancel_lets_the_code_compensate(client: Client, tmp_path: Path) -> None:
    STARTED.clear()
    client.start("Compensates", workflow_id="holiday")
    assert STARTED.wait(20)
    client.cancel("holiday", "flu", graceful=True)
    with pytest.raises(RunFailed, match="CANCELLED: flu"):
        client.result("holiday", wait=20)
    run = client.describe("holiday")
    assert run["search_attributes"] == {"undone": "undone: flu"}
    assert run["cancel_reason"] == "flu"
    check_history(client, "holiday", tmp_path)


def test_a_chain_of_runs(client: Client, tmp_path: Path) -> None:
    client.start("Counts", workflow_id="counts", input="3")
    assert client.result("counts", wait=20) == "counts"
    runs = client.runs("counts")
    assert [run["status"] for run in runs] == ["COMPLETED"] + ["CONTINUED_AS_NEW"] * 3
    check_history(client, "counts", tmp_path)
    assert client.delete("counts") == 4
    with pytest.raises(NotFound):
        client.describe("counts")


def test_children(client: Client, tmp_path: Path) -> None:
    assert result(client, tmp_path, "Parent") == ["hello", "named", "Unlucky", "no luck"]


def test_what_a_run_remembers(client: Client, tmp_path: Path) -> None:
    client.start(
        "Remembers",
        workflow_id="remembers",
        search_attributes={"customer": "c-7", "vip": True},
        memo={"note": "urgent"},
        traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    )
    found = lambda **attributes: client.list(attributes=attributes)["workflows"]  # noqa: E731
    wait_for("it is found by its attributes", lambda: found(stage="waiting", n=2, vip=True))
    assert not found(stage="done")
    run = client.describe("remembers")
    assert run["memo"] == {"note": "urgent"}
    assert run["traceparent"].startswith("00-0af7")
    client.pause("remembers", "look at it")
    assert client.describe("remembers")["status"] == "PAUSED"
    client.signal("remembers", "go")
    client.unpause("remembers")
    assert client.result("remembers", wait=20, decode="json")[0] == 1
    check_history(client, "remembers", tmp_path)


def test_retries_as_the_code_says(client: Client, tmp_path: Path) -> None:
    client.start("Retries", workflow_id="retries")
    assert client.result("retries", wait=20) == "attempt 3"
    check_history(client, "retries", tmp_path)


def test_signal_with_start(client: Client) -> None:
    first = client.signal_with_start("Patient", "greeted", "go", "one")
    again = client.signal_with_start("Patient", "greeted", "go", "two")
    assert (first.started, again.started) == (True, False)
    assert first.run_id == again.run_id
    assert client.result("greeted", wait=20) == "two"
    with pytest.raises(AlreadyExists):
        client.signal_with_start("Patient", "greeted", "go")


def test_namespaces(client: Client) -> None:
    client.create_namespace("shop", retention=60)
    client.update_namespace("shop", retention=3600)
    by_name = {each["name"]: each for each in client.namespaces()}
    assert by_name["shop"]["retention_ms"] == 3_600_000
    with pytest.raises(ApiError, match="exists"):
        client.create_namespace("shop")


def test_changed_code_parks_its_runs_until_it_is_repaired(cluster: DevCluster) -> None:
    addresses = [cluster.http(node) for node in cluster.ids()]
    client = Client(addresses)

    def worker(code: Callable[[Any], object]) -> Worker:
        worker = Worker(addresses)
        worker.workflow("Changing")(code)
        return worker

    def good(ctx: Context) -> object:
        return ctx.wait_for_signal("gate", "go")

    async def renamed(ctx: AsyncContext) -> object:
        return await ctx.wait_for_signal("door", "go")

    status = lambda: client.describe("changing")["status"]  # noqa: E731
    with worker(good):
        client.start("Changing", workflow_id="changing")
        wait_for("it waits", lambda: client.describe("changing")["steps"])
    with worker(renamed):
        client.signal("changing", "go", "well")
        wait_for("it is parked", lambda: status() == "UNKNOWN")
        error = client.describe("changing")["error"]
        assert "the code issued SIGNAL 'door', the history has SIGNAL 'gate'" in error
    with worker(good):
        client.unpause("changing")
        assert client.result("changing", wait=20) == "well"
