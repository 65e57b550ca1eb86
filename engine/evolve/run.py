"""The run itself: opened by a start, closed by exactly one event."""

from __future__ import annotations

from raftflow.engine import trace
from raftflow.engine.commands import TimerKind
from raftflow.engine.events import (
    WorkflowCancelled,
    WorkflowCompleted,
    WorkflowContinuedAsNew,
    WorkflowFailed,
    WorkflowStarted,
    WorkflowTerminated,
    WorkflowTimedOut,
)
from raftflow.engine.evolve import child, decision, namespace
from raftflow.engine.evolve import step as steps
from raftflow.engine.evolve.cancel import stop
from raftflow.engine.evolve.recorder import Recorder
from raftflow.engine.ids import RunKey, WorkflowKey
from raftflow.engine.state import Run, RunStatus, StepStatus


def started(rec: Recorder, body: WorkflowStarted) -> Run:
    key = RunKey(body.namespace, body.workflow_id, body.run_id)
    run = Run(
        key=key,
        workflow_type=body.workflow_type,
        task_queue=body.task_queue,
        status=RunStatus.WAITING,
        started_ms=rec.time_ms,
        updated_ms=rec.time_ms,
        input=body.input,
        execution_timeout_ms=body.execution_timeout_ms,
        traceparent=body.traceparent,
        tracestate=body.tracestate,
        search_attributes=body.search_attributes,
        memo=body.memo,
        continued_from_run_id=body.continued_from_run_id,
        parent_workflow_id=body.parent_workflow_id,
        parent_run_id=body.parent_run_id,
        parent_sequence=body.parent_sequence,
    )
    workflow = WorkflowKey(body.namespace, body.workflow_id)
    before = rec.state.current.get(workflow)
    if before is not None:
        run.older_runs = rec.state.runs[RunKey(*workflow, before)].older_runs + 1
    namespace.run_opened(rec, body.namespace)
    rec.state.runs[key] = run
    rec.state.current[workflow] = body.run_id
    rec.changes.current[workflow] = body.run_id
    rec.event(run, body, len(body.input))
    if body.execution_timeout_ms:
        rec.arm(run, TimerKind.EXECUTION_TIMEOUT, 0, rec.time_ms + body.execution_timeout_ms)
    decision.wake(rec, run)
    return run


def completed(rec: Recorder, run: Run, body: WorkflowCompleted) -> None:
    rec.event(run, body, len(body.output))
    run.output = body.output
    _close(rec, run, RunStatus.COMPLETED)


def failed(rec: Recorder, run: Run, body: WorkflowFailed) -> None:
    rec.event(run, body, len(body.error))
    run.error = body.error
    run.error_type = body.error_type
    _close(rec, run, RunStatus.FAILED)


def terminated(rec: Recorder, run: Run, body: WorkflowTerminated) -> None:
    rec.event(run, body, len(body.reason))
    run.error = body.reason
    _close(rec, run, RunStatus.TERMINATED)


def cancelled(rec: Recorder, run: Run, body: WorkflowCancelled) -> None:
    rec.event(run, body, len(body.reason))
    run.error = body.reason
    _close(rec, run, RunStatus.CANCELLED)


def timed_out(rec: Recorder, run: Run, body: WorkflowTimedOut) -> None:
    rec.event(run, body, 0)
    run.error = f"the run did not end within its execution timeout of {body.timeout_ms} ms"
    _close(rec, run, RunStatus.TIMED_OUT)


def continued(rec: Recorder, run: Run, body: WorkflowContinuedAsNew) -> None:
    """The next run of the chain begins as this one ends. It has all of it but history, steps and
    signals."""
    rec.event(run, body, len(body.input))
    run.continued_to_run_id = body.new_run_id
    _close(rec, run, RunStatus.CONTINUED_AS_NEW)
    started(
        rec,
        WorkflowStarted(
            namespace=run.key.namespace,
            workflow_id=run.key.workflow_id,
            run_id=body.new_run_id,
            workflow_type=body.workflow_type,
            task_queue=body.task_queue,
            input=body.input,
            execution_timeout_ms=body.execution_timeout_ms,
            traceparent=trace.after(run.traceparent, run.key.run_id, body.new_run_id),
            tracestate=run.tracestate,
            search_attributes=run.search_attributes,
            memo=run.memo,
            continued_from_run_id=run.key.run_id,
            parent_workflow_id=run.parent_workflow_id,
            parent_run_id=run.parent_run_id,
            parent_sequence=run.parent_sequence,
        ),
    )


def _close(rec: Recorder, run: Run, status: RunStatus) -> None:
    """Nothing of a closed run may wake it or be handed out: its tasks, timers and waits end here,
    without events."""
    decision.drop(rec, run, cancelled=True)
    run.waits = None
    if run.open_steps:
        child.left(rec, run, status)
        for step in run.steps:
            if step.status is StepStatus.SCHEDULED:
                stop(rec, run, step)
                steps.resolved(rec, run, step, StepStatus.CANCELLED, 0)
    if run.execution_timeout_ms:
        fire_at_ms = run.started_ms + run.execution_timeout_ms
        rec.disarm(run, TimerKind.EXECUTION_TIMEOUT, 0, fire_at_ms)
    run.suspended_reason = ""
    run.status = status
    run.closed_ms = rec.time_ms
    namespace.run_closed(rec, run.key.namespace)
    if status is not RunStatus.CONTINUED_AS_NEW:
        child.report(rec, run)
