"""Transitions: changes of a run that its code never sees, and that history therefore omits.

Events tell what happened to a workflow; transitions tell where its tasks are (queued, out with a
worker, waiting for another attempt) and why a run stands still. ``decide`` returns both in one
list of moves, in the order in which ``evolve`` makes them.
"""

from __future__ import annotations

from dataclasses import dataclass

from raftflow.engine.commands import TimerKind
from raftflow.engine.events import EventBody
from raftflow.engine.state import TokenRecord


@dataclass(frozen=True, slots=True)
class NamespaceCreated:
    name: str
    retention_ms: int


@dataclass(frozen=True, slots=True)
class NamespaceUpdated:
    name: str
    retention_ms: int


@dataclass(frozen=True, slots=True)
class TokenMinted:
    record: TokenRecord


@dataclass(frozen=True, slots=True)
class TokenRevoked:
    token_id: str


@dataclass(frozen=True, slots=True)
class TokensForgotten:
    """They are no longer good, and nobody asks for them any more."""

    token_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QuotaSet:
    name: str
    max_open_runs: int
    starts_per_second: int


@dataclass(frozen=True, slots=True)
class StartPaid:
    """A start took its share of what a namespace may start in a second."""

    name: str
    paid_us: int


@dataclass(frozen=True, slots=True)
class TypesRegistered:
    namespace: str
    workflow_types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DecisionLeased:
    token: str
    worker_id: str
    node: str
    poll_id: str
    duration_ms: int


@dataclass(frozen=True, slots=True)
class DecisionReturned:
    """The poll had gone: queued again as if it had never been handed out."""


@dataclass(frozen=True, slots=True)
class DecisionExpired:
    """Not completed within its deadline: queued again."""


@dataclass(frozen=True, slots=True)
class DecisionStaled:
    """Made on older history: queued again at once."""


@dataclass(frozen=True, slots=True)
class DecisionRefused:
    """The worker's answer made no sense: queued again, after a pause unless it is the first."""

    pause_ms: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DecisionApplied:
    """The worker's answer was taken; its events follow."""

    outcome: bytes


@dataclass(frozen=True, slots=True)
class DecisionRequeued:
    """The pause is over."""


@dataclass(frozen=True, slots=True)
class RunParked:
    """The run's code cannot be replayed: UNKNOWN, and tried again after ``pause_ms``."""

    reason: str
    pause_ms: int
    outcome: bytes  # of the decision that said so; b"" when none did


@dataclass(frozen=True, slots=True)
class RunSuspended:
    """A bound of the run's history was met: PAUSED, open, and without further decisions."""

    reason: str


@dataclass(frozen=True, slots=True)
class RunResumed:
    """An operator let a suspended run go on."""


@dataclass(frozen=True, slots=True)
class RunForgotten:
    """A closed run was deleted, with all its rows. ``newest``: no run of its id is left."""

    newest: bool


@dataclass(frozen=True, slots=True)
class ChildOpened:
    """The child of the step runs."""

    sequence: int
    run_id: str


@dataclass(frozen=True, slots=True)
class MessageDelivered:
    """What the outbox row said is done in this very entry."""

    number: int


@dataclass(frozen=True, slots=True)
class MessageKept:
    """Someone wanted to deliver the message elsewhere: it still waits."""

    number: int


@dataclass(frozen=True, slots=True)
class ActivityLeased:
    sequence: int
    token: str
    worker_id: str
    node: str
    poll_id: str
    duration_ms: int


@dataclass(frozen=True, slots=True)
class ActivityReturned:
    """The poll had gone: queued again, and the attempt never began."""

    sequence: int


@dataclass(frozen=True, slots=True)
class AttemptExpired:
    """The lease was missed. What becomes of the step (AttemptFailed, StepFailed) follows."""

    sequence: int


@dataclass(frozen=True, slots=True)
class AttemptFailed:
    """Another attempt follows: after ``pause_ms``, or at once."""

    sequence: int
    error: str
    error_type: str
    pause_ms: int


@dataclass(frozen=True, slots=True)
class ActivityWithdrawn:
    """A timeout of the whole step passed, wherever its task was. StepFailed follows."""

    sequence: int


@dataclass(frozen=True, slots=True)
class ActivityRequeued:
    """The backoff is over."""

    sequence: int


@dataclass(frozen=True, slots=True)
class HeartbeatRecorded:
    sequence: int
    details: bytes


@dataclass(frozen=True, slots=True)
class TimerKept:
    """Someone believed that a timer was due before it was: it stays armed."""

    kind: TimerKind
    sequence: int
    fire_at_ms: int


@dataclass(frozen=True, slots=True)
class LeaseKept:
    """Someone believed that a lease had been missed before it could be: it is held on.
    ``sequence`` 0 is the decision."""

    sequence: int


Transition = (
    NamespaceCreated
    | NamespaceUpdated
    | QuotaSet
    | StartPaid
    | TokenMinted
    | TokenRevoked
    | TokensForgotten
    | TypesRegistered
    | DecisionLeased
    | DecisionReturned
    | DecisionExpired
    | DecisionStaled
    | DecisionRefused
    | DecisionApplied
    | DecisionRequeued
    | RunParked
    | RunSuspended
    | RunResumed
    | RunForgotten
    | ChildOpened
    | MessageDelivered
    | MessageKept
    | ActivityLeased
    | ActivityReturned
    | AttemptExpired
    | AttemptFailed
    | ActivityRequeued
    | HeartbeatRecorded
    | ActivityWithdrawn
    | TimerKept
    | LeaseKept
)

Move = EventBody | Transition
