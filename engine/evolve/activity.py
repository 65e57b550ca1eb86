"""Activity steps and the task that each offers: queued, out with a worker, or in backoff."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from raftflow.engine.commands import TimerKind
from raftflow.engine.deadlines import deadline_of
from raftflow.engine.digest import of_parts
from raftflow.engine.effects import (
    DeliverTask,
    DropLease,
    HoldLease,
    OfferActivity,
    WithdrawTask,
)
from raftflow.engine.events import StepCompleted, StepFailed, StepScheduled
from raftflow.engine.evolve import step as steps
from raftflow.engine.evolve.decision import settle, wake
from raftflow.engine.evolve.recorder import Recorder
from raftflow.engine.state import Run, Step, StepKind, StepStatus, TaskState
from raftflow.engine.transitions import (
    ActivityLeased,
    ActivityRequeued,
    ActivityReturned,
    ActivityWithdrawn,
    AttemptExpired,
    AttemptFailed,
    HeartbeatRecorded,
    LeaseKept,
)

M = TypeVar("M", bound=steps.StepMove)


def follow_deadline(rec: Recorder, run: Run, step: Step, armed_ms: int) -> None:
    """The step's timeouts follow its task: keep the one timer row at whichever ends first.
    ``armed_ms`` is where it was, 0 when it was not armed."""
    deadline = deadline_of(step)
    due_ms = 0 if deadline is None else deadline.fire_at_ms
    if due_ms == armed_ms:
        return
    if armed_ms:
        rec.disarm(run, TimerKind.ACTIVITY_TIMEOUT, step.sequence, armed_ms)
    if due_ms:
        rec.arm(run, TimerKind.ACTIVITY_TIMEOUT, step.sequence, due_ms)


def timed(make: Callable[[Recorder, Run, M], None]) -> Callable[[Recorder, Run, M], None]:
    """Make a move of a step's task, and let its deadline follow."""

    def make_timed(rec: Recorder, run: Run, move: M) -> None:
        step = run.steps[move.sequence - 1]
        before = deadline_of(step)
        make(rec, run, move)
        follow_deadline(rec, run, step, 0 if before is None else before.fire_at_ms)

    return make_timed


def outcome_of_success(output: bytes) -> bytes:
    return of_parts("completed", output)


def outcome_of_failure(error: str, error_type: str) -> bytes:
    return of_parts("failed", error_type, error)


def scheduled(rec: Recorder, run: Run, body: StepScheduled) -> None:
    event_id = rec.event(run, body, len(body.input))
    step = Step(
        sequence=body.sequence,
        kind=StepKind.ACTIVITY,
        name=body.step_name,
        status=StepStatus.SCHEDULED,
        scheduled_event_id=event_id,
        scheduled_ms=rec.time_ms,
        input=body.input,
        retry=body.retry,
        task_queue=body.task_queue,
        start_to_close_timeout_ms=body.start_to_close_timeout_ms,
        schedule_to_close_timeout_ms=body.schedule_to_close_timeout_ms,
        schedule_to_start_timeout_ms=body.schedule_to_start_timeout_ms,
        priority=body.priority,
    )
    steps.opened(rec, run, step)
    _queue(rec, run, step)
    follow_deadline(rec, run, step, 0)


@timed
def leased(rec: Recorder, run: Run, move: ActivityLeased) -> None:
    step = run.steps[move.sequence - 1]
    task = step.task
    task.state = TaskState.LEASED
    task.token = move.token
    task.worker_id = move.worker_id
    task.node = move.node
    task.leased_ms = rec.time_ms
    task.duration_ms = move.duration_ms
    step.attempts = task.attempt
    run.leased_tasks += 1
    settle(run)
    rec.run(run)
    rec.step(run, step)
    rec.effects.append(HoldLease(run.key, step.sequence, move.token, move.duration_ms))
    rec.effects.append(DeliverTask(run.key, step.sequence, move.token, move.node, move.poll_id))


@timed
def returned(rec: Recorder, run: Run, move: ActivityReturned) -> None:
    step = run.steps[move.sequence - 1]
    _release(rec, run, step)
    step.attempts -= 1
    _queue(rec, run, step)


@timed
def attempt_expired(rec: Recorder, run: Run, move: AttemptExpired) -> None:
    _release(rec, run, run.steps[move.sequence - 1], expired=True)


@timed
def attempt_failed(rec: Recorder, run: Run, move: AttemptFailed) -> None:
    step = run.steps[move.sequence - 1]
    if step.task.state is TaskState.LEASED:
        _note(step, outcome_of_failure(move.error, move.error_type))
        _release(rec, run, step)
    step.last_error = move.error
    if move.pause_ms <= 0:
        _queue(rec, run, step)
        return
    task = step.task
    task.state = TaskState.BACKOFF
    task.attempt = step.attempts + 1
    task.backoff_until_ms = rec.time_ms + move.pause_ms
    rec.step(run, step)
    rec.arm(run, TimerKind.RETRY, step.sequence, task.backoff_until_ms)


