"""What one batch changes, gathered while it is applied: rows, and effects that mirror them."""

from __future__ import annotations

from typing import Any

from raftflow.engine.commands import TimerKind
from raftflow.engine.effects import (
    ArmTimer,
    DisarmTimer,
    DropLease,
    Effect,
    HistoryGrew,
    HoldLease,
)
from raftflow.engine.events import Event, EventBody
from raftflow.engine.ids import RunKey
from raftflow.engine.state import Changes, Message, Run, Step, Task, TimerRow, WorkingSet

# What an event costs beside its payload, roughly: history_bytes is a bound, not a measurement.
EVENT_OVERHEAD_BYTES = 64


class Recorder:
    """Whoever changes a row says so here, in the same function."""

    __slots__ = ("_grown", "changes", "effects", "feature_level", "state", "time_ms")

    def __init__(self, state: WorkingSet, time_ms: int, feature_level: int) -> None:
        self.state = state
        self.time_ms = time_ms
        self.feature_level = feature_level
        self.changes = Changes()
        self.effects: list[Effect] = []
        self._grown: dict[RunKey, tuple[Run, int]] = {}  # with the first id of this batch

    def event(self, run: Run, body: EventBody, payload_bytes: int) -> int:
        """Append an event to the run's history and return its id."""
        event_id = run.history_length + 1
        run.history_length = event_id
        run.history_bytes += EVENT_OVERHEAD_BYTES + payload_bytes
        run.updated_ms = self.time_ms
        key = run.key
        self.changes.events.append((key, Event(event_id, self.time_ms, body)))
        self.changes.runs[key] = run
        self._grown.setdefault(key, (run, event_id))
        return event_id

    def run(self, run: Run) -> None:
        self.changes.runs[run.key] = run

    def step(self, run: Run, step: Step) -> None:
        self.changes.steps[run.key, step.sequence] = step

    def outbox(self, run: Run, number: int, message: Message | None) -> None:
        self.changes.outbox[run.key, number] = message

    def forget(self, run: Run) -> None:
        """All rows of the run go, those with what this batch changed in it."""
        key, changes = run.key, self.changes
        changes.deleted[key] = None
        changes.runs.pop(key, None)
        changes.events = [row for row in changes.events if row[0] != key]
        for rows in (
            changes.steps,
            changes.signals,
            changes.arrivals,
            changes.outbox,
            changes.timers,
        ):
            _drop_rows(rows, key)

    def arm(self, run: Run, kind: TimerKind, sequence: int, fire_at_ms: int) -> None:
        key = run.key
        self.changes.timers[key, kind, sequence] = TimerRow(key, kind, sequence, fire_at_ms)
        self.effects.append(ArmTimer(key, kind, sequence, fire_at_ms))

    def disarm(self, run: Run, kind: TimerKind, sequence: int, fire_at_ms: int) -> None:
        """The row goes, because it fired or because nobody waits for it any more."""
        key = run.key
        self.changes.timers[key, kind, sequence] = None
        self.effects.append(DisarmTimer(key, kind, sequence, fire_at_ms))

    def keep_timer(self, run: Run, kind: TimerKind, sequence: int, fire_at_ms: int) -> None:
        """The row stays; whoever took the timer for due takes it up again."""
        self.effects.append(DisarmTimer(run.key, kind, sequence, fire_at_ms))
        self.effects.append(ArmTimer(run.key, kind, sequence, fire_at_ms))

    def keep_lease(self, run: Run, sequence: int, task: Task) -> None:
        """The lease stays; whoever took it for missed watches it again."""
        key, token = run.key, task.token
        self.effects.append(DropLease(key, sequence, token, cancelled=False, expired=False))
        self.effects.append(HoldLease(key, sequence, token, task.duration_ms))

    def finish(self) -> None:
        """Tell, once a run, that its history grew."""
        for key, (run, first_id) in self._grown.items():
            self.effects.append(
                HistoryGrew(
                    key,
                    run.workflow_type,
                    run.history_length,
                    opened=first_id == 1,
                    closed=not run.open,
                    status=run.status.name,
                )
            )


def _drop_rows(rows: dict[Any, Any], key: RunKey) -> None:
    """Rows of a run are keyed by tuples that begin with its key."""
    for row in [row for row in rows if row[0] == key]:
        del rows[row]
