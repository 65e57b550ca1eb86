"""Simulated time: a heap of events, and nothing between them."""

from __future__ import annotations

import heapq
from collections.abc import Callable

Event = Callable[[], None]
BEGAN = 1000.0


class Clock:
    def __init__(self) -> None:
        self.now = BEGAN
        self.rate = 1.0
        self._events: list[tuple[float, int, Event]] = []
        self._sequence = 0

    def read(self) -> float:
        """The monotonic clock of whoever acts now: each node's runs at its own rate."""
        return BEGAN + (self.now - BEGAN) * self.rate

    def after(self, delay_s: float, event: Event) -> None:
        self._sequence += 1
        heapq.heappush(self._events, (self.now + delay_s, self._sequence, event))

    def step(self) -> None:
        at, _sequence, event = heapq.heappop(self._events)
        self.now = at
        event()

    def run_until(self, at_s: float) -> None:
        while self._events and self._events[0][0] <= at_s:
            self.step()
        self.now = at_s
