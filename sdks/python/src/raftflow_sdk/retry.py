"""Retry policies of activities, and the pauses between this SDK's own attempts."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, SupportsFloat


def in_seconds(name: str, seconds: float) -> float:
    """Refuses what is no number. A `timedelta` is none: one way to say a duration is enough."""
    if not isinstance(seconds, SupportsFloat):
        cure = ": use .total_seconds()" if isinstance(seconds, timedelta) else ""
        raise TypeError(f"{name} takes seconds as a number, not {type(seconds).__name__}{cure}")
    return seconds


def to_ms(name: str, seconds: float) -> int:
    """Seconds, as the API of this SDK counts, in the milliseconds of the wire."""
    return round(in_seconds(name, seconds) * 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How the server retries an activity. Backoffs are seconds; each is `backoff_coefficient`
    times the one before, up to `max_backoff` (0: no cap), and longer or shorter by up to the share
    `jitter`.

    `max_attempts` counts the first one too; 0 is without a bound.
    """

    max_attempts: int = 1
    initial_backoff: float = 1.0
    max_backoff: float = 0.0
    backoff_coefficient: float = 2.0
    jitter: float = 0.0
    non_retryable_error_types: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.max_attempts < 0:
            raise ValueError(f"max_attempts cannot be negative, unlike {self.max_attempts}")
        backoffs = (
            in_seconds("initial_backoff", self.initial_backoff),
            in_seconds("max_backoff", self.max_backoff),
        )
        if min(backoffs) < 0:
            raise ValueError("a backoff cannot be negative")
        if self.backoff_coefficient < 1:
            raise ValueError(f"backoff_coefficient is at least 1, not {self.backoff_coefficient}")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter is a share from 0 to 1, not {self.jitter}")

    def to_wire(self) -> dict[str, Any]:
        wire: dict[str, Any] = {
            "max_attempts": self.max_attempts,
            "initial_backoff_ms": to_ms("initial_backoff", self.initial_backoff),
            "max_backoff_ms": to_ms("max_backoff", self.max_backoff),
        }
        if self.backoff_coefficient != 2.0:
            wire["backoff_coefficient"] = self.backoff_coefficient
        if self.jitter:
            wire["jitter"] = self.jitter
        if self.non_retryable_error_types:
            wire["non_retryable_error_types"] = list(self.non_retryable_error_types)
        return wire


def backoffs(first: float, cap: float) -> Iterator[float]:
    """Doubling pauses with jitter, so that a fleet that lost its server does not return as one."""
    pause = first
    while True:
        yield pause * random.uniform(0.5, 1.0)
        pause = min(pause * 2, cap)
