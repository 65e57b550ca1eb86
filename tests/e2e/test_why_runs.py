"""`raftflow why` on three real nodes: each cause is brought about, named, shown, and cured by what
the answer says to do. A follower is asked: what the leader alone knows has to come from there."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from dev_cluster import HttpError, dev_cluster, wait_for
from why_bench import Bench, Why, activity, retrying

from raftflow_sdk import Context

pytestmark = pytest.mark.cluster

LEASE_MS = 4_000
HISTORY_EVENTS = 30
PAYLOAD_BYTES = 50_000
CALLS_PER_SECOND = 150


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    settings = {
        "RAFTFLOW_LEASE_MS": LEASE_MS,
        "RAFTFLOW_LIMITS_HISTORY_EVENTS": HISTORY_EVENTS,
        "RAFTFLOW_LIMITS_PAYLOAD_BYTES": PAYLOAD_BYTES,
        "RAFTFLOW_LIMITS_NAMESPACE_CALLS_PER_SECOND": CALLS_PER_SECOND,
    }
    directory: Path = tmp_path_factory.mktemp("why")
    environment = {name: str(value) for name, value in settings.items()}
    with dev_cluster(directory / "cluster", environment=environment) as cluster:
        running = Bench(cluster, cluster.followers()[0])
        running.call("POST", "/api/namespaces", {"name": "shop"})
        for namespace in ("", "shop"):
            running.register("Order", "Child", namespace=namespace)
        yield running


@pytest.fixture
def run_id() -> str:
    """A workflow id, and the name of the queue that its workflow tasks have for themselves."""
    return f"order-{uuid4().hex[:8]}"


def begin(bench: Bench, name: str, *commands: dict[str, Any], **more: Any) -> None:
    """Start the run ``name`` on the queue ``name``, with a first decision when there is one."""
    bench.start(name, "Order", task_queue=name, **more)
    if commands:
        bench.decide("Order", *commands, queue=name)


# ---- tasks that nobody takes --------------------------------------------------------------------


def test_nobody_polls_for_it(bench: Bench, run_id: str) -> None:
    name = f"charge-{run_id}"  # which nobody has polled for lately
    begin(bench, run_id, activity(name))
    with bench.polling(["pack"], worker="packer", queue="packing"):
        answer = bench.why_run(run_id)
    assert answer.causes == ["run_waits", "task_queued", "no_poller"]
    shown = answer.evidence("no_poller")
    assert (shown["queue"], shown["name"], shown["kind"]) == (run_id, name, "activity")
    assert "packing" in shown["queues_polled"]
    assert "'packing'" in answer.document["answer"]
    bench.complete(bench.take(name, queue=run_id), output="paid")  # as the next step says
    assert bench.why_task(run_id, name).causes == ["step_done"]


def test_who_polled_has_gone(bench: Bench, run_id: str) -> None:
    begin(bench, run_id, activity("charge"))
    bench.complete(bench.take("charge", queue=run_id, worker="short-lived"), error="no")
    bench.decide("Order", activity("charge", 2), queue=run_id)
    answer = bench.why_task(run_id, "charge")
    assert answer.causes[0] == "task_queued"
    assert answer.causes[1] in ("polled", "no_poller")  # as long as it may be between two polls


def test_its_workers_poll_another_queue(bench: Bench, run_id: str) -> None:
    begin(bench, run_id, activity("refund", task_queue=f"{run_id}-money"))
    with bench.polling(["refund"], worker="cashier", queue=f"{run_id}-cash"):
        answer = bench.why_task(run_id, "refund")
        assert answer.causes == ["task_queued", "no_poller", "poller_other_queue"]
        assert answer.evidence("poller_other_queue")["their_queues"] == [f"{run_id}-cash"]
    bench.take("refund", queue=f"{run_id}-money", worker="cashier")
    assert bench.why_task(run_id, "refund").causes == ["lease_held"]


def test_its_workers_are_in_another_namespace(bench: Bench, run_id: str) -> None:
    begin(bench, run_id, activity(f"ship-{run_id}"))
    with bench.polling([f"ship-{run_id}"], worker="porter", queue=run_id, namespace="shop"):
        answer = bench.why_task(run_id, f"ship-{run_id}")
    assert answer.causes == ["task_queued", "no_poller", "poller_other_namespace"]
    assert answer.evidence("poller_other_namespace")["their_namespaces"] == ["shop"]
    assert "'default'" in answer.next
    bench.take(f"ship-{run_id}", queue=run_id)


def test_its_workers_do_not_know_the_name(bench: Bench, run_id: str) -> None:
    begin(bench, run_id, activity("charge-v2"))
    with bench.polling(["charge", "refund"], worker="old-cashier", queue=run_id):
        answer = bench.why_task(run_id, "1")
    assert answer.causes == ["task_queued", "poller_lacks_name"]
    shown = answer.evidence("poller_lacks_name")
    assert shown["known"] == ["charge", "refund"]
    assert [each["worker"] for each in shown["pollers"]] == ["old-cashier"]
    bench.take("charge-v2", queue=run_id)


def test_a_worker_does_not_know_the_workflow_type(bench: Bench, run_id: str) -> None:
    begin(bench, run_id)
    with bench.polling(["Child"], worker="children", queue=run_id, workflows=True):
        answer = bench.why_run(run_id)
    assert answer.causes == ["run_waits", "task_queued", "poller_lacks_name"]
    assert answer.evidence("poller_lacks_name")["kind"] == "workflow"
    bench.decide("Order", {"type": "complete_workflow", "output": ""}, queue=run_id)
    assert bench.why_run(run_id).causes == ["completed"]


def test_all_workers_are_busy(bench: Bench, run_id: str) -> None:
    begin(bench, run_id, activity("bake", 1), activity("bake", 2))
    task = bench.take("bake", queue=run_id, worker="baker")
    answer = bench.why_task(run_id, "2")
    assert answer.causes == ["task_queued", "workers_busy"]
    shown = answer.evidence("workers_busy")
    assert (shown["queued"], shown["leases"]) == (1, 1)
    assert [each["worker"] for each in shown["workers"]] == ["baker"]
    bench.complete(task, output="")
    bench.take("bake", queue=run_id, worker="another")  # more workers


# ---- tasks that somebody has --------------------------------------------------------------------


def test_who_holds_the_lease_and_until_when(bench: Bench, run_id: str) -> None:
    begin(bench, run_id, activity("bake"))
    task = bench.take("bake", queue=run_id, worker="baker")
    answer = bench.why_run(run_id)
    assert answer.causes == ["run_waits", "lease_held"]
    shown = answer.evidence("lease_held")
    assert (shown["worker"], shown["node"]) == ("baker", bench.node)
    assert shown["leased_at"] < shown["until"]
    assert (shown["attempt"], shown["lease_ms"]) == (1, LEASE_MS)
    bench.complete(task, output="")


def test_a_frozen_worker_and_what_comes_of_it(bench: Bench, run_id: str) -> None:
    name, task, answer = _seen_silent(bench, run_id)
    shown = answer.evidence("worker_silent")
    assert shown["worker"] == "frozen"
    assert LEASE_MS / 2 < shown["silent_ms"] <= LEASE_MS * 2
    answer = bench.until(lambda: bench.why_task(name, "bake"), "retry_backoff", "lease_expired")
    assert answer.evidence("retry_backoff")["last_error"] == "lease expired"
    # What it sends at last is not taken, and then that is the cause.
    with pytest.raises(HttpError, match="LEASE_LOST"):
        bench.complete(task, output="late")
    answer = bench.why_task(name, "bake")
    assert answer.causes == ["retry_backoff", "result_late"]
    assert answer.evidence("result_late")["reason"] == "LEASE_LOST"


def _seen_silent(bench: Bench, run_id: str) -> tuple[str, dict[str, Any], Why]:
    """A worker that is silent for half of its lease is seen for the other half: a machine that
    stalls for that long gets another one to look at."""
    for number in range(5):
        name = f"{run_id}-{number}"
        begin(bench, name, activity("bake", **retrying(2, 60_000)))
        task = bench.take("bake", queue=name, worker="frozen")
        answer = wait_for("something else is said", lambda at=name: _not_only_held(bench, at))
        if answer.causes == ["lease_held", "worker_silent"]:
            return name, task, answer
    raise AssertionError(f"no silence was seen; the last answer was {answer.document}")


def _not_only_held(bench: Bench, name: str) -> Why | None:
    answer = bench.why_task(name, "bake")
    return None if answer.causes == ["lease_held"] else answer


def test_a_retry_waits_for_its_time(bench: Bench, run_id: str) -> None:
    begin(bench, run_id, activity("charge", **retrying(3, 1_500)))
    bench.complete(bench.take("charge", queue=run_id), error="card declined")
    answer = bench.why_run(run_id)
    assert answer.causes == ["run_waits", "retry_backoff"]
    shown = answer.evidence("retry_backoff")
    assert (shown["last_error"], shown["attempts"]) == ("card declined", 1)
    assert 0 < shown["pause_ms"] <= 1_500
    bench.take("charge", queue=run_id)  # it was right to wait


# ---- what a run waits for -----------------------------------------------------------------------


def test_a_timer(bench: Bench, run_id: str) -> None:
    timer = {"type": "start_timer", "step_name": "soon", "sequence": 1, "delay_ms": 1_000}
    begin(bench, run_id, timer)
    answer = bench.why_run(run_id)
    assert answer.causes == ["run_waits", "timer_due"]
    assert answer.link("timer_due")["severity"] == "waiting"
    assert 0 < answer.evidence("timer_due")["left_ms"] <= 1_000
    wait_for("it has fired", lambda: bench.why_task(run_id, "soon").causes == ["step_done"])


def test_a_signal_and_the_command_that_sends_it(bench: Bench, run_id: str) -> None:
    begin(bench, run_id, _await("approved"))
    answer = bench.why_run(run_id)
    assert answer.causes == ["run_waits", "signal_awaited"]
    assert answer.evidence("signal_awaited")["signal"] == "approved"
    bench.do(answer.next)
    assert bench.why_task(run_id, "approval").causes == ["step_done"]


def test_a_signal_that_came_under_another_name(bench: Bench, run_id: str) -> None:
    begin(bench, run_id, _await("approved"))
    for _ in range(2):
        bench.run("workflow", "signal", run_id, "aproved")
    answer = bench.why_task(run_id, "approval")
    assert answer.causes == ["signal_awaited", "signal_other_name"]
    assert answer.evidence("signal_other_name") == {"awaited": "approved", "came": {"aproved": 2}}
    bench.do(answer.next)
    assert bench.why_task(run_id, "approval").causes == ["step_done"]


def test_a_child_and_what_the_child_waits_for(bench: Bench, run_id: str) -> None:
    child = f"{run_id}-child"
    begin(bench, run_id, _child(child, queue=child))
    answer = bench.until(
        lambda: bench.why_run(run_id),
        *("run_waits", "child_awaited", "run_waits", "task_queued", "no_poller"),
    )
    assert answer.evidence("child_awaited")["workflow_id"] == child
    assert answer.evidence("no_poller")["queue"] == child
    bench.decide("Child", {"type": "complete_workflow", "output": ""}, queue=child)
    bench.until(lambda: bench.why_task(run_id, "child"), "step_done")


def test_a_paused_run(bench: Bench, run_id: str) -> None:
    begin(bench, run_id)
    bench.run("workflow", "pause", run_id, "--reason", "the bank is closed")
    answer = bench.why_run(run_id)
    assert answer.causes == ["suspended", "paused"]
    assert answer.evidence("paused")["reason"] == "the bank is closed"
    bench.do(answer.next, containing="audit")
    bench.do(answer.next, containing="unpause")
    assert bench.status(run_id) == "WAITING"


# ---- code that does not fit ---------------------------------------------------------------------


def test_nondeterminism_says_at_which_step(bench: Bench, run_id: str) -> None:
    def before(ctx: Context) -> object:
        return ctx.activity("charge")

    def changed(ctx: Context) -> object:
        return ctx.activity("reserve")

    workflow_type = _own_type(bench, run_id)
    bench.start(run_id, workflow_type)
    bench.replay(workflow_type, before)
    bench.complete(bench.take("charge"), output="paid")
    bench.replay(workflow_type, changed)
    answer = bench.why_run(run_id)
    assert answer.causes == ["suspended", "nondeterminism"]
    shown = answer.evidence("nondeterminism")
    assert shown["sequence"] == 1
    assert "'charge'" in shown["history"]
    assert "'reserve'" in shown["code"]
    bench.do(answer.next)  # with the right code at hand
    bench.replay(workflow_type, before)
    assert bench.status(run_id) == "COMPLETED"


def test_a_worker_older_than_the_run(bench: Bench, run_id: str) -> None:
    def new(ctx: Context) -> object:
        ctx.version("fees", 1, 2)
        return ctx.activity("charge")

    def old(ctx: Context) -> object:
        ctx.version("fees", 1, 1)
        return ctx.activity("charge")

    workflow_type = _own_type(bench, run_id)
    bench.start(run_id, workflow_type)
    bench.replay(workflow_type, new)
    bench.complete(bench.take("charge"), output="paid")
    bench.replay(workflow_type, old)
    answer = bench.why_run(run_id)
    assert answer.causes == ["suspended", "version_marker"]
    shown = answer.evidence("version_marker")
    assert (shown["version"], shown["code_most"]) == (2, 1)
    assert "replace the old workers" in answer.next
    bench.do(answer.next)
    bench.replay(workflow_type, new)
    assert bench.status(run_id) == "COMPLETED"


def test_code_that_cannot_be_replayed(bench: Bench, run_id: str) -> None:
    def swallows(ctx: Context) -> object:
        try:
            return ctx.activity("charge")
        except BaseException:  # noqa: BLE001 - the very mistake
            return "done"

    workflow_type = _own_type(bench, run_id)
    bench.start(run_id, workflow_type)
    bench.replay(workflow_type, swallows)
    answer = bench.why_run(run_id)
    assert answer.causes == ["failed", "replay_error"]
    assert "caught its suspension" in answer.evidence("replay_error")["error"]
    bench.do(answer.next)
    assert bench.status(run_id) == "WAITING"


def test_a_history_over_its_limit(bench: Bench, run_id: str) -> None:
    with pytest.raises(HttpError, match="LIMIT_EXCEEDED"):
        begin(bench, run_id, *(activity("charge", n) for n in range(1, HISTORY_EVENTS + 1)))
    answer = bench.why_run(run_id)
    assert answer.causes == ["suspended", "history_limit"]
    shown = answer.evidence("history_limit")
    assert (shown["limit"], shown["unit"]) == (HISTORY_EVENTS, "events")
    bench.do(answer.next, containing="terminate")
    assert bench.why_run(run_id).causes == ["terminated"]


# ---- calls that are refused ---------------------------------------------------------------------


def test_a_result_that_is_too_large(bench: Bench, run_id: str) -> None:
    begin(bench, run_id, activity("report", **retrying(2, 0)))
    task = bench.take("report", queue=run_id)
    with pytest.raises(HttpError, match="PAYLOAD_TOO_LARGE"):
        bench.complete(task, output="x" * (PAYLOAD_BYTES + 1))
    answer = bench.why_run(run_id)
    assert answer.causes == ["run_waits", "lease_held", "payload_refused"]
    shown = answer.evidence("payload_refused")
    assert (shown["limit"], shown["value"]) == ("limits.payload_bytes", PAYLOAD_BYTES)
    assert shown["operation"] == "CompleteTask"
    bench.complete(task, output="s3://report")  # elsewhere, and its address here
    assert bench.why_task(run_id, "report").causes == ["step_done"]


def test_a_start_that_was_too_large(bench: Bench, run_id: str) -> None:
    other = next(node for node in bench.cluster.ids() if node != bench.node)
    body = {"type": "Order", "workflow_id": run_id, "input": "x" * (PAYLOAD_BYTES + 1)}
    with pytest.raises(HttpError, match="PAYLOAD_TOO_LARGE"):
        bench.call("POST", "/api/workflows", body, node=other)
    answer = bench.why_run(run_id)
    assert answer.causes == ["no_such_run", "payload_refused"]
    assert answer.evidence("payload_refused")["node"] == other


def test_a_decision_that_is_too_large(bench: Bench, run_id: str) -> None:
    begin(bench, run_id)
    with pytest.raises(HttpError, match="PAYLOAD_TOO_LARGE"):
        bench.decide("Order", activity("a", input="x" * (PAYLOAD_BYTES + 1)), queue=run_id)
    answer = bench.why_run(run_id)
    assert answer.causes == ["run_waits", "decision_refused", "payload_refused"]
    bench.decide("Order", activity("a"), queue=run_id)
    assert "decision_refused" not in bench.why_run(run_id).causes


def test_a_decision_that_no_cluster_takes(bench: Bench, run_id: str) -> None:
    begin(bench, run_id)
    with pytest.raises(HttpError, match="BAD_SEQUENCE"):
        bench.decide("Order", activity("a", 7), queue=run_id)
    answer = bench.why_run(run_id)
    assert answer.causes == ["run_waits", "decision_refused"]
    assert answer.evidence("decision_refused")["refusal"] == "sequence is 7, the next one is 1"


def test_a_quota_that_is_used_up(bench: Bench, run_id: str) -> None:
    namespace = f"small-{run_id}"
    bench.run("namespace", "create", namespace)
    bench.register("Order", namespace=namespace)
    bench.run("namespace", "quota", namespace, "--max-open-runs", "1")
    bench.start("first", "Order", namespace=namespace)
    with pytest.raises(HttpError, match="QUOTA_EXCEEDED"):
        bench.start(run_id, "Order", namespace=namespace)
    answer = bench.why_run(run_id, namespace=namespace)
    assert answer.causes == ["no_such_run", "quota_exceeded"]
    assert answer.evidence("quota_exceeded")["value"] == 1
    bench.do(answer.next)
    bench.start(run_id, "Order", namespace=namespace)


def test_too_many_calls_in_a_second(bench: Bench, run_id: str) -> None:
    namespace = f"busy-{run_id}"
    bench.run("namespace", "create", namespace)
    bench.register("Order", namespace=namespace)
    bench.start(run_id, "Order", namespace=namespace)
    host, port = bench.cluster.http(bench.node).split(":")
    poll = (
        f"GET /api/workflow-tasks?types=Other HTTP/1.1\r\nHost: x\r\n"
        f"X-Workflowd-Namespace: {namespace}\r\nContent-Length: 0\r\n\r\n"
    )
    unknown = poll.replace("types=Other", "nonsense=1")  # answered at once
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall((unknown * (2 * CALLS_PER_SECOND)).encode())
        wait_for("some are refused", lambda: b"RATE_LIMITED" in connection.recv(1 << 20))

    def asked() -> Why | None:
        try:  # this very question is a call of the namespace
            return bench.why_run(run_id, namespace=namespace)
        except HttpError:
            return None

    answer: Why = wait_for("there is room again", asked)
    assert answer.causes == ["run_waits", "task_queued", "no_poller", "rate_limited"]
    assert answer.evidence("rate_limited")["limit"] == "limits.namespace_calls_per_second"

    def decided() -> bool:
        with contextlib.suppress(HttpError):  # so is each try of this
            bench.decide("Order", {"type": "complete_workflow", "output": ""}, namespace=namespace)
            return True
        return False

    wait_for("a worker gets on, too", decided)


# ---- runs that are over, or not there -----------------------------------------------------------


def test_a_run_that_failed_and_the_step_that_failed_it(bench: Bench, run_id: str) -> None:
    begin(bench, run_id, activity("charge"))
    failed = {"error": "card declined", "error_type": "Declined"}
    bench.complete(bench.take("charge", queue=run_id, worker="cashier"), **failed)
    bench.decide("Order", {"type": "fail_workflow", **failed}, queue=run_id)
    answer = bench.why_run(run_id)
    assert answer.causes == ["failed", "step_failed"]
    shown = answer.evidence("step_failed")
    assert (shown["step"], shown["error_type"], shown["worker"]) == (
        *("charge", "Declined", "cashier"),
    )
    bench.do(answer.next)
    assert bench.status(run_id) == "WAITING"


def test_a_run_that_failed_with_its_child(bench: Bench, run_id: str) -> None:
    child = f"{run_id}-child"
    begin(bench, run_id, _child(child, queue=child))
    failed = {"type": "fail_workflow", "error": "no stock", "error_type": "Stock"}
    bench.decide("Child", failed, queue=child)
    bench.decide("Order", failed, queue=run_id)
    answer = bench.why_run(run_id)
    assert answer.causes == ["failed", "step_failed", "failed"]
    assert answer.document["links"][2]["evidence"]["workflow_id"] == child


def test_a_run_that_is_in_another_namespace(bench: Bench, run_id: str) -> None:
    bench.start(run_id, "Order", namespace="shop")
    answer = bench.why_run(run_id)
    assert answer.causes == ["no_such_run", "other_namespace"]
    assert '"no_such_run"' not in bench.do(answer.next)


def test_ids_and_steps_that_are_not_there(bench: Bench, run_id: str) -> None:
    assert bench.why_run(run_id).causes == ["no_such_run"]
    begin(bench, run_id, activity("charge"))
    answer = bench.why_task(run_id, "chrage")
    assert answer.causes == ["no_such_step"]
    assert answer.evidence("no_such_step")["steps"] == ["charge"]
    assert "charge" in bench.do(answer.next)


# ---- queues -------------------------------------------------------------------------------------


def test_a_queue_without_pollers(bench: Bench, run_id: str) -> None:
    name = f"charge-{run_id}"  # which nobody has polled for lately
    begin(bench, run_id, activity(name, 1), activity(name, 2))
    answer = bench.why_queue(run_id)
    assert answer.causes == ["queue_waits", "no_poller"]
    shown = answer.evidence("queue_waits")
    assert (shown["queued"], shown["names"]) == (2, {name: 2})
    for _ in range(2):
        bench.complete(bench.take(name, queue=run_id), output="")
    bench.decide("Order", {"type": "complete_workflow", "output": ""}, queue=run_id)
    assert bench.why_queue(run_id).causes == ["queue_empty"]


def test_a_queue_that_nobody_knows(bench: Bench, run_id: str) -> None:
    assert bench.why_queue(run_id).causes == ["no_such_queue"]


# ---- without a leader: last, since it takes nodes away ------------------------------------------


def test_nobody_leads(bench: Bench, run_id: str) -> None:
    begin(bench, run_id, activity(f"charge-{run_id}"))
    others = [node for node in bench.cluster.ids() if node != bench.node]
    wait_for("the follower has it", lambda: bench.why_task(run_id, "1"))
    bench.cluster.kill(*others)
    answer = bench.why_run(run_id)
    assert answer.causes[:2] == ["run_waits", "no_leader"]
    assert "no_quorum" in answer.causes
    for node in others:
        bench.cluster.start_node(node)
    bench.until(lambda: bench.why_run(run_id), "run_waits", "task_queued", "no_poller")


def _await(signal: str) -> dict[str, Any]:
    named = {"step_name": "approval", "sequence": 1, "signal_name": signal}
    return {"type": "await_signal", **named}


def _child(workflow_id: str, *, queue: str) -> dict[str, Any]:
    named = {"step_name": "child", "sequence": 1, "workflow_id": workflow_id}
    return {
        "type": "start_child_workflow",
        **named,
        "workflow_type": "Child",
        "input": "",
        "task_queue": queue,
    }


def _own_type(bench: Bench, name: str) -> str:
    workflow_type = f"Order-{name}"
    bench.register(workflow_type)
    return workflow_type
