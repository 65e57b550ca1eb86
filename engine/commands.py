"""Commands: what may be proposed. Imperative names; facts from outside, and the leader's decisions.

Facts (starts, signals, completions) are applied whichever leader proposed them. The leader's
decisions (grants, firings, expiries) carry what the leader believed and are dropped when that is
no longer so. Ids, tokens and random numbers arrive inside the command; time arrives with the batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from raftflow.engine.limits import USUAL_PRIORITY, Limits
from raftflow.engine.retry import RetryPolicy

# 1: release 0.1. 2: arrivals wait for a decision that was twice stale (they are rows of their own).
# 3: entries of consensus may say who belongs to the cluster; commands mean what they meant.
# 4: commands say who called (tokens, roles, the audit log).
# An entry of a lower level means what it meant, row by row.
RELEASE_0_2 = 2
RELEASE_0_3 = 3
RELEASE_0_4 = 4
FEATURE_LEVEL = RELEASE_0_4


class Role(IntEnum):
    """What a caller may do: look, use, rule; or work, and nothing else."""

    VIEWER = 1
    USER = 2
    ADMIN = 3
    WORKER = 4


class IdReusePolicy(IntEnum):
    """Whether an id whose run has closed may start again."""

    REJECT_DUPLICATE = 0
    ALLOW_DUPLICATE = 1
    ALLOW_DUPLICATE_FAILED_ONLY = 2


class IdConflictPolicy(IntEnum):
    """What a start meets when the id's run is open (or its reuse is refused)."""

    FAIL = 0
    USE_EXISTING = 1


class ParentClosePolicy(IntEnum):
    """What becomes of a child whose parent's run closes."""

    TERMINATE = 0
    REQUEST_CANCEL = 1
    ABANDON = 2


class TimerKind(IntEnum):
    """Which duty a timer row stands for."""

    STEP = 1  # a workflow's own timer step
    RETRY = 2  # the backoff before an activity's next attempt
    EXECUTION_TIMEOUT = 3  # sequence 0
    DECISION_BACKOFF = 4  # the pause after a refused decision; sequence 0
    ACTIVITY_TIMEOUT = 5  # whichever of an activity's own timeouts ends first


# Search attributes: name and canonical JSON of a scalar, sorted by name, each name once.
Attributes = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EagerPoll:
    """A caller that completes a task takes the next ones in the answer: a poll parked on ``node``
    for at most ``limit`` tasks of these names (none = any), granted in the very entry."""

    node: str
    poll_id: str
    nonce: str
    worker_id: str
    names: tuple[str, ...]
    task_queue: str
    duration_ms: int
    limit: int


# ---- facts from outside -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateNamespace:
    namespace: str
    retention_ms: int  # 0 keeps closed runs for ever
    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateNamespace:
    namespace: str
    retention_ms: int
    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MintToken:
    """``digest`` is the SHA-256 of salt and secret: the secret itself is in no command. A token
    with a ``parent`` is a session, and lives no longer than that. Apply counts the lifetime (0: for
    ever) from the time of the entry."""

    token_id: str
    name: str
    role: Role
    namespaces: tuple[str, ...]  # none: all of them
    sees_payloads: bool
    salt: bytes
    digest: bytes
    lifetime_ms: int
    parent: str
    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokeToken:
    token_id: str
    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordCall:
    """For the audit log alone: a call that changes what is no part of this state, the members of
    the cluster."""

    call: str
    target: str
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetQuota:
    """How much of a namespace may be started from outside; 0 is no bound."""

    namespace: str
    max_open_runs: int
    starts_per_second: int
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
    search_attributes: Attributes = ()
    memo: str = ""  # canonical JSON of an object, or ""
    # Signal-with-start: delivered to the open run of the id when there is one, else to the new one.
    signal_name: str = ""
    signal_payload: bytes = b""


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
    """Hard: the run ends CANCELLED at once and its workers are told. Graceful: the workflow code is
    told, and may compensate before it ends."""

    namespace: str
    workflow_id: str
    run_id: str
    reason: str
    request_id: str
    graceful: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseRun:
    """No decision is handed out until the run is unpaused; activities in flight go on."""

    namespace: str
    workflow_id: str
    run_id: str
    reason: str
    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpauseRun:
    namespace: str
    workflow_id: str
    run_id: str
    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRun:
    """Forget a closed run. The newest run of an id goes last. ``closed_before_ms`` is what the
    retention of its namespace demands (log time); 0 when a user asked. ``older`` are the runs that
    the same call forgot before: what a caller said does not include it, what it is told does."""

    namespace: str
    workflow_id: str
    run_id: str
    request_id: str
    closed_before_ms: int = 0
    older: int = 0


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
    new_run_id: str = ""  # of the run that a continue_as_new among the commands starts
    eager: EagerPoll | None = None  # takes activities that this decision schedules


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
    eager: EagerPoll | None = None  # takes the run's next decision


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
class DeliverMessage:
    """Do what row ``number`` of the run's outbox says, and take the row out: both or neither.
    ``target_run_id`` is a new one when a child is to be started, the parent's run when a child
    reports, "" otherwise. Dropped when the row is gone."""

    namespace: str
    workflow_id: str
    run_id: str
    number: int
    target_workflow_id: str
    target_run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetRequests:
    """Drop remembered request ids that expired by ``before_ms`` (log time), oldest first."""

    before_ms: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetAudit:
    """Drop the rows of the audit log up to ``through`` that are older than ``before_ms``."""

    through: int
    before_ms: int


