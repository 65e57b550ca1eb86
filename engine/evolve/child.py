"""Child steps, and what a child and its parent owe each other. They are runs of their own: whatever
one does to the other goes through its outbox."""

from __future__ import annotations

from raftflow.engine import trace
from raftflow.engine.commands import ParentClosePolicy
from raftflow.engine.events import ChildCompleted, ChildFailed, ChildStarted
from raftflow.engine.evolve import message as messages
from raftflow.engine.evolve import step as steps
from raftflow.engine.evolve.decision import wake
from raftflow.engine.evolve.recorder import Recorder
from raftflow.engine.outbox import pending_start, pending_starts
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
from raftflow.engine.transitions import ChildOpened


def started(rec: Recorder, run: Run, body: ChildStarted) -> None:
    event_id = rec.event(run, body, len(body.input))
    step = Step(
        sequence=body.sequence,
        kind=StepKind.CHILD,
        name=body.step_name,
        status=StepStatus.SCHEDULED,
        scheduled_event_id=event_id,
        scheduled_ms=rec.time_ms,
        task_queue=body.task_queue,
        workflow_type=body.workflow_type,
        workflow_id=body.workflow_id,
        parent_close_policy=body.parent_close_policy,
    )
    steps.opened(rec, run, step)
    start = StartChild(
        sequence=body.sequence,
        workflow_id=body.workflow_id,
        workflow_type=body.workflow_type,
        task_queue=body.task_queue,
        input=body.input,
        parent_close_policy=body.parent_close_policy,
        traceparent=trace.of_step(run.traceparent, run.key.run_id, body.sequence),
        tracestate=run.tracestate,
    )
    messages.send(rec, run, start)


def opened(rec: Recorder, run: Run, move: ChildOpened) -> None:
    """The child runs. Its parent's code sees no difference, so that history omits it."""
    step = run.steps[move.sequence - 1]
    step.run_id = move.run_id
    rec.step(run, step)


def completed(rec: Recorder, run: Run, body: ChildCompleted) -> None:
    step = run.steps[body.sequence - 1]
    event_id = rec.event(run, body, len(body.output))
    step.output = body.output
    step.run_id = body.run_id
    steps.resolved(rec, run, step, StepStatus.COMPLETED, event_id)
    wake(rec, run)


def failed(rec: Recorder, run: Run, body: ChildFailed) -> None:
    step = run.steps[body.sequence - 1]
    event_id = rec.event(run, body, len(body.error))
    step.error = body.error
    step.error_type = body.error_type
    step.run_id = body.run_id
    steps.resolved(rec, run, step, StepStatus.FAILED, event_id)
    wake(rec, run)


def unwanted(rec: Recorder, run: Run, step: Step, reason: str) -> None:
    """The parent's code cancelled the open step: the child is asked to cancel, or never started."""
    pending = 0 if step.run_id else pending_start(run, step.sequence)
    _end(rec, run, step, pending, terminate=False, reason=reason)


def left(rec: Recorder, run: Run, status: RunStatus) -> None:
    """The parent closes: the policy of each open step says what becomes of its child."""
    starts = dict(pending_starts(run))  # once: a run may have thousands of children
    for step in run.steps:
        if step.kind is not StepKind.CHILD or step.status is not StepStatus.SCHEDULED:
            continue
        policy = step.parent_close_policy
        if policy is not ParentClosePolicy.ABANDON:
            terminate, pending = policy is ParentClosePolicy.TERMINATE, starts.get(step.sequence, 0)
            reason = f"its parent ended: {status.name}"
            _end(rec, run, step, pending, terminate=terminate, reason=reason)


def report(rec: Recorder, run: Run) -> None:
    """The run closes for good. What it came to is in its own row, until the parent has heard."""
    if run.parent_workflow_id:
        parent = (run.parent_workflow_id, run.parent_run_id, run.parent_sequence)
        messages.send(rec, run, ReportChild(*parent))


def _end(
    rec: Recorder, run: Run, step: Step, pending: int, *, terminate: bool, reason: str
) -> None:
    """``pending``: the number under which its start waits, 0 when it was started."""
    if pending:
        messages.take_back(rec, run, pending)
    else:
        messages.send(rec, run, EndChild(step.sequence, step.workflow_id, terminate, reason))
