"""Signals: buffered when they arrive, taken by waits, oldest first for each name."""

from __future__ import annotations

from raftflow.engine.events import SignalAwaited, SignalConsumed, SignalReceived
from raftflow.engine.evolve import step as steps
from raftflow.engine.evolve.decision import wake
from raftflow.engine.evolve.recorder import Recorder
from raftflow.engine.state import Run, Signal, Step, StepKind, StepStatus


def received(rec: Recorder, run: Run, body: SignalReceived) -> None:
    """An open wait takes it at once."""
    event_id = rec.event(run, body, len(body.payload))
    signal = Signal(event_id, rec.time_ms, body.name, body.payload)
    run.signals[event_id] = signal
    rec.changes.signals[run.key, event_id] = signal
    waiting = run.oldest_wait(body.name)
    if waiting:
        consumed(rec, run, SignalConsumed(sequence=waiting, signal_event_id=event_id))


def awaited(rec: Recorder, run: Run, body: SignalAwaited) -> None:
    event_id = rec.event(run, body, 0)
    step = Step(
        sequence=body.sequence,
        kind=StepKind.SIGNAL,
        name=body.step_name,
        status=StepStatus.SCHEDULED,
        scheduled_event_id=event_id,
        scheduled_ms=rec.time_ms,
        signal_name=body.signal_name,
    )
    steps.opened(rec, run, step)
    if run.waits is not None:
        run.waits.setdefault(step.signal_name, []).append(step.sequence)


def consumed(rec: Recorder, run: Run, body: SignalConsumed) -> None:
    event_id = rec.event(run, body, 0)
    step = run.steps[body.sequence - 1]
    signal = run.signals.pop(body.signal_event_id)
    rec.changes.signals[run.key, signal.event_id] = Signal(
        signal.event_id, signal.time_ms, signal.name, signal.payload, step.sequence
    )
    drop(run, step)
    step.output = signal.payload
    steps.resolved(rec, run, step, StepStatus.COMPLETED, event_id)
    wake(rec, run)


def drop(run: Run, step: Step) -> None:
    """The wait is over."""
    if run.waits is not None:
        waiting = run.waits[step.signal_name]
        waiting.remove(step.sequence)
        if not waiting:
            del run.waits[step.signal_name]
