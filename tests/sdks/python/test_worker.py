"""The worker against the in-memory cluster: loops, outcomes, leader changes, stopping."""

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from faulty_node import Node
from replay_workflows import order
from sdk_cluster import FakeCluster, Refused

from raftflow_sdk import ActivityFailure, ActivityInfo, AsyncContext, Context, Worker
from raftflow_sdk import worker as worker_module


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster(park=0.1)


@pytest.fixture
def node(cluster: FakeCluster) -> Iterator[Node]:
    with Node(cluster) as node:
        yield node


def saga_worker(*addresses: str) -> Worker:
    """Runs the saga with activities that always work."""
    worker = Worker(addresses, activity_slots=2)
    worker.workflow("Order")(short_order)
    for name in ("reserve", "charge", "release", "ship"):
        worker.activity(name)(lambda text, name=name: f"{name} {text}")
    return worker


def short_order(ctx: Context) -> object:
    ctx.sleep("settle", 0.05)
    reserved = ctx.activity("reserve", ctx.input)
    if ctx.wait_for_signal("gate", "approved") != "yes":
        return "rejected"
    ctx.activity("charge", reserved)
    return ctx.activity("ship", reserved)


def one_activity(cluster: FakeCluster, node: Node, code: Any, **registration: Any) -> Worker:
    """A worker whose only workflow runs the activity `work` once."""
    worker = Worker([node.address], workflow_slots=1, activity_slots=1)
    worker.workflow("Order")(lambda ctx: ctx.activity("work", ctx.input))
    worker.activity("work", **registration)(code)
    return worker


def outcome(cluster: FakeCluster) -> dict[str, Any]:
    cluster.wait(lambda: bool(cluster.outcomes))
    (body,) = cluster.outcomes.values()
    head = ("workflow_id", "step_name", "sequence", "lease_token", "eager")
    return {name: value for name, value in body.items() if name not in head}


