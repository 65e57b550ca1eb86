"""Markers: what the workflow's code noted for its later replays."""

from __future__ import annotations

from raftflow.engine.commands import RecordMarker
from raftflow.engine.decide.context import too_large
from raftflow.engine.decide.plan import Plan, Planned, invalid, over_limit
from raftflow.engine.events import MarkerRecorded

CANCEL = "cancel"
MARKERS = ("version", "side_effect", CANCEL)


def record(plan: Plan, command: RecordMarker) -> Planned:
    if command.marker not in MARKERS:
        return invalid(f"marker is {command.marker!r}, it must be one of {', '.join(MARKERS)}")
    if problem := too_large("data", len(command.data), plan.ctx.limits.max_payload_bytes):
        return over_limit(problem)
    if command.marker == CANCEL and (problem := _cancel_problem(plan)):
        return invalid(problem)
    recorded = MarkerRecorded(
        step_name=command.step_name,
        sequence=command.sequence,
        marker=command.marker,
        data=command.data,
    )
    return (recorded,)


def _cancel_problem(plan: Plan) -> str | None:
    """It says where in the code's life the one graceful cancel came."""
    if not plan.run.cancel_requested_event_id:
        return "marker cancel: nobody asked the run to cancel"
    before = any(step.marker == CANCEL for step in plan.run.steps)
    if before or any(isinstance(s, RecordMarker) and s.marker == CANCEL for s in plan.steps):
        return "marker cancel: it was recorded before"
    return None
