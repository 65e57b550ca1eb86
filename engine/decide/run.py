"""Starting and ending a run from outside."""

from __future__ import annotations

from raftflow.engine.commands import (
    CancelRun,
    IdConflictPolicy,
    IdReusePolicy,
    PauseRun,
    StartRun,
    TerminateRun,
    UnpauseRun,
)
from raftflow.engine.decide import attributes, signal
from raftflow.engine.decide import cancel as cancelling
from raftflow.engine.decide import namespace as namespaces
from raftflow.engine.decide.context import (
    DONE,
    Context,
    Verdict,
    closed,
    no_namespace,
    no_run,
    refuse,
    text_too_large,
    too_large,
    unregistered,
)
from raftflow.engine.events import (
    SignalReceived,
    WorkflowCancelled,
    WorkflowCancelRequested,
    WorkflowStarted,
    WorkflowTerminated,
)
from raftflow.engine.evolve.attributes import merged
from raftflow.engine.ids import DEFAULT_TASK_QUEUE, RunKey, id_problem
from raftflow.engine.limits import MAX_DURATION_MS
from raftflow.engine.rejections import Reason, Rejection, Started
from raftflow.engine.state import Run, RunStatus

# Ends after which ALLOW_DUPLICATE_FAILED_ONLY lets an id start again.
_FAILED = frozenset(
    {RunStatus.FAILED, RunStatus.TERMINATED, RunStatus.CANCELLED, RunStatus.TIMED_OUT}
)


def start(ctx: Context, command: StartRun) -> Verdict:
    namespace = command.namespace
    if not ctx.has_namespace(namespace):
        return no_namespace(namespace)
    if problem := _start_problem(command):
        return refuse(Reason.INVALID_COMMAND, problem)
    if problem := too_large("input", len(command.input), ctx.limits.max_payload_bytes):
        return refuse(Reason.LIMIT_EXCEEDED, problem)
    if problem := text_too_large("memo", command.memo, ctx.limits.max_payload_bytes):
        return refuse(Reason.LIMIT_EXCEEDED, problem)
    rejection = attributes.refused((), command.search_attributes)
    if rejection is None:
        rejection = unregistered(ctx, namespace, command.workflow_type)
    if rejection is None and command.signal_name:
        rejection = signal.problem_of(ctx, command.signal_name, command.signal_payload)
    if rejection is not None:
        return Verdict(rejection)
    holder = ctx.run(namespace, command.workflow_id, "")
    if holder is not None:
        if holder.key.run_id == command.run_id:
            return Verdict(Started(command.run_id, True))  # the same call, long ago
        if command.signal_name and holder.open:
            moves = signal.arriving(ctx, holder, _signal_of(command))
            if isinstance(moves, Rejection):
                return Verdict(moves)
            return Verdict(Started(holder.key.run_id, False), holder, moves)
        if not _may_start_after(holder, command.id_reuse_policy):
            return _held(holder, command)
    if ctx.used(RunKey(namespace, command.workflow_id, command.run_id)):
        return refuse(Reason.INVALID_COMMAND, f"run id {command.run_id!r} was used before")
    paid = namespaces.admit_start(ctx, namespace)
    if isinstance(paid, Rejection):
        return Verdict(paid)
    event = WorkflowStarted(
        namespace=namespace,
        workflow_id=command.workflow_id,
        run_id=command.run_id,
        workflow_type=command.workflow_type,
        task_queue=command.task_queue or DEFAULT_TASK_QUEUE,
        input=command.input,
        execution_timeout_ms=command.execution_timeout_ms,
        traceparent=command.traceparent,
        tracestate=command.tracestate,
        search_attributes=merged((), command.search_attributes),
        memo=command.memo,
    )
    moves = (event, _signal_of(command)) if command.signal_name else (event,)
    named = command.workflow_id if command.workflow_id_generated else ""
    return Verdict(Started(command.run_id, True, named), None, (*paid, *moves))


def terminate(ctx: Context, command: TerminateRun) -> Verdict:
    run = target(ctx, command, command.reason)
    if not isinstance(run, Run):
        return run
    if run.status is RunStatus.TERMINATED:
        return Verdict(DONE)
    if not run.open:
        return Verdict(closed(run))
    return Verdict(DONE, run, (WorkflowTerminated(reason=command.reason),))


def cancel(ctx: Context, command: CancelRun) -> Verdict:
    run = target(ctx, command, command.reason)
    if not isinstance(run, Run):
        return run
    if run.status is RunStatus.CANCELLED:
        return Verdict(DONE)
    if not run.open:
        return Verdict(closed(run))
    if not command.graceful:
        return Verdict(DONE, run, (WorkflowCancelled(reason=command.reason),))
    if cancelling.told(run):
        return Verdict(DONE)
    return Verdict(DONE, run, (WorkflowCancelRequested(reason=command.reason),))


def _start_problem(command: StartRun) -> str | None:
    if not 0 <= command.execution_timeout_ms <= MAX_DURATION_MS:
        return (
            f"execution_timeout_ms is {command.execution_timeout_ms}, "
            f"it must be 0 (none) to {MAX_DURATION_MS}"
        )
    return (
        id_problem("workflow_id", command.workflow_id)
        or id_problem("run_id", command.run_id)
        or id_problem("type", command.workflow_type)
        or (id_problem("task_queue", command.task_queue) if command.task_queue else None)
    )


def _may_start_after(holder: Run, policy: IdReusePolicy) -> bool:
    if holder.open or policy is IdReusePolicy.REJECT_DUPLICATE:
        return False
    return policy is IdReusePolicy.ALLOW_DUPLICATE or holder.status in _FAILED


def _held(holder: Run, command: StartRun) -> Verdict:
    run_id = holder.key.run_id
    heard = holder.open or not command.signal_name  # a closed run takes no signal
    if heard and command.id_conflict_policy is IdConflictPolicy.USE_EXISTING:
        return Verdict(Started(run_id, False))
    state = "is open" if holder.open else f"has ended: {holder.status.name}"
    message = f"workflow id {command.workflow_id!r} is in use: run {run_id!r} {state}"
    return Verdict(Rejection(reason=Reason.WORKFLOW_ID_IN_USE, message=message, run_id=run_id))


def _signal_of(command: StartRun) -> SignalReceived:
    return SignalReceived(
        name=command.signal_name, payload=command.signal_payload, request_id=command.request_id
    )


def target(
    ctx: Context, command: TerminateRun | CancelRun | PauseRun | UnpauseRun, reason: str = ""
) -> Run | Verdict:
    """The run that the command means, or why there is none."""
    if not ctx.has_namespace(command.namespace):
        return no_namespace(command.namespace)
    if problem := text_too_large("reason", reason, ctx.limits.max_payload_bytes):
        return refuse(Reason.LIMIT_EXCEEDED, problem)
    run = ctx.run(command.namespace, command.workflow_id, command.run_id)
    return no_run(command.workflow_id, command.run_id) if run is None else run
