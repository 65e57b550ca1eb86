"""A worker's answer to a workflow task: all its commands become events, or none does."""

from __future__ import annotations

from itertools import islice

from raftflow.engine.commands import (
    RELEASE_0_2,
    AwaitSignal,
    CancelStep,
    CompleteDecision,
    CompleteWorkflow,
    ContinueAsNew,
    FailWorkflow,
    RecordMarker,
    ScheduleActivity,
    StartChildWorkflow,
    StartTimer,
    UpsertSearchAttributes,
    WorkflowCommand,
)
from raftflow.engine.decide import workflow
from raftflow.engine.decide.context import (
    DONE,
    Context,
    Verdict,
    closed,
    refuse,
    text_too_large,
)
from raftflow.engine.digest import of_parts
from raftflow.engine.events import WorkflowFailed
from raftflow.engine.evolve.arrivals import PATIENCE
from raftflow.engine.limits import USUAL_PRIORITY
from raftflow.engine.rejections import Reason, Rejection
from raftflow.engine.state import Run
from raftflow.engine.transitions import (
    DecisionApplied,
    DecisionRefused,
    DecisionStaled,
    RunParked,
    RunSuspended,
)

REPLAY_ERROR_TYPE = "ReplayError"

# The first refused answer is offered again at once; then the pause doubles.
_REFUSED_PAUSE_MS = 250
_MAX_REFUSED_PAUSE_MS = 10_000
_SHOWN_CHARACTERS = 1_000  # of why it was refused
# A run that its code cannot replay is tried again, so that a fixed deployment heals it.
_PARKED_PAUSE_MS = 10_000
_MAX_PARKED_PAUSE_MS = 60_000


def complete(ctx: Context, command: CompleteDecision) -> Verdict:
    held = ctx.holder(command.namespace, command.workflow_id, command.task_token)
    if held is None:
        return refuse(Reason.DECISION_STALE, "the task token is not of this workflow")
    run, parts = held
    task = run.decision
    if task.token != command.task_token:
        return _late(run, command)
    if parts.number != run.history_length and not _may_overlook(ctx, run, parts.number):
        message = (
            f"the decision was made on {parts.number} events, "
            f"the history has {run.history_length}: decide again"
        )
        rejection = Rejection(reason=Reason.DECISION_STALE, message=message)
        return Verdict(rejection, run, (DecisionStaled(),))
    if command.unreadable:
        rejection = Rejection(reason=Reason.INVALID_COMMAND, message=command.unreadable)
        return _refused(ctx, run, rejection)
    if command.replay_error:
        return _replay_failed(ctx, run, command)
    translated = workflow.translate(ctx, run, command.commands, command.new_run_id)
    if isinstance(translated, Rejection):
        return _refused(ctx, run, translated)
    if problem := workflow.history_problem(ctx, run, translated):
        rejection = Rejection(reason=Reason.LIMIT_EXCEEDED, message=problem)
        return Verdict(rejection, run, (RunSuspended(problem),))
    return Verdict(DONE, run, (DecisionApplied(outcome_of(command)), *translated))


def _may_overlook(ctx: Context, run: Run, seen: int) -> bool:
    """Entries of release 0.1 mean what they meant: after two stale decisions in a row, signals that
    came since and wait in the buffer make the third no staler. Now all facts wait by then."""
    if ctx.feature_level >= RELEASE_0_2 or run.stale_decisions < PATIENCE:
        return False
    growth = run.history_length - seen
    newest = list(islice(reversed(run.signals), growth))
    return len(newest) == growth and newest[-1] > seen


def outcome_of(command: CompleteDecision) -> bytes:
    """What a repeated answer must repeat."""
    if command.replay_error:
        kind = "nondeterminism" if command.nondeterminism else "replay_error"
        return of_parts(kind, command.replay_error)
    parts: list[str | bytes] = []
    for each in command.commands:
        parts += _parts(each)
    return of_parts(*parts)


def parked_pause_ms(run: Run) -> int:
    return _growing(_PARKED_PAUSE_MS, _MAX_PARKED_PAUSE_MS, run.decision_failures)


