"""A node without Raft, disk, network and clock: the engine, its log, and the leader's duties.

All that it knows follows from its log, as on a real node: `restart` forgets everything and applies
the log again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from raftflow.engine.apply import Applied, apply
from raftflow.engine.commands import Batch, Command, TimerKind
from raftflow.engine.effects import (
    ArmTimer,
    DisarmTimer,
    DropLease,
    Effect,
    HoldLease,
    OfferActivity,
    OfferDecision,
    SendMessage,
    WithdrawTask,
)
from raftflow.engine.events import Event
from raftflow.engine.ids import RunKey, WorkflowKey
from raftflow.engine.limits import DEFAULT_LIMITS, Limits
from raftflow.engine.rejections import Answer
from raftflow.engine.state import Catalog, Run, Signal, WorkingSet

# Tests begin at the same moment, whatever the wall clock says: 2025-01-01T00:00:00Z.
EPOCH_MS = 1_735_689_600_000

Offer = TypeVar("Offer", OfferDecision, OfferActivity)
TaskKey = tuple[RunKey, int]  # the run and the sequence of an activity


@dataclass(frozen=True, slots=True)
class Queued(Generic[Offer]):
    """A task that waits for a worker; numbered in the order in which tasks were offered."""

    number: int
    offer: Offer


@dataclass(frozen=True, slots=True)
class Held:
    lease: HoldLease
    held_since_ms: int


class Node:
    """The state, and what has to be done: queued tasks in the order in which they were offered,
    armed timers, leases that are out, messages of runs to each other."""

    def __init__(self, *, limits: Limits = DEFAULT_LIMITS, start_ms: int = EPOCH_MS) -> None:
        self.limits = limits
        self.log: list[Batch] = []
        self.start_ms = start_ms
        self.time_ms = start_ms
        # Who wants to hear that a lease has ended, and whether its work is no longer wanted.
        self.watchers: dict[str, Callable[[bool], None]] = {}
        self._forget()

    def _forget(self) -> None:
        self.state = WorkingSet(Catalog())
        self.events: dict[RunKey, list[Event]] = {}
        self.signals: dict[RunKey, dict[int, Signal]] = {}
        self.offered = 0
        self.decisions: dict[RunKey, Queued[OfferDecision]] = {}
        self.activities: dict[TaskKey, Queued[OfferActivity]] = {}
        self.timers: dict[tuple[RunKey, TimerKind, int], ArmTimer] = {}
        self.leases: dict[str, Held] = {}
        self.messages: dict[tuple[RunKey, int], SendMessage] = {}

    def execute(self, command: Command) -> Answer:
        """Append one entry to the log and apply it."""
        number = len(self.log) + 1
        batch = Batch(
            index=number,
            term=1,
            time_ms=self.time_ms,
            commands=((f"c{number}", command),),
            limits=self.limits,
        )
        self.log.append(batch)
        return self._apply(batch).replies[0].answer

    def restart(self) -> None:
        """Lose the memory, keep the log: nothing may be different afterwards."""
        before = self._memory()
        self._forget()
        for batch in self.log:
            self._apply(batch)
        assert self._memory() == before, "the log does not tell all that the node knew"

    def _memory(self) -> tuple[object, ...]:
        state, duties = self.state, (self.decisions, self.activities, self.timers, self.leases)
        return (state.runs, state.current, self.events, self.signals, *duties, self.messages)

    def run(self, key: RunKey) -> Run:
        return self.state.runs[key]

    def newest(self, namespace: str, workflow_id: str) -> RunKey | None:
        run_id = self.state.current.get(WorkflowKey(namespace, workflow_id))
        return None if run_id is None else RunKey(namespace, workflow_id, run_id)

    def signals_of(self, key: RunKey) -> tuple[Signal, ...]:
        """All signals of the run, taken ones too, in order."""
        return tuple(signal for _, signal in sorted(self.signals.get(key, {}).items()))

    def _apply(self, batch: Batch) -> Applied:
        applied = apply(self.state, batch)
        for key, event in applied.changes.events:
            self.events.setdefault(key, []).append(event)
        for (key, event_id), signal in applied.changes.signals.items():
            self.signals.setdefault(key, {})[event_id] = signal
        for sent, message in applied.changes.outbox.items():
            if message is None:
                self.messages.pop(sent, None)
        for key in applied.changes.deleted:
            self.events.pop(key, None)
            self.signals.pop(key, None)
        for effect in applied.effects:
            self._note(effect, batch.time_ms)
        return applied

    def _note(self, effect: Effect, time_ms: int) -> None:
        """The leader's duty that an effect begins or ends."""
        match effect:
            case OfferDecision():
                self.offered += 1
                self.decisions[effect.run] = Queued(self.offered, effect)
            case OfferActivity():
                self.offered += 1
                self.activities[effect.run, effect.sequence] = Queued(self.offered, effect)
            case WithdrawTask():
                self._withdraw(effect.run, effect.sequence)
            case HoldLease():
                self._withdraw(effect.run, effect.sequence)
                self.leases[effect.token] = Held(effect, time_ms)
            case DropLease():
                self.leases.pop(effect.token, None)
                if watcher := self.watchers.pop(effect.token, None):
                    watcher(effect.cancelled)
            case ArmTimer():
                self.timers[effect.run, effect.kind, effect.sequence] = effect
            case DisarmTimer():
                self.timers.pop((effect.run, effect.kind, effect.sequence), None)
            case SendMessage():
                self.messages[effect.run, effect.number] = effect

    def _withdraw(self, run: RunKey, sequence: int) -> None:
        if sequence:
            self.activities.pop((run, sequence), None)
        else:
            self.decisions.pop(run, None)
