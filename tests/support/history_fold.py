"""A run rebuilt from its history alone.

Events say what happened to a run; where its tasks were is no part of history. What must have been
true of them for an event to happen is put in between: a decision was out when it was applied, an
attempt was out when it gave its result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from raftflow.cluster.codec.events import decode_event
from raftflow.cluster.store.records import HEADER, HEADER_BYTES, unframe
from raftflow.engine.commands import FEATURE_LEVEL
from raftflow.engine.events import (
    ChildStarted,
    Event,
    EventBody,
    MarkerRecorded,
    SearchAttributesUpserted,
    SignalAwaited,
    StepCancelled,
    StepCompleted,
    StepFailed,
    StepScheduled,
    TimerStarted,
    WorkflowCompleted,
    WorkflowContinuedAsNew,
    WorkflowFailed,
)
from raftflow.engine.evolve.moves import evolve
from raftflow.engine.evolve.recorder import Recorder
from raftflow.engine.state import Catalog, Run, Signal, TaskState, WorkingSet
from raftflow.engine.transitions import (
    ActivityLeased,
    ActivityWithdrawn,
    AttemptFailed,
    DecisionApplied,
    DecisionLeased,
    Move,
)

DECIDED = (
    StepScheduled,
    TimerStarted,
    SignalAwaited,
    MarkerRecorded,
    ChildStarted,
    StepCancelled,
    SearchAttributesUpserted,
    WorkflowCompleted,
    WorkflowFailed,
    WorkflowContinuedAsNew,
)


def read_history(path: Path) -> Iterator[Event]:
    """The events of a `.history` file."""
    data = path.read_bytes()
    while data:
        length, _ = HEADER.unpack_from(data)
        record, data = data[: HEADER_BYTES + length], data[HEADER_BYTES + length :]
        yield decode_event(unframe(record))


def fold(events: Iterable[Event]) -> tuple[Run, list[Signal]]:
    """The run, and all its signals."""
    state = WorkingSet(Catalog())
    run: Run | None = None
    signals: dict[int, Signal] = {}
    made: list[Event] = []
    for event in events:
        if event.event_id > len(made):  # else it came with the one before it
            rec = Recorder(state, event.time_ms, FEATURE_LEVEL)
            before = () if run is None else tuple(_before(run, event.body))
            evolve(rec, run, (*before, event.body))
            run = next(iter(state.runs.values()))
            signals.update({number: each for (_, number), each in rec.changes.signals.items()})
            made += [each for _, each in rec.changes.events]
        assert made[event.event_id - 1] == event
    assert run is not None
    return run, [signal for _, signal in sorted(signals.items())]


def _before(run: Run, body: EventBody) -> Iterator[Move]:
    if isinstance(body, DECIDED) and run.decision.state is TaskState.QUEUED:
        yield DecisionLeased("token", "", "", "", 1)
        yield DecisionApplied(b"")
    if isinstance(body, StepCompleted | StepFailed):
        step = run.steps[body.sequence - 1]
        for attempt in range(step.attempts + 1, body.attempt + 1):
            yield ActivityLeased(body.sequence, "token", body.worker_id, body.node, "", 1)
            if attempt < body.attempt:
                yield AttemptFailed(body.sequence, "", "", 0)
        if body.attempt == 0:
            yield ActivityWithdrawn(body.sequence)
