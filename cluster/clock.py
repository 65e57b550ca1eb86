"""Log time: the stamps that every timer, lease and timeout is measured in.

The next stamp is the last one plus this leader's monotonic time since, steered towards the median
of the voters' wall clocks by a SLEWth of that at most. So it never goes back, never stands still,
and what is timed within one term is right to a SLEWth, whatever wall clocks do meanwhile. It leaps
to a median ahead of it only at the start of a term, since nobody has counted before, and when it
has been behind so far and for so long that the time of this machine must have stood still.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

# A node further than this from the median must not lead.
MAX_LEADER_SKEW_MS = 1_000
# How much slower or faster than this machine's log time may run, as one part of so many. (ntpd and
# chrony slew by about as much, and step only what would take too long, too.)
SLEW = 32
STEP_US = 10_000_000  # log time that is further behind
STEP_AFTER_US = 60_000_000  # for so long catches up at once
# A sample that came quickly is better than a later slow one, for as long as no clock can have
# drifted by the difference: by a thousandth at most.
DRIFT = 1_000
FRESH_US = 5_000_000  # when nothing is known of how late samples are
# How long a sample was under way whose sender had heard nothing of us.
UNKNOWN_US = 3_600_000_000
ROUNDING_US = 2_000


def _monotonic_us() -> int:
    return time.monotonic_ns() // 1_000


def _wall_us() -> int:
    return time.time_ns() // 1_000


@dataclass(frozen=True, slots=True)
class Sample:
    """A peer's wall clock minus our monotonic clock, off by half of ``took_us`` at most."""

    offset_us: int
    took_us: int
    at_us: int

    def outdates(self, other: Sample) -> bool:
        """Whether to believe this one instead: it is as good as the other is by now, or the clock
        has been set since. (A clock whose samples come late looks wrong by up to half of that; time
        measured with it would leap, and what was timed meanwhile would be short.)"""
        age_us = self.at_us - other.at_us
        moved = abs(self.offset_us - other.offset_us)
        doubt_us = (self.took_us + other.took_us) // 2 + ROUNDING_US
        unknown = self.took_us == UNKNOWN_US and age_us > FRESH_US
        return self.took_us <= other.took_us + age_us // DRIFT or unknown or moved > doubt_us


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
        self._samples: dict[str, Sample] = {}
        self._last_us = 0
        self._last_at_us = monotonic_us()
        self._may_leap = True  # nothing has been stamped in this term
        self._behind_since_us: int | None = None  # by STEP_US or more

    def follow(self, *, voters: int, peers: Collection[str]) -> None:
        """Who votes has changed; `peers` are those besides this node."""
        self._voters, self._peers = voters, frozenset(peers)
        self._samples = {p: known for p, known in self._samples.items() if p in self._peers}

    def observe(self, peer: str, wall_ms: int, *, took_us: int | None = None) -> None:
        """Note what a peer's wall clock said just now, or at most ``took_us`` ago."""
        if self._peers is not None and peer not in self._peers:
            return
        mono = self._monotonic_us()
        offset_us = wall_ms * 1_000 - mono
        if took_us is None:
            sample = Sample(offset_us, UNKNOWN_US, mono)
        else:
            sample = Sample(offset_us + took_us // 2, took_us, mono)
        known = self._samples.get(peer)
        if known is None or sample.outdates(known):
            self._samples[peer] = sample

    def moment_us(self) -> int:
        """Monotonic time, which means nothing elsewhere."""
        return self._monotonic_us()

    def wall_ms(self) -> int:
        return self._wall_us() // 1_000

    @property
    def ready(self) -> bool:
        """Whether a majority of the voters' clocks is known: before that a lone wrong clock
        could set the time of a new cluster."""
        return len(self._samples) + 1 > self._voters // 2

    def resume(self, last_ms: int) -> None:
        """Start from the newest stamp in the log (0 in a new one)."""
        self._last_us = max(self._last_us, last_ms * 1_000)
        self._last_at_us = self._monotonic_us()
        self._may_leap = True

    def now_ms(self) -> int:
        """The stamp that a batch proposed now would carry; advances the clock."""
        mono = self._monotonic_us()
        elapsed = max(0, mono - self._last_at_us)
        median = self._median_us(mono)
        steady = self._last_us + elapsed
        if self._catches_up_at_once(median - steady, mono):
            self._last_us = median
        else:
            most = elapsed // SLEW
            self._last_us = steady + max(-most, min(median - steady, most))
        self._last_at_us = mono
        return self._last_us // 1_000

    def _catches_up_at_once(self, behind_us: int, mono: int) -> bool:
        if behind_us < STEP_US:
            self._behind_since_us = None
        elif self._behind_since_us is None:
            self._behind_since_us = mono
        since_us = self._behind_since_us
        long = since_us is not None and mono - since_us >= STEP_AFTER_US
        leap = behind_us > 0 and (self._may_leap or long)
        self._may_leap = False
        return leap

    def skew_ms(self) -> int:
        """This node's wall clock minus the median of all known ones."""
        mono = self._monotonic_us()
        return (self._wall_us() - self._median_us(mono)) // 1_000

    def _median_us(self, mono: int) -> int:
        theirs = [mono + sample.offset_us for sample in self._samples.values()]
        walls = sorted([self._wall_us(), *theirs])
        # The lower one of two: a timer may be late, never early.
        return walls[(len(walls) - 1) // 2]