# ---- who says it -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Who called, and where. ``actor`` is the id of the caller's token, or the name of its line in
    a node's token file; ``token_id`` the token that apply looks at again, "" when it is none of the
    log. (Of a session, the actor is whose it is.)"""

    actor: str
    role: Role
    node: str
    address: str
    token_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributed:
    """A command of a caller. What changes something for people stands in the audit log as soon as
    it is applied: the change and its row are of one entry."""

    origin: Origin
    command: Fact


Fact = (
    CreateNamespace
    | UpdateNamespace
    | SetQuota
    | MintToken
    | RevokeToken
    | RecordCall
    | RegisterTypes
    | StartRun
    | SignalRun
    | TerminateRun
    | CancelRun
    | PauseRun
    | UnpauseRun
    | DeleteRun
    | CompleteDecision
    | CompleteActivity
    | RecordHeartbeat
)

Command = (
    Fact
    | Attributed
    | GrantDecision
    | GrantActivity
    | ReturnTask
    | ExpireLease
    | FireTimer
    | DeliverMessage
    | ForgetRequests
    | ForgetAudit
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
    priority: int = USUAL_PRIORITY


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
class RecordMarker:
    """``marker``: version, side_effect or cancel."""

    step_name: str
    sequence: int
    marker: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StartChildWorkflow:
    step_name: str
    sequence: int
    workflow_type: str
    workflow_id: str  # "": made of the run's id and the sequence
    input: bytes
    task_queue: str  # "": the run's
    parent_close_policy: ParentClosePolicy = ParentClosePolicy.TERMINATE


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelStep:
    """No result of the step is wanted any more. Nothing happens to one that has its result."""

    step_name: str
    sequence: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinueAsNew:
    """Ends the run and starts a fresh one of the same id. "" and -1 leave what the run has."""

    input: bytes
    workflow_type: str = ""
    task_queue: str = ""
    execution_timeout_ms: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertSearchAttributes:
    """A value of JSON null removes the attribute."""

    attributes: Attributes


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteWorkflow:
    output: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FailWorkflow:
    error: str
    error_type: str = ""
    cancelled: bool = False  # a graceful cancel ends CANCELLED


WorkflowCommand = (
    ScheduleActivity
    | StartTimer
    | AwaitSignal
    | RecordMarker
    | StartChildWorkflow
    | CancelStep
    | UpsertSearchAttributes
    | CompleteWorkflow
    | FailWorkflow
    | ContinueAsNew
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One Raft entry, decoded. ``time_ms`` is the log time of every command in it (Unix epoch)."""

    index: int
    term: int
    time_ms: int
    commands: tuple[tuple[str, Command], ...]  # (command id, command)
    limits: Limits
    # What the entry was written under: an entry means for ever what it meant when it was proposed.
    feature_level: int = FEATURE_LEVEL
    # How many commands of the entry came before: a large one is applied in pieces.
    first: int = 0
