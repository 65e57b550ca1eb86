"""Who is let in, and how often: calls of one token and of one namespace in a second, and polls of
one token at a time. Each node counts for itself; what a worker has done is never held back.

What is refused before it reaches the log is counted, and logged by its limit with a pause between
two lines, so that nobody fills the log by being refused.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256

import structlog

from raftflow.cluster.api.auth import OPEN
from raftflow.cluster.api.limits import over
from raftflow.cluster.api.status import ApiError
from raftflow.cluster.config import Limits
from raftflow.cluster.metrics import Metrics

log = structlog.get_logger("raftflow.api")

# By operation, as both APIs name it.
FINISHED_WORK = frozenset({"CompleteTask", "CompleteWorkflowTask", "Heartbeat"})
_NEVER_HELD = FINISHED_WORK | OPEN
_BURST_S = 1.0
_ROUNDING = 1e-3  # of a call: the last one of a burst must not depend on it
_MOST_BUCKETS = 10_000
_LOG_PAUSE_S = 10.0
_MOST_TOLD = 1_000
# An honest caller comes here by mistake, and everybody else on purpose: of both the log tells.
_TOLD = frozenset({"UNAUTHENTICATED", "PERMISSION_DENIED"})


def actor_of(authorization: str) -> str:
    """Who calls, as far as counts are concerned: a name that gives nothing of the token away."""
    token = authorization.strip()
    return sha256(token.encode("utf-8", "surrogateescape")).hexdigest()[:16] if token else ""


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


class Refusals:
    """Counts what was refused, and tells of it."""

    def __init__(self, metrics: Metrics, clock: Callable[[], float] = time.monotonic) -> None:
        self._metrics = metrics
        self._clock = clock
        self._told: dict[tuple[str, str, str], float] = {}
        self._untold: dict[tuple[str, str, str], int] = {}

    def note(self, error: ApiError, *, operation: str = "", actor: str = "") -> None:
        """Count this refusal if a limit or a token is the reason. Texts are not logged: they may
        hold what a caller sent."""
        limit = error.details.get("limit", "")
        if not limit and error.reason not in _TOLD:
            return
        self._metrics.calls_refused.labels(error.reason, limit).inc()
        key = (error.reason, limit, actor)
        now = self._clock()
        if now - self._told.get(key, -_LOG_PAUSE_S) < _LOG_PAUSE_S:
            self._untold[key] = self._untold.get(key, 0) + 1
            return
        if len(self._told) >= _MOST_TOLD:
            self._told.clear()
            self._untold.clear()
        self._told[key] = now
        log.warning(
            "call_refused",
            reason=error.reason,
            limit=limit,
            operation=operation,
            actor=actor,
            before=self._untold.pop(key, 0),
        )


class Admission:
    """The counts of one node, for both of its APIs."""

    def __init__(
        self, limits: Limits, metrics: Metrics, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.refusals = Refusals(metrics, clock)
        self._limits = limits
        self._of_token = Buckets(limits.token_calls_per_second, clock)
        self._of_namespace = Buckets(limits.namespace_calls_per_second, clock)
        self._polls: dict[str, int] = {}

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
