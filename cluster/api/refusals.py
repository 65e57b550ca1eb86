"""Calls that are refused before the log: counted all, and told of in the node's log, so many a
second at most. Whoever guesses tokens must not fill a disk with it."""

from __future__ import annotations

import time

import structlog

from raftflow.cluster.api.status import ApiError
from raftflow.cluster.metrics import Metrics

log = structlog.get_logger("raftflow.api")

LINES_PER_S = 20
REASONS = ("UNAUTHENTICATED", "PERMISSION_DENIED")


class Refusals:
    def __init__(self, metrics: Metrics) -> None:
        self._counter = metrics.calls_refused
        self._overloaded = metrics.backpressure_rejected
        for reason in REASONS:  # a series that is absent cannot be watched
            self._counter.labels(reason, "")
        self._second = 0
        self._lines = 0
        self._untold = 0

    def note(
        self, operation: str, error: ApiError | None, address: str, *, actor: str = ""
    ) -> None:
        """Nothing, unless the call was refused for who made it, a limit, or want of room."""
        if error is None:
            return
        if error.reason == "OVERLOADED":
            self._overloaded.labels(error.details["cause"]).inc()
            return
        limit = error.details.get("limit", "")
        if not limit and error.reason not in REASONS:
            return
        self._counter.labels(error.reason, limit).inc()
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._lines = second, 0
        if self._lines >= LINES_PER_S:
            self._untold += 1
            return
        self._lines += 1
        untold, self._untold = self._untold, 0
        log.warning(
            "call_refused",
            operation=operation,
            reason=error.reason,
            why=error.message,
            limit=limit,
            actor=actor or error.actor,
            address=address,
            untold=untold,
        )
