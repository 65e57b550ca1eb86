"""Log time: the stamps that every timer, lease and timeout is measured in.

The next stamp is the last one plus this leader's monotonic time since, steered towards the median
of the voters' wall clocks: behind the median it catches up at once, ahead of it it runs at half
speed. So it never goes back and never stands still, whatever one node's wall clock does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

# A node further than this from the median must not lead.
MAX_LEADER_SKEW_MS = 1_000


def _monotonic_us() -> int:
    return time.monotonic_ns() // 1_000


def _wall_us() -> int:
    return time.time_ns() // 1_000


class LogClock:
    """Stamps batches on the leader. All values leave in milliseconds since the Unix epoch."""

    def __init__(
        self,
        *,
        voters: int,
        monotonic_us: Callable[[], int] = _monotonic_us,
        wall_us: Callable[[], int] = _wall_us,
    ) -> None:
        self._voters = voters
        self._monotonic_us = monotonic_us
        self._wall_us = wall_us
        self._peers: frozenset[str] | None = None  # the other voters, once they are known
        self._offsets_us: dict[str, int] = {}  # a peer's wall clock minus our monotonic clock
        self._last_us = 0
        self._last_at_us = monotonic_us()

    def follow(self, *, voters: int, peers: Collection[str]) -> None:
        """Who votes has changed; `peers` are those besides this node."""
        self._voters, self._peers = voters, frozenset(peers)
        self._offsets_us = {p: at for p, at in self._offsets_us.items() if p in self._peers}

    def observe(self, peer: str, wall_ms: int) -> None:
        """Note what a peer's wall clock said just now."""
        if self._peers is None or peer in self._peers:
            self._offsets_us[peer] = wall_ms * 1_000 - self._monotonic_us()

    def wall_ms(self) -> int:
        return self._wall_us() // 1_000

    @property
    def ready(self) -> bool:
        """Whether a majority of the voters' clocks is known: before that a lone wrong clock
        could set the time of a new cluster."""
        return len(self._offsets_us) + 1 > self._voters // 2

    def resume(self, last_ms: int) -> None:
        """Start from the newest stamp in the log (0 in a new one)."""
        self._last_us = max(self._last_us, last_ms * 1_000)
        self._last_at_us = self._monotonic_us()

    def now_ms(self) -> int:
        """The stamp that a batch proposed now would carry; advances the clock."""
        mono = self._monotonic_us()
        elapsed = max(0, mono - self._last_at_us)
        median = self._median_us(mono)
        steady = self._last_us + elapsed
        if steady <= median:
            self._last_us = median
        else:
            self._last_us = max(median, self._last_us + elapsed // 2)
        # The half microsecond lost by the division would let frequent calls stop the clock.
        self._last_at_us = mono - (elapsed & 1 if steady > median else 0)
        return self._last_us // 1_000

    def skew_ms(self) -> int:
        """This node's wall clock minus the median of all known ones."""
        mono = self._monotonic_us()
        return (self._wall_us() - self._median_us(mono)) // 1_000

    def _median_us(self, mono: int) -> int:
        walls = sorted([self._wall_us(), *(mono + offset for offset in self._offsets_us.values())])
        # The lower one of two: a timer may be late, never early.
        return walls[(len(walls) - 1) // 2]
