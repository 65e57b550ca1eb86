"""How a run and its steps are named, in sentences and as evidence."""

from __future__ import annotations

from raftflow.cluster.why.model import Fact, Moment
from raftflow.cluster.why.words import quoted
from raftflow.engine.state import Run, Step, StepKind


def described(step: Step) -> str:
    kind = step.kind.name.lower()
    return f"{kind.capitalize()} {quoted(step.name)} (step {step.sequence})"


def of_run(run: Run) -> dict[str, Fact]:
    return {
        "workflow_id": run.key.workflow_id,
        "run_id": run.key.run_id,
        "namespace": run.key.namespace,
        "workflow_type": run.workflow_type,
        "status": run.status.name,
    }


def of_step(step: Step) -> dict[str, Fact]:
    fields: dict[str, Fact] = {
        "step": step.name,
        "sequence": step.sequence,
        "kind": step.kind.name,
    }
    if step.kind is StepKind.ACTIVITY:
        fields |= {"attempts": step.attempts, "max_attempts": step.retry.max_attempts}
    return fields


def awaited(step: Step) -> dict[str, Fact]:
    """An open step, as one of several."""
    fields: dict[str, Fact] = {
        "kind": step.kind.name,
        "step": step.name,
        "sequence": step.sequence,
    }
    if step.kind is StepKind.ACTIVITY:
        fields["task"] = step.task.state.name
    if step.kind is StepKind.TIMER:
        fields["due_at"] = Moment(step.fire_at_ms)
    if step.kind is StepKind.SIGNAL:
        fields["signal"] = step.signal_name
    if step.kind is StepKind.CHILD:
        fields["child"] = step.workflow_id
    if step.arrived:
        fields["arrived"] = True
    return fields
