"""How late the event loop is, measured by the driver's own 20 ms timer."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import structlog

log = structlog.get_logger()

_SLOW_MS = 10.0
_LOG_MS = 100.0
_LOG_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class LoopLag:
    """Over the last `samples` ticks of the timer; `over_10_ms_total` counts since the start."""

    samples: int
    p99_ms: float
    max_ms: float
    over_10_ms_total: int


class LoopWatchdog:
    def __init__(self, *, window: int = 500) -> None:
        self._recent: deque[float] = deque(maxlen=window)
        self._slow = 0
        self._logged_at = -math.inf
        self._worst_unlogged_ms = 0.0

    def observe(self, late_s: float, *, now_s: float) -> None:
        late_ms = max(0.0, late_s * 1000)
        self._recent.append(late_ms)
        if late_ms > _SLOW_MS:
            self._slow += 1
        if late_ms > _LOG_MS:
            self._worst_unlogged_ms = max(self._worst_unlogged_ms, late_ms)
        if self._worst_unlogged_ms and now_s - self._logged_at >= _LOG_EVERY_S:
            log.warning(
                "loop_lagged", late_ms=round(self._worst_unlogged_ms), slow_total=self._slow
            )
            self._logged_at, self._worst_unlogged_ms = now_s, 0.0

    def snapshot(self) -> LoopLag:
        recent = sorted(self._recent)
        if not recent:
            return LoopLag(0, 0.0, 0.0, self._slow)
        p99 = recent[min(len(recent) - 1, int(len(recent) * 0.99))]
        return LoopLag(len(recent), p99, recent[-1], self._slow)
