"""Effects: what must happen outside once a batch has been applied.

Every node computes them; the leader carries out its duties (queues, timers, leases), the node that
a grant names hands the task to its parked poll, everyone wakes those who watch a history. None
needs to be remembered: the leader derives its duties again from the store when it takes office.
"""

from __future__ import annotations

from dataclasses import dataclass

from raftflow.engine.commands import TimerKind
from raftflow.engine.ids import RunKey
from raftflow.engine.limits import USUAL_PRIORITY


@dataclass(frozen=True, slots=True)
class OfferDecision:
    """A workflow task is queued."""

    run: RunKey
    workflow_type: str
    task_queue: str


@dataclass(frozen=True, slots=True)
class OfferActivity:
    """An activity task is queued at this attempt (1 = first)."""

    run: RunKey
    sequence: int
    attempt: int
    step_name: str
    task_queue: str
    priority: int = USUAL_PRIORITY


@dataclass(frozen=True, slots=True)
class WithdrawTask:
    """A queued task is no longer wanted. ``sequence`` 0 is the decision."""

    run: RunKey
    sequence: int


@dataclass(frozen=True, slots=True)
class ArmTimer:
    run: RunKey
    kind: TimerKind
    sequence: int
    fire_at_ms: int


@dataclass(frozen=True, slots=True)
class DisarmTimer:
    run: RunKey
    kind: TimerKind
    sequence: int
    fire_at_ms: int


@dataclass(frozen=True, slots=True)
class HoldLease:
    """A lease began: ``sequence`` 0 is a decision. The leader watches its deadline."""

    run: RunKey
    sequence: int
    token: str
    duration_ms: int


@dataclass(frozen=True, slots=True)
class DropLease:
    """A lease ended. ``cancelled`` tells the holder that the work is no longer wanted."""

    run: RunKey
    sequence: int
    token: str
    cancelled: bool
    expired: bool


@dataclass(frozen=True, slots=True)
class DeliverTask:
    """The node named hands this task to its parked poll, or returns it. ``sequence`` 0 is a
    decision."""

    run: RunKey
    sequence: int
    token: str
    node: str
    poll_id: str


@dataclass(frozen=True, slots=True)
class SendMessage:
    """A row of the run's outbox is to be delivered. ``target_run_id`` "": the leader makes one up
    when a child is to be started (``starts``), else the target is the newest run."""

    run: RunKey
    number: int
    target_workflow_id: str
    target_run_id: str
    starts: bool


@dataclass(frozen=True, slots=True)
class HistoryGrew:
    """For those who watch a run, and for counters: ``opened``/``closed`` say the run began or
    ended with this batch."""

    run: RunKey
    workflow_type: str
    history_length: int
    opened: bool
    closed: bool
    status: str


@dataclass(frozen=True, slots=True)
class StepResolved:
    """For the histogram of step durations."""

    run: RunKey
    step_name: str
    kind: str
    status: str
    duration_ms: int


@dataclass(frozen=True, slots=True)
class TokenEnded:
    """The token was revoked: every node ends at once what it, or a session of it, keeps open."""

    token_id: str


Effect = (
    OfferDecision
    | OfferActivity
    | WithdrawTask
    | ArmTimer
    | DisarmTimer
    | HoldLease
    | DropLease
    | DeliverTask
    | SendMessage
    | HistoryGrew
    | StepResolved
    | TokenEnded
)
