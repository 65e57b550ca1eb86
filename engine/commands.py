"""Commands: what may be proposed. Imperative names; facts from outside, and the leader's decisions.

Facts (starts, signals, completions) are applied whichever leader proposed them. The leader's
decisions (grants, firings, expiries) carry what the leader believed and are dropped when that is
no longer so. Ids, tokens and random numbers arrive inside the command; time arrives with the batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from raftflow.engine.limits import Limits
from raftflow.engine.retry import RetryPolicy


class IdReusePolicy(IntEnum):
    """Whether an id whose run has closed may start again."""

    REJECT_DUPLICATE = 0
    ALLOW_DUPLICATE = 1
    ALLOW_DUPLICATE_FAILED_ONLY = 2


class IdConflictPolicy(IntEnum):
    """What a start meets when the id's run is open (or its reuse is refused)."""

    FAIL = 0
    USE_EXISTING = 1


class TimerKind(IntEnum):
    """Which duty a timer row stands for."""

    STEP = 1  # a workflow's own timer step
    RETRY = 2  # the backoff before an activity's next attempt
    EXECUTION_TIMEOUT = 3  # sequence 0
    DECISION_BACKOFF = 4  # the pause after a refused decision; sequence 0
    ACTIVITY_TIMEOUT = 5  # whichever of an activity's own timeouts ends first


# ---- facts from outside -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateNamespace:
    namespace: str
    retention_ms: int  # 0 keeps closed runs for ever
    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterTypes:
    namespace: str
    workflow_types: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRun:
    namespace: str
    workflow_id: str
    run_id: str
    workflow_type: str
    task_queue: str
    input: bytes
    execution_timeout_ms: int  # 0: none
    id_reuse_policy: IdReusePolicy
    id_conflict_policy: IdConflictPolicy
    request_id: str
    traceparent: str = ""
    tracestate: str = ""
    workflow_id_generated: bool = False  # the caller named none: each try makes another one up


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalRun:
    namespace: str
    workflow_id: str
    run_id: str  # "": the current run
    name: str
    payload: bytes
    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminateRun:
    namespace: str
    workflow_id: str
    run_id: str
    reason: str
    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRun:
    """Hard cancel: the run ends CANCELLED at once and its workers are told."""

    namespace: str
    workflow_id: str
    run_id: str
    reason: str
    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteDecision:
    """A worker's answer to a workflow task. All its commands apply, or none."""

    namespace: str
    workflow_id: str
    task_token: str
    commands: tuple[WorkflowCommand, ...]
    replay_error: str = ""
    nondeterminism: bool = False  # with replay_error: parks the run as UNKNOWN
    unreadable: str = ""  # the answer's commands could not be read: why; there are none then


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteActivity:
    namespace: str
    workflow_id: str
    step_name: str  # "" when the caller does not say (the token does)
    sequence: int  # 0 likewise
    lease_token: str
    failed: bool
    output: bytes = b""
    error: str = ""
    error_type: str = ""
    non_retryable: bool = False
    next_retry_delay_ms: int = -1  # -1: the policy decides


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordHeartbeat:
    """Progress details of an attempt, for the next one. Plain beats are never proposed."""

    namespace: str
    workflow_id: str
    lease_token: str
    details: bytes


# ---- the leader's decisions, fenced by what it believed --------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantDecision:
    """Hand a queued workflow task to the poll ``poll_id`` parked on ``node``. Dropped when the
    task is not queued any more."""

    namespace: str
    workflow_id: str
    run_id: str
    nonce: str
    worker_id: str
    node: str
    poll_id: str
    timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantActivity:
    """Lease a queued activity task. Dropped unless the step is queued at ``attempt``."""

    namespace: str
    workflow_id: str
    run_id: str
    sequence: int
    attempt: int
    nonce: str
    worker_id: str
    node: str
    poll_id: str
    duration_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnTask:
    """The poll had gone when its grant arrived: queue the task again, counting no attempt."""

    namespace: str
    workflow_id: str
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireLease:
    """An activity's lease or a decision's deadline (``token`` says which) was missed."""

    namespace: str
    workflow_id: str
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FireTimer:
    """A timer row came due. Dropped unless it is armed for exactly ``fire_at_ms``."""

    namespace: str
    workflow_id: str
    run_id: str
    kind: TimerKind
    sequence: int
    fire_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetRequests:
    """Drop remembered request ids that expired by ``before_ms`` (log time), oldest first."""

    before_ms: int
    limit: int


Command = (
    CreateNamespace
    | RegisterTypes
    | StartRun
    | SignalRun
    | TerminateRun
    | CancelRun
    | CompleteDecision
    | CompleteActivity
    | RecordHeartbeat
    | GrantDecision
    | GrantActivity
    | ReturnTask
    | ExpireLease
    | FireTimer
    | ForgetRequests
)


# ---- what a decision may command -------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleActivity:
    step_name: str
    sequence: int
    input: bytes
    retry: RetryPolicy  # the command's own, else the server's for this name, filled in by the API
    task_queue: str  # "": the run's
    start_to_close_timeout_ms: int = 0
    schedule_to_close_timeout_ms: int = 0
    schedule_to_start_timeout_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTimer:
    step_name: str
    sequence: int
    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitSignal:
    step_name: str
    sequence: int
    signal_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteWorkflow:
    output: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FailWorkflow:
    error: str
    error_type: str = ""
    cancelled: bool = False  # a graceful cancel ends CANCELLED


WorkflowCommand = ScheduleActivity | StartTimer | AwaitSignal | CompleteWorkflow | FailWorkflow


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One Raft entry, decoded. ``time_ms`` is the log time of every command in it (Unix epoch)."""

    index: int
    term: int
    time_ms: int
    commands: tuple[tuple[str, Command], ...]  # (command id, command)
    limits: Limits
