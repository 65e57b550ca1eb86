"""Who is let in, and how often: calls of one token and of one namespace in a second, and polls of
one token at a time. Each node counts for itself; what a worker has done is never held back.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from raftflow.cluster.api.limits import over
from raftflow.cluster.api.refusals import Refusals
from raftflow.cluster.api.status import ApiError
from raftflow.cluster.config import Limits
from raftflow.cluster.metrics import Metrics

# By operation, as both APIs name it.
FINISHED_WORK = frozenset({"CompleteTask", "CompleteWorkflowTask", "Heartbeat"})
_NEVER_HELD = FINISHED_WORK | {"Health", "Ready"}
_BURST_S = 1.0
_ROUNDING = 1e-3  # of a call: the last one of a burst must not depend on it
_MOST_BUCKETS = 10_000


class Buckets:
    """Calls in a second by key, with bursts of one second: for each key the moment at which all
    that it used has flowed off again. ``per_second`` 0 is no bound."""

    def __init__(self, per_second: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._pause_s = 1 / per_second if per_second else 0.0
        self._clock = clock
        self._empty_at: dict[str, float] = {}

    def take(self, key: str) -> int:
        """0, or after how many milliseconds there will be room."""
        if not self._pause_s:
            return 0
        now = self._clock()
        empty_at = max(now, self._empty_at.get(key, now)) + self._pause_s
        excess_s = empty_at - now - _BURST_S
        if excess_s > self._pause_s * _ROUNDING:
            return max(1, math.ceil(round(excess_s * 1_000, 3)))
        self._empty_at[key] = empty_at
        if len(self._empty_at) > _MOST_BUCKETS:
            self._drop_empty(now)
        return 0

    def _drop_empty(self, now: float) -> None:
        self._empty_at = {key: at for key, at in self._empty_at.items() if at > now}


class Admission:
    """The counts of one node, for both of its APIs."""

    def __init__(
        self, limits: Limits, metrics: Metrics, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.refusals = Refusals(metrics)
        self._limits = limits
        self._of_token = Buckets(limits.token_calls_per_second, clock)
        self._of_namespace = Buckets(limits.namespace_calls_per_second, clock)
        self._polls: dict[str, int] = {}
        self._held_by_polls = 0  # connections

    def admit(self, operation: str, *, actor: str, namespace: str) -> None:
        """Raises RATE_LIMITED. ``namespace`` "" is none."""
        if operation in _NEVER_HELD:
            return
        wait_ms = self._of_token.take(actor)
        if wait_ms:
            raise self._too_fast("token", self._limits.token_calls_per_second, wait_ms)
        wait_ms = self._of_namespace.take(namespace) if namespace else 0
        if wait_ms:
            raise self._too_fast("namespace", self._limits.namespace_calls_per_second, wait_ms)

    @contextmanager
    def holding(self, actor: str) -> Iterator[None]:
        """As `polling`, by a poll that has a connection for itself. A quarter of all connections is
        left for what does not wait: nobody must be able to keep out the probes of health."""
        most = self._limits.connections * 3 // 4
        if self._held_by_polls >= most:
            raise over(
                "TOO_MANY_POLLS",
                f"{most} polls have a connection each: worker streams, or polls for several tasks,"
                " need fewer",
                limit="limits.connections",
                value=self._limits.connections,
                retry_after_ms=1_000,
            )
        self._held_by_polls += 1
        try:
            with self.polling(actor):
                yield
        finally:
            self._held_by_polls -= 1

    @contextmanager
    def polling(self, actor: str) -> Iterator[None]:
        """A poll waits within; raises TOO_MANY_POLLS."""
        polls, most = self._polls.get(actor, 0), self._limits.polls_per_token
        if polls >= most:
            raise over(
                "TOO_MANY_POLLS",
                f"this token has {polls} polls waiting on this node",
                limit="limits.polls_per_token",
                value=most,
                retry_after_ms=1_000,
            )
        self._polls[actor] = polls + 1
        try:
            yield
        finally:
            left = self._polls[actor] - 1
            if left:
                self._polls[actor] = left
            else:
                del self._polls[actor]

    def _too_fast(self, whose: str, most: int, wait_ms: int) -> ApiError:
        return over(
            "RATE_LIMITED",
            f"too many calls of this {whose} in a second",
            limit=f"limits.{whose}_calls_per_second",
            value=most,
            retry_after_ms=wait_ms,
            maybe_applied=False,
        )
