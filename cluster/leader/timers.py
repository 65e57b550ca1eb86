"""The heap of timers that come due within the next horizon. The store holds all the others."""

from __future__ import annotations

import heapq

from raftflow.engine.commands import TimerKind
from raftflow.engine.ids import RunKey
from raftflow.engine.state import TimerRow

_Key = tuple[RunKey, TimerKind, int]


class Timers:
    """Armed timers by key; an armed key has one firing time."""

    def __init__(self) -> None:
        self._armed: dict[_Key, int] = {}
        self._heap: list[tuple[int, int, TimerRow]] = []
        self._order = 0

    def __len__(self) -> int:
        return len(self._armed)

    def arm(self, row: TimerRow) -> None:
        key = (row.run, row.kind, row.sequence)
        if self._armed.get(key) == row.fire_at_ms:
            return
        self._armed[key] = row.fire_at_ms
        self._order += 1
        heapq.heappush(self._heap, (row.fire_at_ms, self._order, row))

    def disarm(self, run: RunKey, kind: TimerKind, sequence: int, fire_at_ms: int) -> None:
        if self._armed.get((run, kind, sequence)) == fire_at_ms:
            del self._armed[run, kind, sequence]

    def due(self, now_ms: int, limit: int) -> list[TimerRow]:
        """Timers to fire, oldest first, each once."""
        out: list[TimerRow] = []
        while self._heap and self._heap[0][0] <= now_ms and len(out) < limit:
            _, _, row = heapq.heappop(self._heap)
            if self._armed.get((row.run, row.kind, row.sequence)) == row.fire_at_ms:
                out.append(row)
        return out

    def next_ms(self) -> int | None:
        return self._heap[0][0] if self._heap else None

    def clear(self) -> None:
        self._armed.clear()
        self._heap.clear()
