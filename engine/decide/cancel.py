"""Asking a run's code to cancel; steps whose result that code wants no more."""

from __future__ import annotations

from raftflow.engine.commands import CancelStep, RecordMarker
from raftflow.engine.decide.context import step_at, text_too_large
from raftflow.engine.decide.plan import Plan, Planned, invalid, over_limit
from raftflow.engine.events import StepCancelled, WorkflowCancelRequested
from raftflow.engine.state import Run, StepKind, StepStatus


def told(run: Run) -> bool:
    """Whether the run was asked to cancel, once and for all; its code may not know it yet."""
    return run.cancel_requested_event_id > 0 or any(
        isinstance(arrival.body, WorkflowCancelRequested) for arrival in run.arrivals.values()
    )


def step(plan: Plan, command: CancelStep) -> Planned:
    """Of a step that has its result, nothing happens: the code could not know."""
    sequence = command.sequence
    if problem := text_too_large("reason", command.reason, plan.ctx.limits.max_payload_bytes):
        return over_limit(problem)
    begun = step_at(plan.run, sequence)
    if begun is not None:
        name, is_marker = begun.name, begun.kind is StepKind.MARKER
    elif len(plan.run.steps) < sequence < plan.next_sequence:
        planned = plan.steps[sequence - len(plan.run.steps) - 1]
        name, is_marker = planned.step_name, isinstance(planned, RecordMarker)
    else:
        return invalid(f"cancel_step: there is no step {sequence}")
    if name != command.step_name:
        return invalid(f"cancel_step: step {sequence} is {name!r}, not {command.step_name!r}")
    if is_marker:
        return invalid(f"cancel_step: step {sequence} is a marker")
    resolved = begun is not None and begun.status is not StepStatus.SCHEDULED
    if resolved or sequence in plan.cancelled:
        return ()
    plan.cancelled.add(sequence)
    return (StepCancelled(sequence=sequence, reason=command.reason),)