def test_a_saga_runs_to_its_end(cluster: FakeCluster, node: Node) -> None:
    run = cluster.start("Order", "order-1", "order-1")
    with saga_worker(node.address):
        cluster.signal("order-1", "approved", "yes")
        assert cluster.wait_closed(run) == "COMPLETED"
    assert run.closing == {"output": "ship reserve order-1"}
    assert [step["attempts"] for step in run.steps] == [0, 1, 0, 1, 1]
    assert cluster.types == {"Order"}


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["reset", "reset after", "half", "503"])
def test_a_worker_notices_nothing_of_faults(
    cluster: FakeCluster, node: Node, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Every call but those that take a task fails twice; one attempt each is enough."""
    for path in ("workflow-types", "workflow-tasks/complete", "activity-tasks/complete"):
        node.faults.extend([(f"/api/{path}", fault)] * 4)
    run = cluster.start("Order", "order-1")
    cluster.signal("order-1", "approved", "yes")
    with saga_worker(node.address):
        assert cluster.wait_closed(run) == "COMPLETED"
    assert [step["attempts"] for step in run.steps] == [0, 1, 0, 1, 1]
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.slow
def test_a_node_dies_and_the_worker_goes_on(
    cluster: FakeCluster, node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    with Node(cluster) as doomed:
        worker = saga_worker(doomed.address, node.address)
        worker.start()
        run = cluster.start("Order", "order-1")
        cluster.wait(lambda: any(step["kind"] == "SIGNAL" for step in run.steps))
    cluster.signal("order-1", "approved", "yes")
    assert cluster.wait_closed(run) == "COMPLETED"
    assert worker.stop()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.slow
def test_a_worker_may_start_before_the_cluster(cluster: FakeCluster) -> None:
    with Node(cluster) as node:
        port = node.port
    worker = saga_worker(f"http://127.0.0.1:{port}")
    starting = threading.Thread(target=worker.start)
    starting.start()
    run = cluster.start("Order", "order-1")
    cluster.signal("order-1", "approved", "yes")
    with Node(cluster, port=port):
        assert cluster.wait_closed(run) == "COMPLETED"
        starting.join()
        assert worker.stop()


def test_the_input_of_an_activity_is_read_as_it_asks(cluster: FakeCluster, node: Node) -> None:
    cluster.start("Order", "w", '{"n": 20}')
    with one_activity(cluster, node, lambda value: {"n": value["n"] + 1}, decode="json"):
        assert outcome(cluster) == {"output": '{"n":21}'}


def test_binary_output_is_exact(cluster: FakeCluster, node: Node) -> None:
    cluster.start("Order", "w")
    with one_activity(cluster, node, lambda _: b"\xff"):
        assert outcome(cluster) == {"output_base64": "/w=="}


def test_an_activity_may_say_how_it_failed(cluster: FakeCluster, node: Node) -> None:
    def work(_: str) -> None:
        raise ActivityFailure("declined", error_type="Declined", non_retryable=True)

    run = cluster.start("Order", "w")
    with one_activity(cluster, node, work):
        assert cluster.wait_closed(run) == "FAILED"
    assert outcome(cluster) == {
        "error": "declined",
        "error_type": "Declined",
        "non_retryable": True,
    }
    assert run.closing["error_type"] == "Declined"


def test_any_exception_is_an_outcome(
    cluster: FakeCluster, node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    def work(_: str) -> None:
        raise SystemExit("bad \udcff")

    cluster.start("Order", "w")
    with one_activity(cluster, node, work):
        assert outcome(cluster) == {"error": "SystemExit: bad ?", "error_type": "SystemExit"}
    assert "activity work attempt 1 raised, workflow w" in caplog.text


def test_an_output_that_is_no_payload_is_not_tried_again(cluster: FakeCluster, node: Node) -> None:
    cluster.start("Order", "w")
    with one_activity(cluster, node, lambda _: object()):
        assert outcome(cluster)["non_retryable"] is True


def test_an_output_over_the_limit_fails_the_step(cluster: FakeCluster, node: Node) -> None:
    refusal = Refused(413, "output has 3 MiB, the limit is 2 MiB", reason="PAYLOAD_TOO_LARGE")
    cluster.refusals.append(("/api/activity-tasks/complete", refusal))
    cluster.start("Order", "w")
    with one_activity(cluster, node, lambda _: "large"):
        body = outcome(cluster)
    assert (body["error_type"], body["non_retryable"]) == ("ResultRefused", True)
    assert "3 MiB" in body["error"]


def test_a_decision_over_the_limit_fails_the_run(cluster: FakeCluster, node: Node) -> None:
    refusal = Refused(413, "input has 3 MiB, the limit is 2 MiB", reason="PAYLOAD_TOO_LARGE")
    cluster.refusals.append(("/api/workflow-tasks/complete", refusal))
    run = cluster.start("Order", "w")
    with one_activity(cluster, node, lambda _: "x"):
        assert cluster.wait_closed(run) == "FAILED"
    assert "3 MiB" in run.closing["error"]


def test_a_refused_decision_is_logged(
    cluster: FakeCluster, node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.refusals.append(("/api/workflow-tasks/complete", Refused(400, "wrong sequence")))
    run = cluster.start("Order", "w")
    with one_activity(cluster, node, lambda _: "x"):
        cluster.wait(lambda: not cluster.refusals)
        with cluster.changed:  # the task is still pending: it is offered again
            run.decision_out, run.needs_decision = "", True
        assert cluster.wait_closed(run) == "COMPLETED"
    assert "wrong sequence" in caplog.text


def test_nondeterminism_parks_the_run_and_is_logged(
    cluster: FakeCluster, node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    run = cluster.start("Order", "w")
    done = {"kind": "TIMER", "step_name": "t", "status": "COMPLETED", "sequence": 1, "attempts": 0}
    run.steps.append(done)
    with one_activity(cluster, node, lambda _: "x"):
        assert cluster.wait_closed(run) == "UNKNOWN"
    assert "the code issued ACTIVITY 'work', the history has TIMER 't'" in run.replay_error
    assert "nondeterministic" in caplog.text


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_lost_lease_is_told_to_the_code(
    node: Node, cluster: FakeCluster, cancelled: bool
) -> None:
    cluster.lease_ms = 200
    started, told = threading.Event(), []

    def work(_: str, info: ActivityInfo) -> str:
        started.set()
        info.lease_lost.wait(5)
        told.append((info.lease_lost.is_set(), info.cancelled.is_set()))
        return "too late"

    cluster.start("Order", "w")
    with one_activity(cluster, node, work):
        assert started.wait(5)
        cluster.lose_leases(cancelled=cancelled)
    assert told == [(True, cancelled)]
    assert cluster.outcomes == {}


@pytest.mark.slow
def test_a_completion_outlives_an_outage_longer_than_the_lease(
    cluster: FakeCluster, node: Node
) -> None:
    """Heartbeats put the end of the lease off while only completions fail."""
    cluster.lease_ms = 900
    node.faults.extend([("/api/activity-tasks/complete", "503")] * 7)
    run = cluster.start("Order", "w")
    with one_activity(cluster, node, lambda _: "kept"):
        assert cluster.wait_closed(run) == "COMPLETED"
    assert not node.faults


def test_a_completion_gives_up_with_its_lease(
    cluster: FakeCluster, node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.lease_ms = 200
    gate = threading.Event()

    def work(_: str) -> str:
        node.fault_always = "503"
        gate.set()
        return "lost"

    cluster.start("Order", "w")
    with one_activity(cluster, node, work):
        assert gate.wait(5)
        deadline = time.monotonic() + 5
        while "result of work of w lost" not in caplog.text and time.monotonic() < deadline:
            time.sleep(0.01)
    assert "result of work of w lost with its lease" in caplog.text


def test_stopping_waits_for_what_runs(cluster: FakeCluster, node: Node) -> None:
    started, release = threading.Event(), threading.Event()

    def work(_: str) -> str:
        started.set()
        release.wait(5)
        return "done"

    cluster.start("Order", "w")
    worker = one_activity(cluster, node, work)
    worker.start()
    assert started.wait(5)
    assert worker.stop(timeout=0.05) is False
    release.set()
    assert worker.stop()
    assert outcome(cluster) == {"output": "done"}


def test_stopping_does_not_wait_for_polls(cluster: FakeCluster, node: Node) -> None:
    cluster.park = 20.0  # hanging up ends them at once
    worker = saga_worker(node.address)
    worker.start()
    cluster.wait(lambda: sum("tasks" in path for _, path, _ in cluster.calls) == 4)
    assert worker.stop(timeout=5)


def test_stopping_does_not_wait_for_a_frozen_node(
    cluster: FakeCluster, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "_HANG_UP_PATIENCE", 0.05)
    cluster.park, node.sees_hang_ups = 5.0, False
    worker = saga_worker(node.address)
    worker.start()
    cluster.wait(lambda: sum("tasks" in path for _, path, _ in cluster.calls) == 4)
    begun = time.monotonic()
    assert worker.stop(timeout=4)  # nothing of ours runs any more
    assert time.monotonic() - begun < 2


@pytest.mark.slow
def test_a_poll_that_is_refused_is_logged_and_tried_again(
    cluster: FakeCluster, node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.refusals.append(("/api/activity-tasks", Refused(401, "bad token")))
    with one_activity(cluster, node, lambda _: "x"):
        # Before there is a run: an activity that came with a decision would meet it when it ends.
        cluster.wait(lambda: not cluster.refusals)
        run = cluster.start("Order", "w")
        assert cluster.wait_closed(run) == "COMPLETED"
    assert "bad token" in caplog.text


def test_async_code_of_both_kinds_runs(cluster: FakeCluster, node: Node) -> None:
    worker = Worker([node.address], workflow_slots=1, activity_slots=2)

    @worker.workflow("Order")
    async def order(ctx: AsyncContext) -> object:
        return await ctx.gather(ctx.activity("work", "a"), ctx.activity("work", "b"))

    @worker.activity("work")
    async def work(text: str) -> str:
        await asyncio.sleep(0)
        return text.upper()

    run = cluster.start("Order", "w")
    with worker:
        assert cluster.wait_closed(run) == "COMPLETED"
    assert run.closing == {"output": '["A","B"]'}


def test_wrong_registrations_are_refused() -> None:
    worker = Worker(["http://127.0.0.1:1"])
    worker.workflow("Order")(order)
    with pytest.raises(ValueError, match="already registered"):
        worker.workflow("Order")(order)
    with pytest.raises(ValueError, match="comma"):
        worker.activity("a,b")(lambda text: text)

    def generator(text: str) -> Iterator[str]:
        yield text

    with pytest.raises(TypeError, match="without `yield`"):
        worker.activity("work")(generator)
    with pytest.raises(TypeError, match=r'@worker\.workflow\("NAME"\)'):
        worker.workflow(order)  # type: ignore[arg-type]  # the parentheses were forgotten
    with pytest.raises(TypeError, match=r"'work' is called with \(input\): too many"):
        worker.activity("work")(lambda: "nothing")
    with pytest.raises(TypeError, match=r"'Late' is called with \(ctx\): missing .* 'more'"):
        worker.workflow("Late")(lambda ctx, more: more)
    with pytest.raises(RuntimeError, match="register"):
        Worker(["http://127.0.0.1:1"]).start()
    with pytest.raises(ValueError, match="slot"):
        Worker(["http://127.0.0.1:1"], activity_slots=0)


def test_what_is_registered_can_be_read() -> None:
    worker = Worker(["http://127.0.0.1:1"])
    worker.workflow("Order", decode="json")(order)
    worker.activity("work")(lambda text: text)
    assert (worker.workflows["Order"].run, worker.workflows["Order"].decode) == (order, "json")
    assert list(worker.activities) == ["work"]
    with pytest.raises(TypeError):
        worker.workflows["Other"] = worker.workflows["Order"]  # type: ignore[index]


PROGRAM = """
import sys
from raftflow_sdk import Worker
worker = Worker(sys.argv[1:])
worker.workflow("Order")(lambda ctx: "done")
worker.run()
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_process_in_order(cluster: FakeCluster, node: Node, number: int) -> None:
    run = cluster.start("Order", "w")
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, node.address],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    cluster.wait_closed(run)
    process.send_signal(number)
    said, _ = process.communicate(timeout=10)
    assert (process.returncode, said) == (0, b"")
    assert json.dumps(run.closing) == '{"output": "done"}'


