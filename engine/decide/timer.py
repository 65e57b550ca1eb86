"""Timer steps, and timers that came due. A firing is dropped unless exactly that timer is armed."""

from __future__ import annotations

from raftflow.engine.commands import FireTimer, StartTimer, TimerKind
from raftflow.engine.deadlines import Deadline, deadline_of
from raftflow.engine.decide.activity import fail_attempt, fail_step
from raftflow.engine.decide.context import DONE, Context, Verdict, step_at
from raftflow.engine.decide.lease import dropped
from raftflow.engine.decide.plan import Plan, Planned, duration_problem, invalid
from raftflow.engine.events import TimerFired, TimerStarted, WorkflowTimedOut
from raftflow.engine.state import Run, Step, StepKind, StepStatus, TaskState
from raftflow.engine.transitions import (
    ActivityRequeued,
    ActivityWithdrawn,
    AttemptExpired,
    DecisionRequeued,
    Move,
    TimerKept,
)


def start(plan: Plan, command: StartTimer) -> Planned:
    if problem := duration_problem("delay_ms", command.delay_ms):
        return invalid(problem)
    started = TimerStarted(
        step_name=command.step_name,
        sequence=command.sequence,
        delay_ms=command.delay_ms,
        fire_at_ms=plan.ctx.time_ms + command.delay_ms,
    )
    return (started,)


def fire(ctx: Context, command: FireTimer) -> Verdict:
    run = None
    if command.run_id:
        run = ctx.run(command.namespace, command.workflow_id, command.run_id)
    if run is None or not run.open:
        return dropped("the timer's run is not open")
    moves = _firing(ctx, run, command)
    if moves is None:
        return dropped("the timer is not armed")
    if ctx.time_ms < command.fire_at_ms:
        kept = TimerKept(command.kind, command.sequence, command.fire_at_ms)
        return dropped("the timer is not due", run, kept)
    return Verdict(DONE, run, moves)


def _firing(ctx: Context, run: Run, command: FireTimer) -> tuple[Move, ...] | None:
    fire_at_ms = command.fire_at_ms
    match command.kind:
        case TimerKind.STEP:
            step = step_at(run, command.sequence)
            if (
                step is not None
                and step.kind is StepKind.TIMER
                and step.status is StepStatus.SCHEDULED
                and not step.arrived
                and step.fire_at_ms == fire_at_ms
            ):
                return (TimerFired(sequence=step.sequence),)
        case TimerKind.RETRY:
            step = step_at(run, command.sequence)
            if (
                step is not None
                and step.task.state is TaskState.BACKOFF
                and step.task.backoff_until_ms == fire_at_ms
            ):
                return (ActivityRequeued(step.sequence),)
        case TimerKind.EXECUTION_TIMEOUT:
            timeout_ms = run.execution_timeout_ms
            due_ms = run.started_ms + timeout_ms
            if timeout_ms and not command.sequence and due_ms == fire_at_ms:
                return (WorkflowTimedOut(timeout_ms=timeout_ms),)
        case TimerKind.DECISION_BACKOFF:
            task = run.decision
            due_ms = task.backoff_until_ms
            if task.state is TaskState.BACKOFF and not command.sequence and due_ms == fire_at_ms:
                return (DecisionRequeued(),)
        case TimerKind.ACTIVITY_TIMEOUT:
            step = step_at(run, command.sequence)
            deadline = None if step is None else deadline_of(step)
            if step is not None and deadline is not None and deadline.fire_at_ms == fire_at_ms:
                return _missed(ctx, step, deadline)
    return None


def _missed(ctx: Context, step: Step, deadline: Deadline) -> tuple[Move, ...]:
    """A timeout of an attempt goes through the retry policy; one of the whole step ends it."""
    error, error_type = deadline.error, deadline.error_type
    if deadline.final:
        failed = fail_step(step, error=error, error_type=error_type)
        return (ActivityWithdrawn(step.sequence), failed)
    failure = fail_attempt(ctx, step, error=error, error_type=error_type)
    return (AttemptExpired(step.sequence), failure)
