"""The run's decision task: one at a time, queued, out with a worker, or pausing."""

from __future__ import annotations

from raftflow.engine.commands import TimerKind
from raftflow.engine.effects import (
    DeliverTask,
    DropLease,
    HoldLease,
    OfferDecision,
    WithdrawTask,
)
from raftflow.engine.evolve.recorder import Recorder
from raftflow.engine.state import Run, RunStatus, TaskState
from raftflow.engine.transitions import (
    DecisionApplied,
    DecisionExpired,
    DecisionLeased,
    DecisionRefused,
    DecisionRequeued,
    DecisionReturned,
    DecisionStaled,
    RunParked,
    RunResumed,
    RunSuspended,
)


def wake(rec: Recorder, run: Run) -> None:
    """Something happened that the code must see. A task that is queued or pausing will show it; one
    that is out with a worker has become stale and comes back."""
    if run.decision.state is TaskState.NONE and run.status is not RunStatus.PAUSED:
        _queue(rec, run)


def settle(run: Run) -> None:
    """RUNNING while work is out with a worker; runs that stand still keep their status."""
    if run.status is RunStatus.WAITING or run.status is RunStatus.RUNNING:
        run.status = RunStatus.RUNNING if run.leased_tasks else RunStatus.WAITING


def leased(rec: Recorder, run: Run, move: DecisionLeased) -> None:
    task = run.decision
    task.state = TaskState.LEASED
    task.attempt += 1
    task.token = move.token
    task.worker_id = move.worker_id
    task.node = move.node
    task.leased_ms = rec.time_ms
    task.duration_ms = move.duration_ms
    run.leased_tasks += 1
    settle(run)
    rec.run(run)
    rec.effects.append(HoldLease(run.key, 0, move.token, move.duration_ms))
    rec.effects.append(DeliverTask(run.key, 0, move.token, move.node, move.poll_id))


def returned(rec: Recorder, run: Run, _move: DecisionReturned) -> None:
    _release(rec, run)
    run.decision.attempt -= 1
    _queue(rec, run)


def expired(rec: Recorder, run: Run, _move: DecisionExpired) -> None:
    _release(rec, run, expired=True)
    _queue(rec, run)


def staled(rec: Recorder, run: Run, _move: DecisionStaled) -> None:
    run.stale_decisions += 1
    _release(rec, run)
    _queue(rec, run)


def refused(rec: Recorder, run: Run, move: DecisionRefused) -> None:
    run.decision_failures += 1
    run.decision_refusal = move.reason
    _release(rec, run)
    _pause(rec, run, move.pause_ms)


def applied(rec: Recorder, run: Run, move: DecisionApplied) -> None:
    task = run.decision
    task.last_token = task.token
    task.last_outcome = move.outcome
    task.attempt = 0
    run.decision_failures = 0
    run.decision_refusal = ""
    if not run.arrivals:  # else the pressure goes on
        run.stale_decisions = 0
    if run.status is RunStatus.UNKNOWN:
        run.status = RunStatus.WAITING
        run.suspended_reason = ""
    _release(rec, run)
    rec.run(run)


def requeued(rec: Recorder, run: Run, _move: DecisionRequeued) -> None:
    rec.disarm(run, TimerKind.DECISION_BACKOFF, 0, run.decision.backoff_until_ms)
    _queue(rec, run)


def parked(rec: Recorder, run: Run, move: RunParked) -> None:
    task = run.decision
    if move.outcome:
        task.last_token = task.token
        task.last_outcome = move.outcome
    run.decision_failures += 1
    run.decision_refusal = ""
    drop(rec, run, cancelled=False)
    run.status = RunStatus.UNKNOWN
    run.suspended_reason = move.reason
    _pause(rec, run, move.pause_ms)


def suspended(rec: Recorder, run: Run, move: RunSuspended) -> None:
    drop(rec, run, cancelled=False)
    run.status = RunStatus.PAUSED
    run.suspended_reason = move.reason
    rec.run(run)


def resumed(rec: Recorder, run: Run, _move: RunResumed) -> None:
    run.status = RunStatus.WAITING
    run.suspended_reason = ""
    settle(run)
    wake(rec, run)


def drop(rec: Recorder, run: Run, *, cancelled: bool) -> None:
    """Whatever the task was doing, it does no longer."""
    task = run.decision
    if task.state is TaskState.LEASED:
        _release(rec, run, cancelled=cancelled)
    elif task.state is TaskState.QUEUED:
        rec.effects.append(WithdrawTask(run.key, 0))
    elif task.state is TaskState.BACKOFF:
        rec.disarm(run, TimerKind.DECISION_BACKOFF, 0, task.backoff_until_ms)
        task.backoff_until_ms = 0
    task.state = TaskState.NONE


def _queue(rec: Recorder, run: Run) -> None:
    run.decision.state = TaskState.QUEUED
    run.decision.backoff_until_ms = 0
    rec.run(run)
    rec.effects.append(OfferDecision(run.key, run.workflow_type, run.task_queue))


def _pause(rec: Recorder, run: Run, pause_ms: int) -> None:
    if pause_ms <= 0:
        _queue(rec, run)
        return
    run.decision.state = TaskState.BACKOFF
    run.decision.backoff_until_ms = rec.time_ms + pause_ms
    rec.run(run)
    rec.arm(run, TimerKind.DECISION_BACKOFF, 0, run.decision.backoff_until_ms)


def _release(rec: Recorder, run: Run, *, cancelled: bool = False, expired: bool = False) -> None:
    task = run.decision
    rec.effects.append(DropLease(run.key, 0, task.token, cancelled=cancelled, expired=expired))
    task.state = TaskState.NONE
    task.token = ""
    task.worker_id = ""
    task.node = ""
    task.leased_ms = 0
    task.duration_ms = 0
    run.leased_tasks -= 1
    settle(run)