def pipeline(cluster: FakeCluster, node: Node, steps: int, **settings: Any) -> Worker:
    """A workflow of so many activities in a row."""

    def code(ctx: Context) -> object:
        value = ctx.input
        for _ in range(steps):
            value = ctx.activity("add", value)
        return value

    worker = Worker([node.address], **settings)
    worker.workflow("Order")(code)
    worker.activity("add")(lambda text: text + "+")
    return worker


def test_a_run_goes_on_in_the_answers_to_its_completions(cluster: FakeCluster, node: Node) -> None:
    run = cluster.start("Order", "w", "x")
    with pipeline(cluster, node, 3):
        assert cluster.wait_closed(run) == "COMPLETED"
    assert run.closing == {"output": "x+++"}
    (eager,) = {str(body["eager"]["types"]) for body in cluster.outcomes.values()}
    assert eager == "['Order']"
    completions = [path for _, path, _ in cluster.calls if path.endswith("complete")]
    assert len(completions) == 7
    asked = [body["eager"]["max"] for body in run.answered.values() if body.get("eager")]
    assert asked == [1, 1, 1]


def test_a_slot_lets_others_have_their_turn(
    cluster: FakeCluster, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "_IN_A_ROW", 3)
    run = cluster.start("Order", "w", "x")
    with pipeline(cluster, node, 6):
        assert cluster.wait_closed(run) == "COMPLETED"
    plain = [body for body in cluster.outcomes.values() if "eager" not in body]
    plain += [body for body in run.answered.values() if "eager" not in body]
    assert len(plain) > 1  # the last decision schedules nothing, and is one of them