def _late(run: Run, command: CompleteDecision) -> Verdict:
    task = run.decision
    if task.last_token == command.task_token and task.last_outcome == outcome_of(command):
        return Verdict(DONE)
    if not run.open:
        return Verdict(closed(run))
    return refuse(Reason.DECISION_STALE, "the task token is not the one that is out")


def _replay_failed(ctx: Context, run: Run, command: CompleteDecision) -> Verdict:
    error, limit = command.replay_error, ctx.limits.max_payload_bytes
    if problem := text_too_large("replay_error", error, limit):
        rejection = Rejection(reason=Reason.LIMIT_EXCEEDED, message=problem)
        return _refused(ctx, run, rejection)
    outcome = outcome_of(command)
    if command.nondeterminism:
        return Verdict(DONE, run, (RunParked(error, parked_pause_ms(run), outcome),))
    failed = WorkflowFailed(error=error, error_type=REPLAY_ERROR_TYPE)
    return Verdict(DONE, run, (DecisionApplied(outcome), failed))


def _refused(ctx: Context, run: Run, rejection: Rejection) -> Verdict:
    """Offered again; whoever looks at the run sees why. (The rows of release 0.1 do not say.)"""
    failures = run.decision_failures
    pause_ms = 0
    if failures > 0:
        pause_ms = _growing(_REFUSED_PAUSE_MS, _MAX_REFUSED_PAUSE_MS, failures - 1)
    reason = rejection.message[:_SHOWN_CHARACTERS] if ctx.feature_level >= RELEASE_0_2 else ""
    return Verdict(rejection, run, (DecisionRefused(pause_ms, reason),))


def _growing(first_ms: int, most_ms: int, failures: int) -> int:
    return min(most_ms, first_ms << min(failures, 16))


def _parts(command: WorkflowCommand) -> tuple[str | bytes, ...]:
    """All of a command; numbers share one text, in which none can run into the next."""
    match command:
        case ScheduleActivity():
            retry = command.retry
            numbers = (
                f"schedule_activity {command.sequence} {command.start_to_close_timeout_ms} "
                f"{command.schedule_to_close_timeout_ms} {command.schedule_to_start_timeout_ms} "
                f"{retry.max_attempts} {retry.initial_backoff_ms} {retry.max_backoff_ms} "
                f"{retry.backoff_coefficient_milli} {len(retry.non_retryable_error_types)}"
            )
            if command.priority != USUAL_PRIORITY or retry.jitter_milli:  # release 0.1 knew neither
                numbers += f" {command.priority} {retry.jitter_milli}"
            named = (command.step_name, command.task_queue, *retry.non_retryable_error_types)
            return (numbers, command.input, *named)
        case StartTimer():
            return (f"start_timer {command.sequence} {command.delay_ms}", command.step_name)
        case AwaitSignal():
            return (f"await_signal {command.sequence}", command.step_name, command.signal_name)
        case RecordMarker():
            named = (command.step_name, command.marker)
            return (f"record_marker {command.sequence}", *named, command.data)
        case StartChildWorkflow():
            numbers = f"start_child_workflow {command.sequence} {int(command.parent_close_policy)}"
            named = (command.step_name, command.workflow_type, command.workflow_id)
            return (numbers, *named, command.task_queue, command.input)
        case CancelStep():
            return (f"cancel_step {command.sequence}", command.step_name, command.reason)
        case UpsertSearchAttributes():
            pairs = [text for pair in command.attributes for text in pair]
            return (f"upsert_search_attributes {len(pairs)}", *pairs)
        case CompleteWorkflow():
            return ("complete_workflow", command.output)
        case FailWorkflow():
            verb = "fail_workflow cancelled" if command.cancelled else "fail_workflow"
            return (verb, command.error, command.error_type)
        case ContinueAsNew():
            verb = f"continue_as_new {command.execution_timeout_ms}"
            return (verb, command.workflow_type, command.task_queue, command.input)
