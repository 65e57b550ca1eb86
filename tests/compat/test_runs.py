"""Runs from outside, by a foreign client through every node: ids, chains, cancelling, queues,
namespaces, signals, traces."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable

import pytest
import workflowd
from dev_cluster import DevCluster, wait_for
from otlp_receiver import OtlpReceiver

from tests.compat.test_steps import waits_for
from tests.compat.workflows import seen, successor

pytestmark = pytest.mark.cluster

Through = Callable[[], workflowd.Worker]
Ended = Callable[..., dict]


def refused(status: int) -> pytest.RaisesExc:
    return pytest.raises(Exception, check=lambda error: getattr(error, "status", 0) == status)


# ---- chains -----------------------------------------------------------------------------------


def test_a_chain_of_runs(through: Through, ended: Ended) -> None:
    first = through().start("Countdown", 3, "countdown")["run_id"]
    last = ended("countdown")
    assert last["output"] == f"done in {last['run_id']}"
    runs = through().runs("countdown")
    assert [run["status"] for run in runs] == ["COMPLETED"] + ["CONTINUED_AS_NEW"] * 3
    assert (runs[0]["run_id"], runs[-1]["run_id"]) == (last["run_id"], first)
    for newer, older in itertools.pairwise(runs):
        told = through().describe("countdown", older["run_id"])
        assert (told["status"], told["continued_to_run_id"]) == (
            "CONTINUED_AS_NEW",
            newer["run_id"],
        )
    assert [ended("countdown", run["run_id"])["input"] for run in runs] == ["0", "1", "2", "3"]


def test_a_long_run_is_advised_to_continue(through: Through, ended: Ended) -> None:
    through().start("UntilSuggested", 0, "until")
    carried = json.loads(ended("until")["output"])["carried"]
    assert 2 <= carried <= 10
    before = through().runs("until")[1]
    assert 20 <= through().describe("until", before["run_id"])["history_length"] <= 26


def test_a_chain_may_change_type_queue_and_timeout(
    cluster: DevCluster, through: Through, ended: Ended
) -> None:
    gpu = workflowd.Worker(addresses=cluster.addresses(), task_queue="gpu", worker_id="gpu")
    gpu.workflow("Successor")(successor)
    gpu.run(block=False)
    try:
        through().start("Handover", "", "handover")
        run = ended("handover")
    finally:
        gpu.stop()
    assert workflowd.read_payload(run, "output", "bytes") == b"\xff\x00!"
    told = [run[name] for name in ("workflow_type", "task_queue", "execution_timeout_ms")]
    assert told == ["Successor", "gpu", 30_000]


# ---- cancelling -------------------------------------------------------------------------------


def test_a_graceful_cancel_lets_the_code_compensate(through: Through, ended: Ended) -> None:
    through().start("Compensating", "", "compensating")
    note = seen["compensating/hold"]
    wait_for("the activity is out", lambda: note)
    through().cancel("compensating", "changed my mind", graceful=True)
    through().cancel("compensating", "again", graceful=True)
    run = ended("compensating")
    assert run["status"] == "CANCELLED"
    assert run["cancel_reason"] == "changed my mind"
    told = "the workflow is being cancelled (changed my mind)"
    assert seen["compensating"][-1] == ["hold", told]
    kinds = [(step["kind"], step["status"]) for step in run["steps"]]
    assert kinds == [
        ("ACTIVITY", "COMPLETED"),
        ("ACTIVITY", "CANCELLED"),
        ("MARKER", "COMPLETED"),
        ("ACTIVITY", "COMPLETED"),
    ]
    wait_for("the activity was told", lambda: note == ["begun", ("cancelled", True)])


def test_code_may_go_on_after_a_graceful_cancel(through: Through, ended: Ended) -> None:
    through().start("Stubborn", "", "stubborn")
    waits_for(through, "stubborn", "SIGNAL", "gate")
    through().cancel("stubborn", graceful=True)
    run = ended("stubborn")
    assert (run["status"], run["output"]) == (
        "COMPLETED",
        "went on: the workflow is being cancelled",
    )


def test_a_hard_cancel_reaches_the_activity(through: Through, ended: Ended) -> None:
    through().start("Holding", "", "holding")
    note = seen["holding/hold"]
    wait_for("the activity is out", lambda: note)
    through().cancel("holding", "enough")
    through().cancel("holding", "enough")
    assert ended("holding")["status"] == "CANCELLED"
    wait_for("the activity was told", lambda: note == ["begun", ("cancelled", True)])


def test_an_execution_timeout_ends_a_run(through: Through, ended: Ended) -> None:
    through().start("Idle", "", "timed-out", execution_timeout=0.3)
    assert ended("timed-out")["status"] == "TIMED_OUT"


# ---- ids --------------------------------------------------------------------------------------


def test_id_policies(through: Through) -> None:
    assert through().start_workflow("Idle", "x", "idle") == "idle"
    first = through().describe("idle")["run_id"]
    with refused(409):
        through().start("Idle", "x", "idle", id_reuse_policy="allow_duplicate")
    again = through().start("Idle", "x", "idle", id_conflict_policy="USE_EXISTING")
    assert (again["run_id"], again["started"]) == (first, False)
    again = through().start_workflow(
        "Idle", "x", "idle", id_conflict_policy="use_existing", id_reuse_policy="REJECT_DUPLICATE"
    )
    assert again == "idle"
    through().cancel("idle", "enough")
    with refused(409):
        through().start("Idle", "x", "idle")
    second = through().start("Idle", "x", "idle", id_reuse_policy="ALLOW_DUPLICATE_FAILED_ONLY")
    assert second["run_id"] != first
    through().signal("idle", "go", "home")
    wait_for("it ends", lambda: through().describe("idle")["status"] == "COMPLETED")
    with refused(409):
        through().start("Idle", "x", "idle", id_reuse_policy="ALLOW_DUPLICATE_FAILED_ONLY")
    third = through().start("Idle", "x", "idle", id_reuse_policy="ALLOW_DUPLICATE")
    assert [run["run_id"] for run in through().runs("idle")] == [
        third["run_id"],
        second["run_id"],
        first,
    ]


@pytest.mark.parametrize("workflow_id", ["a/b c", "é ✓ 🎈", "\"q'", "{id}", "50%", "?x=1#y"])
def test_ids_are_any_text(through: Through, ended: Ended, workflow_id: str) -> None:
    through().start("Idle", "", workflow_id)
    through().signal(workflow_id, "go", "x")
    assert ended(workflow_id)["workflow_id"] == workflow_id
    assert len(through().runs(workflow_id)) == 1


def test_an_id_of_its_own(through: Through) -> None:
    named = through().start_workflow("Idle", execution_timeout=60)
    assert through().describe(named)["execution_timeout_ms"] == 60_000
    started = through().start("Idle")
    assert started["workflow_id"].startswith("Idle-")
    assert through().describe(started["workflow_id"])["run_id"] == started["run_id"]


def test_what_is_unknown_is_refused(through: Through) -> None:
    with refused(400):
        through().start("NoSuchType")
    with refused(404):
        through().describe("no-such-id")
    with refused(404):
        through().signal("no-such-id", "go")


# ---- signals ----------------------------------------------------------------------------------


def test_a_signal_is_recorded_once(cluster: DevCluster, through: Through) -> None:
    through().start("Idle", "", "signals", task_queue="nobody-is-here")
    for address in cluster.addresses():
        workflowd.Worker(address).signal("signals", "go", "once", request_id="the-one")
        workflowd.Worker(address).signal("signals", "go", address)
    signals = through().describe("signals")["signals"]
    assert [signal["payload"] for signal in signals] == [
        "once",
        *[payload for address in cluster.addresses() for payload in [address]],
    ]
    with refused(409):
        through().signal("signals", "go", "other", request_id="the-one")


# ---- queues and namespaces --------------------------------------------------------------------


def test_queues_are_apart(cluster: DevCluster, through: Through, ended: Ended) -> None:
    address = cluster.addresses(cluster.followers()[0])[0]
    gpu = workflowd.Worker(address, task_queue="gpu", worker_id="gpu-worker")
    gpu.activity("where")(lambda _: "gpu")
    gpu.run(block=False)
    try:
        through().start("ByQueue", "", "by-queue")
        assert json.loads(ended("by-queue")["output"]) == ["gpu", "default"]
        gpu.start("Idle", "", "on-gpu")  # its own queue
        through().start_workflow("Idle", "", "default-too", task_queue="default")
        waits_for(through, "default-too", "SIGNAL", "gate")
    finally:
        gpu.stop()
    run = through().describe("on-gpu")
    assert (run["task_queue"], run["steps"]) == ("gpu", [])


def test_namespaces_are_apart(cluster: DevCluster, through: Through, ended: Ended) -> None:
    with refused(404):
        workflowd.Worker(cluster.addresses()[0], namespace="nowhere").describe("x")
    through().conn.request("POST", "/api/namespaces", {"name": "team"})
    team = workflowd.Worker(addresses=cluster.addresses(), namespace="team")
    team.workflow("OfTheTeam")(lambda ctx: ctx.activity("whose", ctx.input))
    team.activity("whose")(lambda text: f"the team's {text}")
    with refused(400):
        team.start("Idle", "", "mine")  # registered elsewhere
    team.run(block=False)
    try:
        wait_for("it is registered", lambda: team._registered_epoch == team.conn.epoch)
        team.start("OfTheTeam", "own", "mine")
        run = wait_for("it ends", lambda: _closed(team, "mine"))
    finally:
        team.stop()
    assert run["output"] == "the team's own"
    with refused(404):
        through().describe("mine")


def _closed(client: workflowd.Worker, workflow_id: str) -> dict | None:
    run = client.describe(workflow_id)
    return run if "closed_at" in run else None


# ---- traces -----------------------------------------------------------------------------------

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = f"00-{TRACE}-00f067aa0ba902b7-01"


def test_a_run_is_part_of_the_callers_trace(
    through: Through, ended: Ended, spans: OtlpReceiver
) -> None:
    through().start("Traced", "", "traced", traceparent=CALLER, tracestate="vendor=1")
    told = json.loads(ended("traced")["output"])
    assert told["tracestate"] == told["activity"]["tracestate"] == "vendor=1"
    own, activity = told["traceparent"].split("-"), told["activity"]["traceparent"].split("-")
    assert own[1] == activity[1] == TRACE
    assert len({own[2], activity[2], "00f067aa0ba902b7"}) == 3
    assert set(seen["traced"]) == {told["traceparent"]}
    wait_for("its spans arrive", lambda: {own[2], activity[2]} <= set(spans.spans))
    assert spans.spans[own[2]].parent_span_id.hex() == "00f067aa0ba902b7"
    assert spans.spans[activity[2]].parent_span_id.hex() == own[2]
    assert spans.spans[activity[2]].name == "activity trace-of"


def test_a_malformed_trace_is_ignored(through: Through, ended: Ended) -> None:
    client = through()
    client.start_workflow("Traced", "", "mistraced", traceparent=CALLER[:-1], tracestate="a=1")
    told = json.loads(ended("mistraced")["output"])
    assert told["traceparent"].split("-")[1] != TRACE  # it begins a trace of its own
    assert told["tracestate"] == ""
