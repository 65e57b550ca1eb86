"""What stands in for an activity: a value, an exception, a function, or one of these.

A function gets the input, and the `ActivityInfo` if it takes two arguments; what it returns may be
one of these as well, such as `takes(3, "done")`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from raftflow_sdk import ActivityFailure
from raftflow_sdk.retry import to_ms


class Fate(Enum):
    """Of an attempt that gives no outcome at all."""

    NOBODY = "no worker takes it"
    HANGS = "its worker lives and never answers"
    DIES = "its worker dies with it: the lease runs out"


NOBODY = Fate.NOBODY
HANGS = Fate.HANGS
DIES = Fate.DIES


@dataclass(frozen=True, slots=True)
class Later:
    """An outcome that comes some time after the attempt began."""

    after_ms: int
    outcome: object


@dataclass(frozen=True, slots=True)
class InTurn:
    outcomes: tuple[object, ...]


def takes(seconds: float, outcome: object = "") -> Later:
    """The activity takes so long, and then this is its outcome: a value or an exception."""
    after_ms = to_ms("takes", seconds)
    if after_ms < 0:
        raise ValueError(f"no activity takes {seconds} seconds")
    if callable(outcome):
        raise TypeError("let the function itself return takes(seconds, its outcome)")
    return Later(after_ms, outcome)


def in_turn(*outcomes: object) -> InTurn:
    """The first call has the first outcome, and so on; the last one stays."""
    if not outcomes:
        raise ValueError("in_turn needs an outcome")
    return InTurn(outcomes)


def fails(
    message: str, *, error_type: str = "ActivityFailure", non_retryable: bool = False
) -> ActivityFailure:
    """The attempt fails so."""
    return ActivityFailure(message, error_type=error_type, non_retryable=non_retryable)
