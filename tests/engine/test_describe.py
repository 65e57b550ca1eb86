from __future__ import annotations

import engine_harness as make
from engine_harness import EngineHarness

from raftflow.engine.commands import AwaitSignal, CancelRun, RecordMarker, StartTimer
from raftflow.engine.describe import (
    LeaseFate,
    activity_task,
    decision_task,
    lease_fate,
    waiting_on,
)
from raftflow.engine.limits import DEFAULT_LIMITS
from raftflow.engine.state import StepKind, StepStatus, TaskState


def busy() -> EngineHarness:
    harness = EngineHarness()
    harness.register("Order")
    harness.do(make.start("w", input=b"in"))
    harness.do(make.signal("w", "later", b"x"))
    harness.decide(
        "w",
        make.activity(1, "charge", input=b"10", task_queue="gpu"),
        StartTimer(step_name="nap", sequence=2, delay_ms=50),
        AwaitSignal(step_name="gate", sequence=3, signal_name="go"),
    )
    harness.do(make.signal("w", "go", b"yes"))
    return harness


def test_a_decision_task_shows_all_that_happened() -> None:
    harness = busy()
    token = harness.grant_decision("w")
    task = decision_task(harness.run("w"), DEFAULT_LIMITS)
    assert (task.token, task.history_length, task.input) == (token, 7, b"in")
    assert task.timeout_ms == 10_000
    assert [step.sequence for step in task.steps] == [1, 2, 3]
    gate = task.steps[2]
    assert (gate.status.name, gate.output, gate.resolved_event_id) == ("COMPLETED", b"yes", 7)
    assert [signal.name for signal in task.signals] == ["later"]


def test_a_task_stays_as_it_is_when_the_run_moves_on() -> None:
    harness = busy()
    harness.grant_activity("w", 1)
    run = harness.run("w")
    task = decision_task(run, DEFAULT_LIMITS)
    run.steps[0].attempts = 9
    assert [(step.status.name, step.attempts) for step in task.steps] == [
        ("SCHEDULED", 1),
        ("SCHEDULED", 0),
        ("COMPLETED", 0),
    ]
    assert task.steps[2] is run.steps[2]  # it has its result: nothing changes it any more


def test_an_activity_task_has_what_the_worker_needs() -> None:
    harness = busy()
    token = harness.grant_activity("w", 1)
    run = harness.run("w")
    task = activity_task(run, run.steps[0])
    assert (task.token, task.step_name, task.sequence, task.attempt) == (token, "charge", 1, 1)
    assert (task.input, task.task_queue, task.lease_duration_ms) == (b"10", "gpu", 30_000)


def test_what_a_wait_says() -> None:
    harness = busy()
    task, activity, timer = waiting_on(harness.run("w"))
    assert (task.task, task.task_queue) == (TaskState.QUEUED, "default")
    assert (activity.step_name, activity.task, activity.attempt) == ("charge", TaskState.QUEUED, 1)
    assert timer.due_ms == make.BIRTH_MS + 50


def test_the_fate_of_a_lease() -> None:
    harness = busy()
    token = harness.grant_activity("w", 1)
    assert lease_fate(harness.run("w"), 1, token) == LeaseFate(True, False, "")
    assert not lease_fate(harness.run("w"), 2, "").held
    harness.do(make.complete_activity("w", token))
    done = lease_fate(harness.run("w"), 1, token)
    assert (done.held, done.cancelled) == (False, False)
    assert lease_fate(None, 1, token).cancelled


def test_what_arrived_is_no_result_yet() -> None:
    harness = busy()
    token = harness.grant_activity("w", 1)
    for _ in range(2):
        stale = harness.grant_decision("w")
        harness.do(make.signal("w", "later"))
        harness.do(make.complete_decision("w", stale))
    harness.grant_decision("w")
    harness.do(make.complete_activity("w", token, b"paid"))
    run = harness.run("w")
    step = decision_task(run, DEFAULT_LIMITS).steps[0]
    assert (step.status.name, step.output) == ("SCHEDULED", b"")
    assert [(wait.kind, wait.arrived) for wait in waiting_on(run)] == [
        ("WORKFLOW_TASK", False),
        ("ACTIVITY", True),
        ("TIMER", False),
    ]
    assert not lease_fate(run, 1, token).held


def test_what_a_decision_is_told_of_its_run() -> None:
    harness = EngineHarness()
    harness.register("Order")
    harness.do(make.start("w"))
    harness.decide(
        "w",
        RecordMarker(step_name="v", sequence=1, marker="version", data=b"2"),
        make.activity(2, "a"),
    )
    cancel = CancelRun(
        namespace="default", workflow_id="w", run_id="", reason="why", request_id="", graceful=True
    )
    harness.do(cancel)
    run = harness.run("w")
    task = decision_task(run, DEFAULT_LIMITS)
    assert (task.cancel_requested_event_id, task.cancel_reason) == (4, "why")
    assert task.cancel_requested_ms == make.BIRTH_MS
    marker = task.steps[0]
    assert (marker.kind, marker.marker, marker.output) == (StepKind.MARKER, "version", b"2")
    assert (marker.status, marker.resolved_event_id) == (StepStatus.COMPLETED, 2)
