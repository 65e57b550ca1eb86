"""Linearizability of a register, one key at a time (Wing and Gong's search, with Lowe's memo).

An operation takes effect at one moment between its invocation and its end. The search walks the
invocations and ends in order of time, tries each operation that could be next, and never visits a
pair (operations done, value) twice. An operation with unknown outcome may take effect at any later
moment, or never.

Values written are unique. So an unknown write that nobody ever saw can be left out, and one that
was seen has taken effect by the end of the first read that saw it. Both keep the search small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.jepsen.history import NEVER

READ, WRITE, CAS = "read", "write", "cas"
MAX_STEPS = 2_000_000


@dataclass(frozen=True, slots=True)
class Event:
    """`value` is what was read or written; of a conditional update the new value, which took effect
    only if `seen` was the register's. `surely`: the operation is known to have happened."""

    f: str
    value: Any
    start_ns: float
    end_ns: float
    surely: bool = True
    seen: Any = None

    def apply(self, state: Any) -> tuple[bool, Any]:
        if self.f == READ:
            return state == self.value, state
        if self.f == CAS and state != self.seen:
            return False, state
        return True, self.value


@dataclass(frozen=True, slots=True)
class Found:
    """`linearizable` None: the search gave up. `stuck`: the operations that no order explains,
    around the longest explanation there is."""

    linearizable: bool | None
    stuck: tuple[Event, ...] = ()
    steps: int = 0


def search(events: Sequence[Event], initial: Any = None) -> Found:
    history = _prepared(events)
    # The points in time: (when, is the end, operation).
    points = [(event.start_ns, 0, i) for i, event in enumerate(history)]
    points += [
        (event.end_ns, 1, i)
        for i, event in enumerate(history)
        if event.surely and event.end_ns != NEVER
    ]
    points.sort()
    surely = sum(1 << i for i, event in enumerate(history) if event.surely)
    return _Search(history, points, surely).run(initial)


class _Search:
    """Depth first over the list of points; lifting an operation takes its two points out."""

    def __init__(
        self, history: list[Event], points: list[tuple[float, int, int]], surely: int
    ) -> None:
        self._history = history
        self._points = points
        self._surely = surely
        size = len(points)
        # A doubly linked list of positions 0..size-1 with a head at `size`.
        self._next = [*range(1, size), size, 0]
        self._previous = [size, *range(size)]
        self._ends = {i: at for at, (_when, end, i) in enumerate(points) if end}
        self._head = size

    def run(self, initial: Any) -> Found:
        done, state, steps = 0, initial, 0
        visited: set[tuple[int, Any]] = set()
        trail: list[tuple[int, Any]] = []  # (position lifted, state before)
        best, stuck_at = -1, self._head
        at = self._next[self._head]
        while done & self._surely != self._surely:
            steps += 1
            if steps > MAX_STEPS:
                return Found(None, (), steps)
            if at != self._head and not self._points[at][1]:
                operation = self._points[at][2]
                possible, after = self._history[operation].apply(state)
                ahead = (done | 1 << operation, after)
                if possible and ahead not in visited:
                    visited.add(ahead)
                    trail.append((at, state))
                    done, state = ahead
                    self._lift(at)
                    at = self._next[self._head]
                else:
                    at = self._next[at]
                continue
            # An end was reached whose operation found no place: the last choice was wrong.
            if len(trail) > best:
                best, stuck_at = len(trail), at
                stuck = self._around(done, stuck_at)
            if not trail:
                return Found(False, stuck, steps)
            at, state = trail.pop()
            done &= ~(1 << self._points[at][2])
            self._unlift(at)
            at = self._next[at]
        return Found(True, (), steps)

    def _around(self, done: int, at: int) -> tuple[Event, ...]:
        """The operations that were open where no order went on."""
        when = self._points[at][0] if at != self._head else NEVER
        return tuple(
            event
            for i, event in enumerate(self._history)
            if not done >> i & 1 and event.start_ns <= when
        )[:8]

    def _lift(self, at: int) -> None:
        self._unlink(at)
        end = self._ends.get(self._points[at][2])
        if end is not None:
            self._unlink(end)

    def _unlift(self, at: int) -> None:
        end = self._ends.get(self._points[at][2])
        if end is not None:
            self._relink(end)
        self._relink(at)

    def _unlink(self, at: int) -> None:
        self._next[self._previous[at]] = self._next[at]
        self._previous[self._next[at]] = self._previous[at]

    def _relink(self, at: int) -> None:
        self._next[self._previous[at]] = at
        self._previous[self._next[at]] = at


def _prepared(events: Sequence[Event]) -> list[Event]:
    """Reads of unknown outcome say nothing; unknown writes are dropped or bounded (see above)."""
    first_seen: dict[Any, float] = {}
    for event in events:
        seen: list[Any] = []
        if event.surely and event.f == READ:
            seen = [event.value]
        elif event.f == CAS:
            seen = [event.seen]
        for value in seen:
            bound = event.end_ns if event.surely else NEVER
            first_seen[value] = min(first_seen.get(value, NEVER), bound)
    kept = []
    for event in events:
        if event.surely:
            kept.append(event)
        elif event.f != READ and event.value in first_seen:
            end = first_seen[event.value]
            kept.append(replace(event, end_ns=end, surely=end != NEVER))
    return kept