@timed
def requeued(rec: Recorder, run: Run, move: ActivityRequeued) -> None:
    step = run.steps[move.sequence - 1]
    rec.disarm(run, TimerKind.RETRY, step.sequence, step.task.backoff_until_ms)
    _queue(rec, run, step)


def heartbeat(rec: Recorder, run: Run, move: HeartbeatRecorded) -> None:
    step = run.steps[move.sequence - 1]
    step.heartbeat_details = move.details
    rec.step(run, step)


def lease_kept(rec: Recorder, run: Run, move: LeaseKept) -> None:
    """Of an activity, or of the decision."""
    task = run.steps[move.sequence - 1].task if move.sequence else run.decision
    rec.keep_lease(run, move.sequence, task)


@timed
def withdrawn(rec: Recorder, run: Run, move: ActivityWithdrawn) -> None:
    _drop_task(rec, run, run.steps[move.sequence - 1], cancelled=False)


@timed
def completed(rec: Recorder, run: Run, body: StepCompleted) -> None:
    step = run.steps[body.sequence - 1]
    event_id = rec.event(run, body, len(body.output))
    _finish(rec, run, step, body)
    step.output = body.output
    steps.resolved(rec, run, step, StepStatus.COMPLETED, event_id)
    wake(rec, run)


@timed
def failed(rec: Recorder, run: Run, body: StepFailed) -> None:
    step = run.steps[body.sequence - 1]
    event_id = rec.event(run, body, len(body.error))
    _finish(rec, run, step, body)
    step.error = body.error
    step.error_type = body.error_type
    step.non_retryable = body.non_retryable
    steps.resolved(rec, run, step, StepStatus.FAILED, event_id)
    wake(rec, run)


@timed
def arrived(rec: Recorder, run: Run, body: StepCompleted | StepFailed) -> None:
    _finish(rec, run, run.steps[body.sequence - 1], body)
    steps.arrived(rec, run, body)


def drop(rec: Recorder, run: Run, step: Step) -> None:
    """The work is no longer wanted, wherever it is."""
    deadline = deadline_of(step)
    if deadline is not None:
        rec.disarm(run, TimerKind.ACTIVITY_TIMEOUT, step.sequence, deadline.fire_at_ms)
    _drop_task(rec, run, step, cancelled=True)


def _drop_task(rec: Recorder, run: Run, step: Step, *, cancelled: bool) -> None:
    task = step.task
    if task.state is TaskState.LEASED:
        _release(rec, run, step, cancelled=cancelled)
    elif task.state is TaskState.QUEUED:
        rec.effects.append(WithdrawTask(run.key, step.sequence))
    elif task.state is TaskState.BACKOFF:
        rec.disarm(run, TimerKind.RETRY, step.sequence, task.backoff_until_ms)
        task.backoff_until_ms = 0
    task.state = TaskState.NONE


def _queue(rec: Recorder, run: Run, step: Step) -> None:
    task = step.task
    task.state = TaskState.QUEUED
    task.attempt = step.attempts + 1
    task.backoff_until_ms = 0
    rec.step(run, step)
    rec.effects.append(
        OfferActivity(
            run.key, step.sequence, task.attempt, step.name, step.task_queue, step.priority
        )
    )


def _finish(rec: Recorder, run: Run, step: Step, body: StepCompleted | StepFailed) -> None:
    """The last attempt is over, unless it was before."""
    if step.task.state is not TaskState.LEASED:
        return
    if isinstance(body, StepCompleted):
        _note(step, outcome_of_success(body.output))
    else:
        _note(step, outcome_of_failure(body.error, body.error_type))
    _release(rec, run, step)


def _note(step: Step, outcome: bytes) -> None:
    """A repeated completion is recognised by its token and what it says."""
    step.task.last_token = step.task.token
    step.task.last_outcome = outcome


def _release(
    rec: Recorder, run: Run, step: Step, *, cancelled: bool = False, expired: bool = False
) -> None:
    task = step.task
    rec.effects.append(
        DropLease(run.key, step.sequence, task.token, cancelled=cancelled, expired=expired)
    )
    task.state = TaskState.NONE
    task.token = ""
    task.worker_id = ""
    task.node = ""
    task.leased_ms = 0
    task.duration_ms = 0
    run.leased_tasks -= 1
    settle(run)
    rec.run(run)
    rec.step(run, step)
