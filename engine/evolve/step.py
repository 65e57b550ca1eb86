"""What steps of every kind share: they are opened, and once resolved or closed they stay so."""

from __future__ import annotations

from typing import Protocol

from raftflow.engine.effects import StepResolved
from raftflow.engine.evolve.recorder import Recorder
from raftflow.engine.state import Run, Step, StepStatus


class StepMove(Protocol):
    @property
    def sequence(self) -> int: ...


def opened(rec: Recorder, run: Run, step: Step) -> None:
    run.steps.append(step)
    run.open_steps += 1
    rec.step(run, step)


def arrived(rec: Recorder, run: Run, body: StepMove) -> None:
    """The step's result waits to join the history: nothing is in flight for it any more."""
    step = run.steps[body.sequence - 1]
    step.arrived = True
    rec.step(run, step)


def resolved(rec: Recorder, run: Run, step: Step, status: StepStatus, event_id: int) -> None:
    """The step has its result, by the event ``event_id``; 0 when it closes with its run, which
    leaves no event."""
    step.status = status
    step.arrived = False
    step.resolved_event_id = event_id
    step.resolved_ms = rec.time_ms
    step.input = b""
    step.heartbeat_details = b""
    run.open_steps -= 1
    rec.step(run, step)
    rec.effects.append(
        StepResolved(
            run.key, step.name, step.kind.name, status.name, rec.time_ms - step.scheduled_ms
        )
    )
