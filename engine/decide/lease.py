"""Handing tasks out and taking them back: the leader's decisions, checked again here."""

from __future__ import annotations

from raftflow.engine.commands import ExpireLease, GrantActivity, GrantDecision, ReturnTask
from raftflow.engine.decide.activity import fail_attempt, lost
from raftflow.engine.decide.context import DONE, Context, Verdict, step_at
from raftflow.engine.ids import TokenParts, format_token
from raftflow.engine.rejections import Granted, Reason, Rejection
from raftflow.engine.state import Run, Task, TaskState
from raftflow.engine.transitions import (
    ActivityLeased,
    ActivityReturned,
    AttemptExpired,
    DecisionExpired,
    DecisionLeased,
    DecisionReturned,
    LeaseKept,
    Move,
)

LEASE_EXPIRED_ERROR = "lease expired"
LEASE_EXPIRED_TYPE = "LeaseExpired"


def grant_decision(ctx: Context, command: GrantDecision) -> Verdict:
    run = _named(ctx, command)
    if run is None or run.decision.state is not TaskState.QUEUED:
        return dropped("the workflow task is not queued")
    token = format_token(
        TokenParts(command.namespace, command.run_id, run.history_length, command.nonce)
    )
    move = DecisionLeased(
        token, command.worker_id, command.node, command.poll_id, command.timeout_ms
    )
    return Verdict(Granted(token), run, (move,))


def grant_activity(ctx: Context, command: GrantActivity) -> Verdict:
    run = _named(ctx, command)
    step = None if run is None else step_at(run, command.sequence)
    if step is None or step.task.state is not TaskState.QUEUED:
        return dropped("the activity task is not queued")
    if step.task.attempt != command.attempt:
        return dropped(f"the activity task is queued at attempt {step.task.attempt}")
    token = format_token(
        TokenParts(command.namespace, command.run_id, command.sequence, command.nonce)
    )
    move = ActivityLeased(
        command.sequence,
        token,
        command.worker_id,
        command.node,
        command.poll_id,
        command.duration_ms,
    )
    return Verdict(Granted(token), run, (move,))


def return_task(ctx: Context, command: ReturnTask) -> Verdict:
    held = ctx.holder(command.namespace, command.workflow_id, command.token)
    if held is None:
        return Verdict(lost(None, None))
    run, parts = held
    if run.decision.token == command.token:
        return Verdict(DONE, run, (DecisionReturned(),))
    step = step_at(run, parts.number)
    if step is not None and step.task.token == command.token:
        return Verdict(DONE, run, (ActivityReturned(step.sequence),))
    return Verdict(lost(run, step))


def expire(ctx: Context, command: ExpireLease) -> Verdict:
    held = ctx.holder(command.namespace, command.workflow_id, command.token)
    if held is None:
        return dropped("the lease is not of this workflow")
    run, parts = held
    if run.decision.token == command.token:
        if _holds_yet(ctx, run.decision):
            return _held_on(run, 0)
        return Verdict(DONE, run, (DecisionExpired(),))
    step = step_at(run, parts.number)
    if step is None or step.task.token != command.token:
        return dropped("the lease is not held any more")
    if _holds_yet(ctx, step.task):
        return _held_on(run, step.sequence)
    failure = fail_attempt(ctx, step, error=LEASE_EXPIRED_ERROR, error_type=LEASE_EXPIRED_TYPE)
    return Verdict(DONE, run, (AttemptExpired(step.sequence), failure))


def dropped(message: str, run: Run | None = None, *moves: Move) -> Verdict:
    return Verdict(Rejection(reason=Reason.GRANT_DROPPED, message=message), run, moves)


def _held_on(run: Run, sequence: int) -> Verdict:
    return dropped("the end of the lease has not come", run, LeaseKept(sequence))


def _named(ctx: Context, command: GrantDecision | GrantActivity) -> Run | None:
    if not command.run_id:
        return None
    return ctx.run(command.namespace, command.workflow_id, command.run_id)


def _holds_yet(ctx: Context, task: Task) -> bool:
    """Heartbeats only ever make a lease longer: before its first deadline none can be missed."""
    return ctx.time_ms < task.leased_ms + task.duration_ms
