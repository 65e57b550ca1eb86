"""Facts that wait. A decision that was stale twice in a row is not made stale again: what arrives
while it is out is committed and acknowledged, but joins the history when it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeGuard

from raftflow.engine.commands import RELEASE_0_2
from raftflow.engine.events import (
    ChildCompleted,
    ChildFailed,
    Event,
    EventBody,
    SignalReceived,
    StepCompleted,
    StepFailed,
    TimerFired,
    WorkflowCancelRequested,
)
from raftflow.engine.evolve import activity, timer
from raftflow.engine.evolve import step as steps
from raftflow.engine.evolve.recorder import EVENT_OVERHEAD_BYTES, Recorder
from raftflow.engine.state import Run, StepStatus, TaskState

Fact = (
    WorkflowCancelRequested
    | StepCompleted
    | StepFailed
    | ChildCompleted
    | ChildFailed
    | TimerFired
    | SignalReceived
)

# So many stale decisions in a row, then facts wait for the next one.
PATIENCE = 2


def _of_no_step(_rec: Recorder, _run: Run, _fact: Fact) -> None:
    """The run itself is told: nothing is in flight that would end with it."""


# What each fact ends at once, although it is not history yet. Other events never wait.
_ENDS: dict[type, Callable[..., None]] = {
    WorkflowCancelRequested: _of_no_step,
    StepCompleted: activity.arrived,
    StepFailed: activity.arrived,
    ChildCompleted: steps.arrived,
    ChildFailed: steps.arrived,
    TimerFired: timer.arrived,
    SignalReceived: _of_no_step,
}


def must_wait(move: object, rec: Recorder, run: Run) -> TypeGuard[Fact]:
    """Of a run whose patience is over: nobody asks this of others."""
    return (
        run.decision.state is TaskState.LEASED
        and type(move) in _ENDS
        and rec.feature_level >= RELEASE_0_2
    )


def hold(rec: Recorder, run: Run, fact: Fact) -> None:
    """A row now, an event later. Its bytes count from now on."""
    number = len(run.arrivals) + 1
    arrival = Event(number, rec.time_ms, fact)
    run.arrivals[number] = arrival
    run.history_bytes += _cost(fact)
    rec.changes.arrivals[run.key, number] = arrival
    rec.run(run)
    _ENDS[type(fact)](rec, run, fact)


def joining(rec: Recorder, run: Run) -> Iterator[EventBody]:
    """What has waited, in order, each when those before it have become history. A result of a step
    that was cancelled meanwhile came too late."""
    waiting, run.arrivals = run.arrivals, {}
    for number, arrival in waiting.items():
        fact = arrival.body
        run.history_bytes -= _cost(fact)
        rec.changes.arrivals[run.key, number] = None
        rec.run(run)
        sequence = getattr(fact, "sequence", 0)
        if not sequence or run.steps[sequence - 1].status is StepStatus.SCHEDULED:
            yield fact


def _cost(fact: EventBody) -> int:
    match fact:
        case StepCompleted() | ChildCompleted():
            return EVENT_OVERHEAD_BYTES + len(fact.output)
        case StepFailed() | ChildFailed():
            return EVENT_OVERHEAD_BYTES + len(fact.error)
        case SignalReceived():
            return EVENT_OVERHEAD_BYTES + len(fact.payload)
        case WorkflowCancelRequested():
            return EVENT_OVERHEAD_BYTES + len(fact.reason)
        case _:
            return EVENT_OVERHEAD_BYTES
