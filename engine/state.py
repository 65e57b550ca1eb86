"""The materialised state: what decide reads and only evolve changes.

A run is held as one aggregate while it is hot and stored as rows: its header, one row a step, one
row an untaken signal. The working set holds the aggregates that a batch touches; it notes which
rows changed, so that the store writes those and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from raftflow.engine.commands import (
    Attributes,
    ForgetAudit,
    ForgetRequests,
    ParentClosePolicy,
    Role,
    TimerKind,
)
from raftflow.engine.events import Event
from raftflow.engine.ids import DEFAULT_NAMESPACE, RunKey, WorkflowKey
from raftflow.engine.limits import USUAL_PRIORITY
from raftflow.engine.rejections import Answer
from raftflow.engine.retry import NO_RETRY, RetryPolicy


class RunStatus(IntEnum):
    """Stored status. RUNNING (work is out with a worker) and WAITING are both open."""

    RUNNING = 1
    WAITING = 2
    COMPLETED = 3
    FAILED = 4
    TERMINATED = 5
    CANCELLED = 6
    TIMED_OUT = 7
    CONTINUED_AS_NEW = 8
    PAUSED = 9
    UNKNOWN = 10  # stands still: its code or history cannot be replayed; still open


# A tuple, since members are found in it by identity: hashing an enum member costs a call.
OPEN_STATUSES = (RunStatus.RUNNING, RunStatus.WAITING, RunStatus.PAUSED, RunStatus.UNKNOWN)


class StepKind(IntEnum):
    ACTIVITY = 1
    TIMER = 2
    SIGNAL = 3
    MARKER = 4
    CHILD = 5


class StepStatus(IntEnum):
    SCHEDULED = 1
    COMPLETED = 2
    FAILED = 3
    CANCELLED = 4


class TaskState(IntEnum):
    """Where a task (an activity attempt, or the run's decision) is."""

    NONE = 0
    QUEUED = 1
    LEASED = 2
    BACKOFF = 3  # a timer row queues it again


@dataclass(slots=True)
class Task:
    """The work that a step or a run currently offers. ``attempt`` counts from 1. The last outcome
    makes a repeated completion harmless: the same token with the same outcome is answered alike."""

    state: TaskState = TaskState.NONE
    attempt: int = 0
    token: str = ""
    worker_id: str = ""
    node: str = ""
    leased_ms: int = 0  # log time of the grant
    duration_ms: int = 0
    backoff_until_ms: int = 0
    last_token: str = ""
    last_outcome: bytes = b""  # digest of the completion that ``last_token`` made


@dataclass(slots=True)
class Step:
    """One step. ``input`` is kept only while an activity is open (history has it for ever)."""

    sequence: int
    kind: StepKind
    name: str
    status: StepStatus
    scheduled_event_id: int
    scheduled_ms: int
    input: bytes = b""
    output: bytes = b""
    error: str = ""
    error_type: str = ""
    non_retryable: bool = False
    resolved_event_id: int = 0
    resolved_ms: int = 0
    # activity
    retry: RetryPolicy = NO_RETRY
    task_queue: str = ""
    start_to_close_timeout_ms: int = 0
    schedule_to_close_timeout_ms: int = 0
    schedule_to_start_timeout_ms: int = 0
    attempts: int = 0  # attempts begun
    last_error: str = ""  # of the latest failed attempt, while retrying
    heartbeat_details: bytes = b""
    task: Task = field(default_factory=Task)
    # timer
    fire_at_ms: int = 0
    # signal
    signal_name: str = ""
    # more of an activity: 1 is handed out first
    priority: int = USUAL_PRIORITY
    # marker: version, side_effect or cancel; its data is the output
    marker: str = ""
    # child
    workflow_type: str = ""
    workflow_id: str = ""
    run_id: str = ""  # "" until it was started; a chain goes on under other run ids
    parent_close_policy: ParentClosePolicy = ParentClosePolicy.TERMINATE
    # Its result waits among the run's arrivals: no other is taken, but history does not have it.
    arrived: bool = False


@dataclass(frozen=True, slots=True)
class StartChild:
    """Outbox: start the child of step ``sequence``. The row holds all that it needs, since the
    parent may be closed by then."""

    sequence: int
    workflow_id: str
    workflow_type: str
    task_queue: str
    input: bytes
    parent_close_policy: ParentClosePolicy
    traceparent: str
    tracestate: str


@dataclass(frozen=True, slots=True)
class ReportChild:
    """Outbox of a closed child: its parent's step gets the outcome, which its own run row has."""

    parent_workflow_id: str
    parent_run_id: str
    parent_sequence: int


@dataclass(frozen=True, slots=True)
class EndChild:
    """Outbox: terminate the child of step ``sequence``, or ask it to cancel. Meant is the newest
    run of ``workflow_id``, and only if it is that step's child."""

    sequence: int
    workflow_id: str
    terminate: bool
    reason: str


Message = StartChild | ReportChild | EndChild


@dataclass(frozen=True, slots=True)
class Signal:
    """A buffered signal, by the id of the event that recorded it. ``taken_by`` is the sequence of
    the wait that took it, 0 while untaken."""

    event_id: int
    time_ms: int
    name: str
    payload: bytes
    taken_by: int = 0


@dataclass(slots=True)
class Run:
    """The aggregate of one run. ``steps[n - 1]`` has sequence n. ``signals`` holds the untaken
    ones in order of arrival (event id → signal)."""

    key: RunKey
    workflow_type: str
    task_queue: str
    status: RunStatus
    started_ms: int
    updated_ms: int
    closed_ms: int = 0
    input: bytes = b""
    output: bytes = b""
    error: str = ""
    error_type: str = ""
    execution_timeout_ms: int = 0
    history_length: int = 0
    history_bytes: int = 0  # with what waits among the arrivals
    open_steps: int = 0
    leased_tasks: int = 0  # decision and activities out with workers: > 0 means RUNNING
    decision: Task = field(default_factory=Task)
    decision_failures: int = 0  # refused decisions in a row: their pause grows
    decision_refusal: str = ""  # why the last of them was
    stale_decisions: int = 0  # stale decisions in a row
    suspended_reason: str = ""  # why an open run stands still (PAUSED, UNKNOWN)
    traceparent: str = ""
    tracestate: str = ""
    cancel_requested_event_id: int = 0  # a graceful cancel; 0: none
    cancel_requested_ms: int = 0
    cancel_reason: str = ""
    search_attributes: Attributes = ()
    memo: str = ""
    continued_from_run_id: str = ""
    continued_to_run_id: str = ""
    parent_workflow_id: str = ""
    parent_run_id: str = ""
    parent_sequence: int = 0
    messages_sent: int = 0  # numbers of the outbox so far
    steps: list[Step] = field(default_factory=list)
    signals: dict[int, Signal] = field(default_factory=dict)
    # Facts that wait for the decision that is out to end, since it was stale twice: committed and
    # acknowledged, not yet history. Numbered from 1 (``event_id``), in order.
    arrivals: dict[int, Event] = field(default_factory=dict)
    outbox: dict[int, Message] = field(default_factory=dict)  # what others have not yet heard
    # Kept runs of the same id that began before, kept right in the newest only. No part of the row
    # (release 0.1 did not count them): whoever loads the run counts its rows.
    older_runs: int = field(default=0, compare=False)
    # Derived, so that no arrival scans the steps: the open signal waits (name → sequences, oldest
    # first). None until a signal first asks; a loader leaves it alone.
    waits: dict[str, list[int]] | None = field(default=None, repr=False, compare=False)

    @property
    def open(self) -> bool:
        return self.status in OPEN_STATUSES

    def open_waits(self) -> dict[str, list[int]]:
        """``waits``, built from the steps when nobody asked before."""
        if self.waits is None:
            self.waits = {}
            for step in self.steps:
                if step.kind is StepKind.SIGNAL and step.status is StepStatus.SCHEDULED:
                    self.waits.setdefault(step.signal_name, []).append(step.sequence)
        return self.waits

    def oldest_wait(self, name: str) -> int:
        """The sequence of the open wait for ``name`` that began first; 0 when there is none."""
        waiting = self.open_waits().get(name) if self.open_steps else None
        return waiting[0] if waiting else 0


@dataclass(frozen=True, slots=True)
class NamespaceRecord:
    """A quota of 0 is no bound. ``starts_paid_us``: the moment of log time, in microseconds, at
    which the starts so far are paid for; kept only while their rate is bounded."""

    name: str
    retention_ms: int
    created_ms: int
    max_open_runs: int = 0
    starts_per_second: int = 0
    starts_paid_us: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRecord:
    """``parent`` of a session: the id of the token that it was opened with, or what stands for a
    line of a node's token file."""

    token_id: str
    name: str
    role: Role
    namespaces: tuple[str, ...]
    sees_payloads: bool
    salt: bytes
    digest: bytes
    created_ms: int
    expires_ms: int  # 0: never
    revoked_ms: int = 0
    parent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """One call of somebody, and what came of it. ``audit_no`` rises with time and follows from the
    place of the command in the log, so that no counter has to be kept."""

    audit_no: int
    time_ms: int
    actor: str
    role: Role
    node: str
    address: str
    token_id: str
    call: str
    namespace: str
    target: str
    run_id: str
    detail: str
    outcome: str  # OK, or the reason of the refusal


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """A remembered request id: the same again gets the same answer, with another payload 409."""

    namespace: str
    request_id: str
    payload_digest: bytes
    answer: Answer
    expires_ms: int


@dataclass(frozen=True, slots=True)
class TimerRow:
    """A durable timer. The leader's heap holds those of the next horizon."""

    run: RunKey
    kind: TimerKind
    sequence: int
    fire_at_ms: int


@dataclass(slots=True)
class Changes:
    """What one batch changed, in a deterministic order (insertion order of each dict). None as a
    value deletes the row."""

    runs: dict[RunKey, Run] = field(default_factory=dict)  # headers to write
    # workflow id -> newest run id; None: no run of that id is kept
    current: dict[WorkflowKey, str | None] = field(default_factory=dict)
    steps: dict[tuple[RunKey, int], Step] = field(default_factory=dict)
    signals: dict[tuple[RunKey, int], Signal] = field(default_factory=dict)
    events: list[tuple[RunKey, Event]] = field(default_factory=list)
    arrivals: dict[tuple[RunKey, int], Event | None] = field(default_factory=dict)
    outbox: dict[tuple[RunKey, int], Message | None] = field(default_factory=dict)
    # Forgotten: all rows of these runs go. None of the rows above is of one of them.
    deleted: dict[RunKey, None] = field(default_factory=dict)
    timers: dict[tuple[RunKey, TimerKind, int], TimerRow | None] = field(default_factory=dict)
    namespaces: dict[str, NamespaceRecord] = field(default_factory=dict)
    types: dict[tuple[str, str], None] = field(default_factory=dict)  # (namespace, type)
    tokens: dict[str, TokenRecord | None] = field(default_factory=dict)
    audit: list[AuditRecord] = field(default_factory=list)
    forget_audit: ForgetAudit | None = None
    requests: dict[tuple[str, str], RequestRecord] = field(default_factory=dict)
    # The store may drop remembered requests that expired by then, this many at most. What is
    # expired counts as absent whether its row is still there or not, so this is no part of the
    # state (nor of its digest), and nodes may differ in it.
    forget_requests: ForgetRequests | None = None


def _namespaces_at_birth() -> dict[str, NamespaceRecord]:
    return {DEFAULT_NAMESPACE: NamespaceRecord(DEFAULT_NAMESPACE, 0, 0)}


@dataclass(slots=True)
class Catalog:
    """Small and always in memory: namespaces, the workflow types known in each, and tokens. The
    namespace ``default`` exists from birth and has no row of its own."""

    namespaces: dict[str, NamespaceRecord] = field(default_factory=_namespaces_at_birth)
    types: set[tuple[str, str]] = field(default_factory=set)  # membership only, never iterated
    # By namespace, 0 being absent. Derived: whoever loads the catalog counts the rows of runs.
    open_runs: dict[str, int] = field(default_factory=dict)
    # By id. In no order that nodes share: what goes through all of them sorts.
    tokens: dict[str, TokenRecord] = field(default_factory=dict)


@dataclass(slots=True)
class WorkingSet:
    """What a batch may see. Whoever builds it has loaded every key that ``touched_keys`` names for
    the batch; a key that is absent here does not exist."""

    catalog: Catalog
    runs: dict[RunKey, Run] = field(default_factory=dict)
    current: dict[WorkflowKey, str] = field(default_factory=dict)
    requests: dict[tuple[str, str], RequestRecord] = field(default_factory=dict)
