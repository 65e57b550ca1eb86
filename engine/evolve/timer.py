"""Timer steps."""

from __future__ import annotations

from raftflow.engine.commands import TimerKind
from raftflow.engine.events import TimerFired, TimerStarted
from raftflow.engine.evolve import step as steps
from raftflow.engine.evolve.decision import wake
from raftflow.engine.evolve.recorder import Recorder
from raftflow.engine.state import Run, Step, StepKind, StepStatus
from raftflow.engine.transitions import TimerKept


def started(rec: Recorder, run: Run, body: TimerStarted) -> None:
    event_id = rec.event(run, body, 0)
    step = Step(
        sequence=body.sequence,
        kind=StepKind.TIMER,
        name=body.step_name,
        status=StepStatus.SCHEDULED,
        scheduled_event_id=event_id,
        scheduled_ms=rec.time_ms,
        fire_at_ms=body.fire_at_ms,
    )
    steps.opened(rec, run, step)
    rec.arm(run, TimerKind.STEP, step.sequence, step.fire_at_ms)


def fired(rec: Recorder, run: Run, body: TimerFired) -> None:
    step = run.steps[body.sequence - 1]
    event_id = rec.event(run, body, 0)
    drop(rec, run, step)
    steps.resolved(rec, run, step, StepStatus.COMPLETED, event_id)
    wake(rec, run)


def arrived(rec: Recorder, run: Run, body: TimerFired) -> None:
    drop(rec, run, run.steps[body.sequence - 1])
    steps.arrived(rec, run, body)


def drop(rec: Recorder, run: Run, step: Step) -> None:
    """Nobody waits for the timer any more, or it fired. One that arrived is not armed."""
    if not step.arrived:
        rec.disarm(run, TimerKind.STEP, step.sequence, step.fire_at_ms)


def kept(rec: Recorder, run: Run, move: TimerKept) -> None:
    rec.keep_timer(run, move.kind, move.sequence, move.fire_at_ms)
