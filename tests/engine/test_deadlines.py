"""Which timeout runs; scripts tell what a missed one does (testdata/timer/timeouts.txt)."""

from __future__ import annotations

from raftflow.engine.deadlines import deadline_of, outlasts
from raftflow.engine.state import Step, StepKind, StepStatus, TaskState


def step() -> Step:
    return Step(
        sequence=1,
        kind=StepKind.ACTIVITY,
        name="a",
        status=StepStatus.SCHEDULED,
        scheduled_event_id=2,
        scheduled_ms=1_000,
    )


def test_most_steps_have_none() -> None:
    assert deadline_of(step()) is None
    assert outlasts(step(), 10**12)


def test_the_first_to_end_runs() -> None:
    it = step()
    it.schedule_to_close_timeout_ms = 500
    it.schedule_to_start_timeout_ms = 100
    it.start_to_close_timeout_ms = 50
    it.task.state = TaskState.QUEUED
    assert [(d.fire_at_ms, d.error_type) for d in [deadline_of(it)] if d] == [
        (1_100, "ScheduleToStartTimeout")
    ]
    it.task.state, it.task.leased_ms, it.attempts = TaskState.LEASED, 1_090, 1
    assert [(d.fire_at_ms, d.final) for d in [deadline_of(it)] if d] == [(1_140, False)]
    it.task.leased_ms = 1_480
    assert [(d.fire_at_ms, d.final) for d in [deadline_of(it)] if d] == [(1_500, True)]
    it.status = StepStatus.COMPLETED
    assert deadline_of(it) is None


def test_time_for_another_attempt() -> None:
    it = step()
    it.schedule_to_close_timeout_ms = 500
    assert outlasts(it, 1_499)
    assert not outlasts(it, 1_500)