def test_a_fan_out_takes_no_more_than_there_are_slots(cluster: FakeCluster, node: Node) -> None:
    running: set[str] = set()
    most: list[int] = []
    gate = threading.Barrier(3, timeout=5)

    def work(text: str) -> str:
        running.add(text)
        most.append(len(running))
        gate.wait()
        running.discard(text)
        return text

    worker = Worker([node.address], activity_slots=3)
    worker.activity("work")(work)
    for number in range(6):
        run = cluster.start("Order", f"w{number}")
        with cluster.changed:
            run.needs_decision = False
            command = {"type": "schedule_activity", "step_name": "work", "sequence": 1}
            cluster._apply(run, {**command, "input": str(number)})
    with worker:
        cluster.wait(lambda: len(cluster.outcomes) == 6)
    assert max(most) <= 3


@pytest.mark.slow
def test_an_answer_lost_with_tasks_in_it_is_asked_for_by_name(
    cluster: FakeCluster, node: Node
) -> None:
    node.faults.append(("/api/activity-tasks/complete", "reset after"))
    cluster.start("Order", "w", "x")
    with pipeline(cluster, node, 1):
        cluster.wait(lambda: len(cluster.outcomes) == 1)
        (body,) = cluster.outcomes.values()
        request_id = body["eager"]["request_id"]
        cluster.wait(lambda: any(query.get("request_id") == request_id for query in node.queries))


def test_a_worker_of_another_queue_says_so_everywhere(cluster: FakeCluster, node: Node) -> None:
    run = cluster.start("Order", "w", "x")
    with pipeline(cluster, node, 1, task_queue="blue"):
        assert cluster.wait_closed(run) == "COMPLETED"
    polls = [query for query in node.queries if "max" in query]
    assert {query["task_queue"] for query in polls} == {"blue"}
    (body,) = cluster.outcomes.values()
    assert body["eager"]["task_queue"] == "blue"
