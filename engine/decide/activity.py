"""Activity steps: begun by a decision; what workers say of their tasks; what a failure comes to."""

from __future__ import annotations

from raftflow.engine.commands import CompleteActivity, RecordHeartbeat, ScheduleActivity
from raftflow.engine.deadlines import outlasts
from raftflow.engine.decide.context import (
    DONE,
    Context,
    Verdict,
    refuse,
    step_at,
    text_too_large,
    too_large,
)
from raftflow.engine.decide.plan import Plan, Planned, duration_problem, invalid, over_limit
from raftflow.engine.events import StepCompleted, StepFailed, StepScheduled
from raftflow.engine.evolve.activity import outcome_of_failure, outcome_of_success
from raftflow.engine.ids import id_problem
from raftflow.engine.limits import FIRST_PRIORITY, LAST_PRIORITY
from raftflow.engine.rejections import Reason, Rejection
from raftflow.engine.retry import MAX_BACKOFF_MS, backoff_ms, may_retry, policy_problem
from raftflow.engine.state import Run, Step, StepStatus, TaskState
from raftflow.engine.transitions import AttemptFailed, HeartbeatRecorded


def schedule(plan: Plan, command: ScheduleActivity) -> Planned:
    if problem := too_large("input", len(command.input), plan.ctx.limits.max_payload_bytes):
        return over_limit(problem)
    problem = (
        policy_problem(command.retry)
        or (id_problem("task_queue", command.task_queue) if command.task_queue else None)
        or duration_problem("start_to_close_timeout_ms", command.start_to_close_timeout_ms)
        or duration_problem("schedule_to_close_timeout_ms", command.schedule_to_close_timeout_ms)
        or duration_problem("schedule_to_start_timeout_ms", command.schedule_to_start_timeout_ms)
    )
    if problem:
        return invalid(problem)
    if not FIRST_PRIORITY <= command.priority <= LAST_PRIORITY:
        return invalid(f"priority is {command.priority}, it must be 1 (first) to 5 (last)")
    scheduled = StepScheduled(
        step_name=command.step_name,
        sequence=command.sequence,
        input=command.input,
        retry=command.retry,
        task_queue=command.task_queue or plan.run.task_queue,
        start_to_close_timeout_ms=command.start_to_close_timeout_ms,
        schedule_to_close_timeout_ms=command.schedule_to_close_timeout_ms,
        schedule_to_start_timeout_ms=command.schedule_to_start_timeout_ms,
        priority=command.priority,
    )
    return (scheduled,)


def complete(ctx: Context, command: CompleteActivity) -> Verdict:
    held = ctx.holder(command.namespace, command.workflow_id, command.lease_token)
    if held is None:
        return Verdict(lost(None, None))
    run, parts = held
    step = step_at(run, parts.number)
    if step is None:
        return Verdict(lost(run, None))
    if problem := _mismatch(step, command):
        return refuse(Reason.INVALID_COMMAND, problem)
    if step.task.token != command.lease_token:
        return Verdict(DONE if _repeats(step, command) else lost(run, step))
    if problem := _oversize(ctx, command):
        return refuse(Reason.LIMIT_EXCEEDED, problem)
    if command.failed:
        failure = fail_attempt(
            ctx,
            step,
            error=command.error,
            error_type=command.error_type,
            non_retryable=command.non_retryable,
            next_retry_delay_ms=command.next_retry_delay_ms,
        )
        return Verdict(DONE, run, (failure,))
    task = step.task
    completed = StepCompleted(
        sequence=step.sequence,
        output=command.output,
        attempt=step.attempts,
        worker_id=task.worker_id,
        node=task.node,
        started_ms=task.leased_ms,
    )
    return Verdict(DONE, run, (completed,))


def heartbeat(ctx: Context, command: RecordHeartbeat) -> Verdict:
    held = ctx.holder(command.namespace, command.workflow_id, command.lease_token)
    if held is None:
        return Verdict(lost(None, None))
    run, parts = held
    step = step_at(run, parts.number)
    if step is None or step.task.token != command.lease_token:
        return Verdict(lost(run, step))
    if problem := too_large("details", len(command.details), ctx.limits.max_payload_bytes):
        return refuse(Reason.LIMIT_EXCEEDED, problem)
    return Verdict(DONE, run, (HeartbeatRecorded(step.sequence, command.details),))


def fail_attempt(
    ctx: Context,
    step: Step,
    *,
    error: str,
    error_type: str,
    non_retryable: bool = False,
    next_retry_delay_ms: int = -1,
) -> AttemptFailed | StepFailed:
    """The policy decides whether another attempt follows, if there is time for one."""
    attempts = step.attempts
    if may_retry(step.retry, attempts=attempts, error_type=error_type, non_retryable=non_retryable):
        pause_ms = next_retry_delay_ms
        if pause_ms < 0:
            pause_ms = backoff_ms(step.retry, attempts)
        pause_ms = min(pause_ms, MAX_BACKOFF_MS)
        if outlasts(step, ctx.time_ms + pause_ms):
            return AttemptFailed(step.sequence, error, error_type, pause_ms)
    return fail_step(step, error=error, error_type=error_type, non_retryable=non_retryable)


def fail_step(
    step: Step, *, error: str, error_type: str, non_retryable: bool = False
) -> StepFailed:
    return StepFailed(
        sequence=step.sequence,
        error=error,
        error_type=error_type,
        non_retryable=non_retryable,
        attempt=step.attempts,
        worker_id=step.task.worker_id,
        node=step.task.node,
        started_ms=step.task.leased_ms,
    )


def lost(run: Run | None, step: Step | None) -> Rejection:
    """Why a token is worth nothing (any more), and whether its work is still wanted."""
    if run is None:
        message, cancelled = "the lease token is not of this workflow", True
    elif not run.open:
        message, cancelled = f"the lease is lost: the run has ended, {run.status.name}", True
    elif step is None:
        message, cancelled = "the lease token is not of an activity of this run", True
    elif step.status is StepStatus.CANCELLED:
        message, cancelled = f"the lease is lost: step {step.sequence} was cancelled", True
    elif step.status is not StepStatus.SCHEDULED:
        message = f"the lease is lost: step {step.sequence} has its result, {step.status.name}"
        cancelled = False
    elif step.arrived:
        message, cancelled = f"the lease is lost: step {step.sequence} has its result", False
    elif step.task.state is TaskState.LEASED:
        message, cancelled = "the lease is lost: another worker holds it now", False
    else:
        message, cancelled = "the lease is lost: it was returned or its deadline missed", False
    return Rejection(reason=Reason.LEASE_LOST, message=message, cancelled=cancelled)


def _mismatch(step: Step, command: CompleteActivity) -> str | None:
    if command.sequence and command.sequence != step.sequence:
        return f"sequence is {command.sequence}, but the lease token is of {step.sequence}"
    if command.step_name and command.step_name != step.name:
        return f"step_name is {command.step_name!r}, but the lease token is of {step.name!r}"
    return None


def _repeats(step: Step, command: CompleteActivity) -> bool:
    if step.task.last_token != command.lease_token:
        return False
    if command.failed:
        outcome = outcome_of_failure(command.error, command.error_type)
    else:
        outcome = outcome_of_success(command.output)
    return step.task.last_outcome == outcome


def _oversize(ctx: Context, command: CompleteActivity) -> str | None:
    limit = ctx.limits.max_payload_bytes
    return (
        too_large("output", len(command.output), limit)
        or text_too_large("error", command.error, limit)
        or text_too_large("error_type", command.error_type, limit)
    )
