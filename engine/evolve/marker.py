"""Marker steps: they have their data from the start."""

from __future__ import annotations

from raftflow.engine.events import MarkerRecorded
from raftflow.engine.evolve.recorder import Recorder
from raftflow.engine.state import Run, Step, StepKind, StepStatus


def recorded(rec: Recorder, run: Run, body: MarkerRecorded) -> None:
    event_id = rec.event(run, body, len(body.data))
    step = Step(
        sequence=body.sequence,
        kind=StepKind.MARKER,
        name=body.step_name,
        status=StepStatus.COMPLETED,
        scheduled_event_id=event_id,
        scheduled_ms=rec.time_ms,
        output=body.data,
        resolved_event_id=event_id,
        resolved_ms=rec.time_ms,
        marker=body.marker,
    )
    run.steps.append(step)
    rec.step(run, step)
