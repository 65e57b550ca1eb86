"""How long things took: quantiles without keeping the values.

A value falls into one of some hundred classes, each ten per cent wider than the one below, and what
is kept is how many fell into each. So noting costs a logarithm and an addition however much
happens, and a quantile is right to within five per cent.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable

_LEAST_MS = 0.01
_LOG_GROWTH = math.log(1.1)


class Tally:
    """Durations since it was last taken."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()

    def note(self, ms: float) -> None:
        self._counts[_class_of(ms)] += 1

    def take(self, *wanted: float) -> list[float | None]:
        """These quantiles, None each when nothing happened, and begin anew."""
        counts, self._counts = self._counts, Counter()
        return [_quantile(counts, each) for each in wanted]


class Durations:
    """Durations of the last ``slices`` of ``slice_s`` seconds, the one that has begun included."""

    def __init__(
        self, *, slice_s: float, slices: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._slice_s = slice_s
        self._clock = clock
        self._slices: deque[tuple[int, Counter[int]]] = deque(maxlen=slices)

    def note(self, ms: float) -> None:
        number = int(self._clock() / self._slice_s)
        if not self._slices or self._slices[-1][0] != number:
            self._slices.append((number, Counter()))
        self._slices[-1][1][_class_of(ms)] += 1

    def quantile_ms(self, wanted: float) -> float | None:
        """None when nothing happened."""
        oldest = int(self._clock() / self._slice_s) - (self._slices.maxlen or 0)
        counts: Counter[int] = Counter()
        for number, of_slice in self._slices:
            if number > oldest:
                counts.update(of_slice)
        return _quantile(counts, wanted)


def _class_of(ms: float) -> int:
    return 0 if ms <= _LEAST_MS else 1 + int(math.log(ms / _LEAST_MS) / _LOG_GROWTH)


def _quantile(counts: Counter[int], wanted: float) -> float | None:
    rank = math.ceil(counts.total() * wanted)
    for kind in sorted(counts):
        rank -= counts[kind]
        if rank <= 0:
            middle = math.exp(_LOG_GROWTH * max(0.0, kind - 0.5))
            return round(_LEAST_MS * middle, 3)
    return None
