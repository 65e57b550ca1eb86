"""A parent's children: what starting one means, and what each side's messages come to."""

from __future__ import annotations

from raftflow.engine import trace
from raftflow.engine.commands import StartChildWorkflow
from raftflow.engine.decide.cancel import told
from raftflow.engine.decide.context import Context, step_at, too_large, unregistered
from raftflow.engine.decide.plan import Plan, Planned, invalid, over_limit
from raftflow.engine.events import (
    ChildCompleted,
    ChildFailed,
    ChildStarted,
    WorkflowCancelRequested,
    WorkflowStarted,
    WorkflowTerminated,
)
from raftflow.engine.ids import id_problem
from raftflow.engine.state import (
    EndChild,
    ReportChild,
    Run,
    RunStatus,
    StartChild,
    Step,
    StepKind,
    StepStatus,
)
from raftflow.engine.transitions import ChildOpened, Move

ID_IN_USE_TYPE = "WorkflowIdInUse"
# The error type that a parent sees of a child that neither completed nor failed of its own.
_ENDED_TYPES = {
    RunStatus.TERMINATED: "ChildTerminated",
    RunStatus.CANCELLED: "ChildCancelled",
    RunStatus.TIMED_OUT: "ChildTimedOut",
}


def start(plan: Plan, command: StartChildWorkflow) -> Planned:
    """Without an id of its own the child gets one that no other child of any run has."""
    ctx, run = plan.ctx, plan.run
    if problem := too_large("input", len(command.input), ctx.limits.max_payload_bytes):
        return over_limit(problem)
    workflow_id = command.workflow_id or f"{run.key.run_id}.{command.sequence}"
    task_queue = command.task_queue or run.task_queue
    problem = (
        id_problem("workflow_type", command.workflow_type)
        or id_problem("workflow_id", workflow_id)
        or id_problem("task_queue", task_queue)
    )
    if problem:
        return invalid(problem)
    if rejection := unregistered(ctx, run.key.namespace, command.workflow_type):
        return rejection
    started = ChildStarted(
        step_name=command.step_name,
        sequence=command.sequence,
        workflow_type=command.workflow_type,
        workflow_id=workflow_id,
        task_queue=task_queue,
        input=command.input,
        parent_close_policy=command.parent_close_policy,
    )
    return (started,)


def begin(
    ctx: Context, parent: Run, message: StartChild, run_id: str
) -> tuple[tuple[Move, ...], tuple[Move, ...]]:
    """What the parent hears, and the child's first run, unless it cannot be. The parent may be
    closed by now: a child that is still to be started then is one that its parent abandoned."""
    namespace = parent.key.namespace
    step = _open_step(parent, message.sequence)
    holder = ctx.run(namespace, message.workflow_id, "")
    if holder is not None:
        return () if step is None else (_in_use(step, holder),), ()
    started = WorkflowStarted(
        namespace=namespace,
        workflow_id=message.workflow_id,
        run_id=run_id,
        workflow_type=message.workflow_type,
        task_queue=message.task_queue,
        input=message.input,
        traceparent=trace.under(message.traceparent, run_id),
        tracestate=message.tracestate,
        parent_workflow_id=parent.key.workflow_id,
        parent_run_id=parent.key.run_id,
        parent_sequence=message.sequence,
    )
    return () if step is None else (ChildOpened(step.sequence, run_id),), (started,)


def reported(parent: Run | None, message: ReportChild, child: Run) -> tuple[Move, ...]:
    """What a closed child tells its parent; nothing when that is closed, gone or asks no longer."""
    step = None if parent is None else _open_step(parent, message.parent_sequence)
    if step is None:
        return ()
    run_id = child.key.run_id
    if child.status is RunStatus.COMPLETED:
        return (ChildCompleted(sequence=step.sequence, output=child.output, run_id=run_id),)
    error_type = _ENDED_TYPES.get(child.status, child.error_type)
    failed = ChildFailed(
        sequence=step.sequence, error=child.error, error_type=error_type, run_id=run_id
    )
    return (failed,)


def ended(child: Run | None, message: EndChild, parent: Run) -> tuple[Move, ...]:
    """A child is to end. The newest run of its id is meant, and only if it is of that step: another
    one may have taken the id since."""
    if child is None or not child.open or not _is_child(child, parent, message.sequence):
        return ()
    if message.terminate:
        return (WorkflowTerminated(reason=message.reason),)
    if told(child):
        return ()
    return (WorkflowCancelRequested(reason=message.reason),)


def _open_step(parent: Run, sequence: int) -> Step | None:
    step = step_at(parent, sequence)
    if step is None or step.kind is not StepKind.CHILD or step.status is not StepStatus.SCHEDULED:
        return None
    return None if step.arrived else step


def _is_child(child: Run, parent: Run, sequence: int) -> bool:
    return (child.parent_workflow_id, child.parent_run_id, child.parent_sequence) == (
        parent.key.workflow_id,
        parent.key.run_id,
        sequence,
    )


def _in_use(step: Step, holder: Run) -> ChildFailed:
    state = "is open" if holder.open else f"has ended: {holder.status.name}"
    return ChildFailed(
        sequence=step.sequence,
        error=f"workflow id {step.workflow_id!r} is in use: run {holder.key.run_id!r} {state}",
        error_type=ID_IN_USE_TYPE,
        run_id="",
    )
