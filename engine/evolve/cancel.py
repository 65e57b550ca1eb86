"""A graceful cancel of the run, which its code is told of; and steps that its code cancels."""

from __future__ import annotations

from raftflow.engine.events import StepCancelled, WorkflowCancelRequested
from raftflow.engine.evolve import activity, child, signal, timer
from raftflow.engine.evolve import step as steps
from raftflow.engine.evolve.decision import wake
from raftflow.engine.evolve.recorder import Recorder
from raftflow.engine.state import Run, Step, StepKind, StepStatus


def requested(rec: Recorder, run: Run, body: WorkflowCancelRequested) -> None:
    run.cancel_requested_event_id = rec.event(run, body, len(body.reason))
    run.cancel_requested_ms = rec.time_ms
    run.cancel_reason = body.reason
    wake(rec, run)


def step_cancelled(rec: Recorder, run: Run, body: StepCancelled) -> None:
    step = run.steps[body.sequence - 1]
    event_id = rec.event(run, body, len(body.reason))
    stop(rec, run, step)
    if step.kind is StepKind.CHILD and not step.arrived:
        child.unwanted(rec, run, step, body.reason)
    step.error = body.reason
    steps.resolved(rec, run, step, StepStatus.CANCELLED, event_id)


def stop(rec: Recorder, run: Run, step: Step) -> None:
    """Nothing is to come of an open step any more: neither its task nor its timer nor its wait."""
    if step.kind is StepKind.ACTIVITY:
        activity.drop(rec, run, step)
    elif step.kind is StepKind.TIMER:
        timer.drop(rec, run, step)
    elif step.kind is StepKind.SIGNAL:
        signal.drop(run, step)
