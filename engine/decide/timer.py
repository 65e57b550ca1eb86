"""Timers that came due. A firing is dropped unless exactly that timer is armed."""

from __future__ import annotations

from raftflow.engine.commands import FireTimer, TimerKind
from raftflow.engine.decide.context import DONE, Context, Verdict, step_at
from raftflow.engine.decide.lease import dropped
from raftflow.engine.events import TimerFired, WorkflowTimedOut
from raftflow.engine.state import Run, StepKind, StepStatus, TaskState
from raftflow.engine.transitions import ActivityRequeued, DecisionRequeued, Move


def fire(ctx: Context, command: FireTimer) -> Verdict:
    run = None
    if command.run_id:
        run = ctx.run(command.namespace, command.workflow_id, command.run_id)
    if run is None or not run.open:
        return dropped("the timer's run is not open")
    move = _firing(run, command)
    if move is None:
        return dropped("the timer is not armed")
    if ctx.time_ms < command.fire_at_ms:
        return dropped("the timer is not due")
    return Verdict(DONE, run, (move,))


def _firing(run: Run, command: FireTimer) -> Move | None:
    fire_at_ms = command.fire_at_ms
    match command.kind:
        case TimerKind.STEP:
            step = step_at(run, command.sequence)
            if (
                step is not None
                and step.kind is StepKind.TIMER
                and step.status is StepStatus.SCHEDULED
                and step.fire_at_ms == fire_at_ms
            ):
                return TimerFired(sequence=step.sequence)
        case TimerKind.RETRY:
            step = step_at(run, command.sequence)
            if (
                step is not None
                and step.task.state is TaskState.BACKOFF
                and step.task.backoff_until_ms == fire_at_ms
            ):
                return ActivityRequeued(step.sequence)
        case TimerKind.EXECUTION_TIMEOUT:
            timeout_ms = run.execution_timeout_ms
            if timeout_ms and run.started_ms + timeout_ms == fire_at_ms:
                return WorkflowTimedOut(timeout_ms=timeout_ms)
        case TimerKind.DECISION_BACKOFF:
            task = run.decision
            if task.state is TaskState.BACKOFF and task.backoff_until_ms == fire_at_ms:
                return DecisionRequeued()
    return None
