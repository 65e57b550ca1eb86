from raftflow.proto.workflow.v1 import history_pb2 as _history_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Entry(_message.Message):
    __slots__ = ("schema_version", "feature_level", "time_ms", "term", "node", "limits", "commands")
    SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    FEATURE_LEVEL_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    COMMANDS_FIELD_NUMBER: _ClassVar[int]
    schema_version: int
    feature_level: int
    time_ms: int
    term: int
    node: str
    limits: Limits
    commands: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, schema_version: _Optional[int] = ..., feature_level: _Optional[int] = ..., time_ms: _Optional[int] = ..., term: _Optional[int] = ..., node: _Optional[str] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ..., commands: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Limits(_message.Message):
    __slots__ = ("max_payload_bytes", "max_history_events", "max_history_bytes", "max_open_steps", "max_untaken_signals", "suggest_continue_as_new_at")
    MAX_PAYLOAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_HISTORY_EVENTS_FIELD_NUMBER: _ClassVar[int]
    MAX_HISTORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_OPEN_STEPS_FIELD_NUMBER: _ClassVar[int]
    MAX_UNTAKEN_SIGNALS_FIELD_NUMBER: _ClassVar[int]
    SUGGEST_CONTINUE_AS_NEW_AT_FIELD_NUMBER: _ClassVar[int]
    max_payload_bytes: int
    max_history_events: int
    max_history_bytes: int
    max_open_steps: int
    max_untaken_signals: int
    suggest_continue_as_new_at: int
    def __init__(self, max_payload_bytes: _Optional[int] = ..., max_history_events: _Optional[int] = ..., max_history_bytes: _Optional[int] = ..., max_open_steps: _Optional[int] = ..., max_untaken_signals: _Optional[int] = ..., suggest_continue_as_new_at: _Optional[int] = ...) -> None: ...

class Command(_message.Message):
    __slots__ = ("command_id", "origin", "create_namespace", "register_types", "start_run", "signal_run", "terminate_run", "cancel_run", "complete_decision", "complete_activity", "record_heartbeat", "update_namespace", "pause_run", "unpause_run", "delete_run", "mint_token", "revoke_token", "record_call", "set_quota", "grant_decision", "grant_activity", "return_task", "expire_lease", "fire_timer", "forget_requests", "deliver_message", "forget_audit")
    COMMAND_ID_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    CREATE_NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REGISTER_TYPES_FIELD_NUMBER: _ClassVar[int]
    START_RUN_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_RUN_FIELD_NUMBER: _ClassVar[int]
    TERMINATE_RUN_FIELD_NUMBER: _ClassVar[int]
    CANCEL_RUN_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_DECISION_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_ACTIVITY_FIELD_NUMBER: _ClassVar[int]
    RECORD_HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    UPDATE_NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    PAUSE_RUN_FIELD_NUMBER: _ClassVar[int]
    UNPAUSE_RUN_FIELD_NUMBER: _ClassVar[int]
    DELETE_RUN_FIELD_NUMBER: _ClassVar[int]
    MINT_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REVOKE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    RECORD_CALL_FIELD_NUMBER: _ClassVar[int]
    SET_QUOTA_FIELD_NUMBER: _ClassVar[int]
    GRANT_DECISION_FIELD_NUMBER: _ClassVar[int]
    GRANT_ACTIVITY_FIELD_NUMBER: _ClassVar[int]
    RETURN_TASK_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_LEASE_FIELD_NUMBER: _ClassVar[int]
    FIRE_TIMER_FIELD_NUMBER: _ClassVar[int]
    FORGET_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    DELIVER_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FORGET_AUDIT_FIELD_NUMBER: _ClassVar[int]
    command_id: str
    origin: Origin
    create_namespace: CreateNamespace
    register_types: RegisterTypes
    start_run: StartRun
    signal_run: SignalRun
    terminate_run: TerminateRun
    cancel_run: CancelRun
    complete_decision: CompleteDecision
    complete_activity: CompleteActivity
    record_heartbeat: RecordHeartbeat
    update_namespace: UpdateNamespace
    pause_run: PauseRun
    unpause_run: UnpauseRun
    delete_run: DeleteRun
    mint_token: MintToken
    revoke_token: RevokeToken
    record_call: RecordCall
    set_quota: SetQuota
    grant_decision: GrantDecision
    grant_activity: GrantActivity
    return_task: ReturnTask
    expire_lease: ExpireLease
    fire_timer: FireTimer
    forget_requests: ForgetRequests
    deliver_message: DeliverMessage
    forget_audit: ForgetAudit
    def __init__(self, command_id: _Optional[str] = ..., origin: _Optional[_Union[Origin, _Mapping]] = ..., create_namespace: _Optional[_Union[CreateNamespace, _Mapping]] = ..., register_types: _Optional[_Union[RegisterTypes, _Mapping]] = ..., start_run: _Optional[_Union[StartRun, _Mapping]] = ..., signal_run: _Optional[_Union[SignalRun, _Mapping]] = ..., terminate_run: _Optional[_Union[TerminateRun, _Mapping]] = ..., cancel_run: _Optional[_Union[CancelRun, _Mapping]] = ..., complete_decision: _Optional[_Union[CompleteDecision, _Mapping]] = ..., complete_activity: _Optional[_Union[CompleteActivity, _Mapping]] = ..., record_heartbeat: _Optional[_Union[RecordHeartbeat, _Mapping]] = ..., update_namespace: _Optional[_Union[UpdateNamespace, _Mapping]] = ..., pause_run: _Optional[_Union[PauseRun, _Mapping]] = ..., unpause_run: _Optional[_Union[UnpauseRun, _Mapping]] = ..., delete_run: _Optional[_Union[DeleteRun, _Mapping]] = ..., mint_token: _Optional[_Union[MintToken, _Mapping]] = ..., revoke_token: _Optional[_Union[RevokeToken, _Mapping]] = ..., record_call: _Optional[_Union[RecordCall, _Mapping]] = ..., set_quota: _Optional[_Union[SetQuota, _Mapping]] = ..., grant_decision: _Optional[_Union[GrantDecision, _Mapping]] = ..., grant_activity: _Optional[_Union[GrantActivity, _Mapping]] = ..., return_task: _Optional[_Union[ReturnTask, _Mapping]] = ..., expire_lease: _Optional[_Union[ExpireLease, _Mapping]] = ..., fire_timer: _Optional[_Union[FireTimer, _Mapping]] = ..., forget_requests: _Optional[_Union[ForgetRequests, _Mapping]] = ..., deliver_message: _Optional[_Union[DeliverMessage, _Mapping]] = ..., forget_audit: _Optional[_Union[ForgetAudit, _Mapping]] = ...) -> None: ...

class Origin(_message.Message):
    __slots__ = ("actor", "role", "node", "address", "token_id")
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    actor: str
    role: int
    node: str
    address: str
    token_id: str
    def __init__(self, actor: _Optional[str] = ..., role: _Optional[int] = ..., node: _Optional[str] = ..., address: _Optional[str] = ..., token_id: _Optional[str] = ...) -> None: ...

class CreateNamespace(_message.Message):
    __slots__ = ("namespace", "retention_ms", "request_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RETENTION_MS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    retention_ms: int
    request_id: str
    def __init__(self, namespace: _Optional[str] = ..., retention_ms: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class UpdateNamespace(_message.Message):
    __slots__ = ("namespace", "retention_ms", "request_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RETENTION_MS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    retention_ms: int
    request_id: str
    def __init__(self, namespace: _Optional[str] = ..., retention_ms: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class SetQuota(_message.Message):
    __slots__ = ("namespace", "max_open_runs", "starts_per_second", "request_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    MAX_OPEN_RUNS_FIELD_NUMBER: _ClassVar[int]
    STARTS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    max_open_runs: int
    starts_per_second: int
    request_id: str
    def __init__(self, namespace: _Optional[str] = ..., max_open_runs: _Optional[int] = ..., starts_per_second: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class MintToken(_message.Message):
    __slots__ = ("token_id", "name", "role", "namespaces", "sees_payloads", "salt", "digest", "lifetime_ms", "parent", "request_id")
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    NAMESPACES_FIELD_NUMBER: _ClassVar[int]
    SEES_PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    SALT_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_MS_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    token_id: str
    name: str
    role: int
    namespaces: _containers.RepeatedScalarFieldContainer[str]
    sees_payloads: bool
    salt: bytes
    digest: bytes
    lifetime_ms: int
    parent: str
    request_id: str
    def __init__(self, token_id: _Optional[str] = ..., name: _Optional[str] = ..., role: _Optional[int] = ..., namespaces: _Optional[_Iterable[str]] = ..., sees_payloads: bool = ..., salt: _Optional[bytes] = ..., digest: _Optional[bytes] = ..., lifetime_ms: _Optional[int] = ..., parent: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class RevokeToken(_message.Message):
    __slots__ = ("token_id", "request_id")
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    token_id: str
    request_id: str
    def __init__(self, token_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class RecordCall(_message.Message):
    __slots__ = ("call", "target", "outcome")
    CALL_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    call: str
    target: str
    outcome: str
    def __init__(self, call: _Optional[str] = ..., target: _Optional[str] = ..., outcome: _Optional[str] = ...) -> None: ...

class RegisterTypes(_message.Message):
    __slots__ = ("namespace", "workflow_types")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_TYPES_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    workflow_types: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, namespace: _Optional[str] = ..., workflow_types: _Optional[_Iterable[str]] = ...) -> None: ...

class StartRun(_message.Message):
    __slots__ = ("namespace", "workflow_id", "run_id", "workflow_type", "task_queue", "input", "execution_timeout_ms", "id_reuse_policy", "id_conflict_policy", "request_id", "traceparent", "tracestate", "workflow_id_generated", "search_attributes", "memo", "signal_name", "signal_payload")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_TYPE_FIELD_NUMBER: _ClassVar[int]
    TASK_QUEUE_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    ID_REUSE_POLICY_FIELD_NUMBER: _ClassVar[int]
    ID_CONFLICT_POLICY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    TRACESTATE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_ID_GENERATED_FIELD_NUMBER: _ClassVar[int]
    SEARCH_ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    MEMO_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_NAME_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    workflow_id: str
    run_id: str
    workflow_type: str
    task_queue: str
    input: bytes
    execution_timeout_ms: int
    id_reuse_policy: int
    id_conflict_policy: int
    request_id: str
    traceparent: str
    tracestate: str
    workflow_id_generated: bool
    search_attributes: _containers.RepeatedCompositeFieldContainer[_history_pb2.SearchAttribute]
    memo: str
    signal_name: str
    signal_payload: bytes
    def __init__(self, namespace: _Optional[str] = ..., workflow_id: _Optional[str] = ..., run_id: _Optional[str] = ..., workflow_type: _Optional[str] = ..., task_queue: _Optional[str] = ..., input: _Optional[bytes] = ..., execution_timeout_ms: _Optional[int] = ..., id_reuse_policy: _Optional[int] = ..., id_conflict_policy: _Optional[int] = ..., request_id: _Optional[str] = ..., traceparent: _Optional[str] = ..., tracestate: _Optional[str] = ..., workflow_id_generated: bool = ..., search_attributes: _Optional[_Iterable[_Union[_history_pb2.SearchAttribute, _Mapping]]] = ..., memo: _Optional[str] = ..., signal_name: _Optional[str] = ..., signal_payload: _Optional[bytes] = ...) -> None: ...

class SignalRun(_message.Message):
    __slots__ = ("namespace", "workflow_id", "run_id", "name", "payload", "request_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    workflow_id: str
    run_id: str
    name: str
    payload: bytes
    request_id: str
    def __init__(self, namespace: _Optional[str] = ..., workflow_id: _Optional[str] = ..., run_id: _Optional[str] = ..., name: _Optional[str] = ..., payload: _Optional[bytes] = ..., request_id: _Optional[str] = ...) -> None: ...

class TerminateRun(_message.Message):
    __slots__ = ("namespace", "workflow_id", "run_id", "reason", "request_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    workflow_id: str
    run_id: str
    reason: str
    request_id: str
    def __init__(self, namespace: _Optional[str] = ..., workflow_id: _Optional[str] = ..., run_id: _Optional[str] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class CancelRun(_message.Message):
    __slots__ = ("namespace", "workflow_id", "run_id", "reason", "request_id", "graceful")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    GRACEFUL_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    workflow_id: str
    run_id: str
    reason: str
    request_id: str
    graceful: bool
    def __init__(self, namespace: _Optional[str] = ..., workflow_id: _Optional[str] = ..., run_id: _Optional[str] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ..., graceful: bool = ...) -> None: ...

class PauseRun(_message.Message):
    __slots__ = ("namespace", "workflow_id", "run_id", "reason", "request_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    workflow_id: str
    run_id: str
    reason: str
    request_id: str
    def __init__(self, namespace: _Optional[str] = ..., workflow_id: _Optional[str] = ..., run_id: _Optional[str] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class UnpauseRun(_message.Message):
    __slots__ = ("namespace", "workflow_id", "run_id", "request_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    workflow_id: str
    run_id: str
    request_id: str
    def __init__(self, namespace: _Optional[str] = ..., workflow_id: _Optional[str] = ..., run_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class DeleteRun(_message.Message):
    __slots__ = ("namespace", "workflow_id", "run_id", "request_id", "closed_before_ms", "older")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLOSED_BEFORE_MS_FIELD_NUMBER: _ClassVar[int]
    OLDER_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    workflow_id: str
    run_id: str
    request_id: str
    closed_before_ms: int
    older: int
    def __init__(self, namespace: _Optional[str] = ..., workflow_id: _Optional[str] = ..., run_id: _Optional[str] = ..., request_id: _Optional[str] = ..., closed_before_ms: _Optional[int] = ..., older: _Optional[int] = ...) -> None: ...

class EagerPoll(_message.Message):
    __slots__ = ("node", "poll_id", "nonce", "worker_id", "names", "task_queue", "duration_ms", "limit")
    NODE_FIELD_NUMBER: _ClassVar[int]
    POLL_ID_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    TASK_QUEUE_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    node: str
    poll_id: str
    nonce: str
    worker_id: str
    names: _containers.RepeatedScalarFieldContainer[str]
    task_queue: str
    duration_ms: int
    limit: int
    def __init__(self, node: _Optional[str] = ..., poll_id: _Optional[str] = ..., nonce: _Optional[str] = ..., worker_id: _Optional[str] = ..., names: _Optional[_Iterable[str]] = ..., task_queue: _Optional[str] = ..., duration_ms: _Optional[int] = ..., limit: _Optional[int] = ...) -> None: ...

class CompleteDecision(_message.Message):
    __slots__ = ("namespace", "workflow_id", "task_token", "commands", "replay_error", "nondeterminism", "unreadable", "new_run_id", "eager")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_TOKEN_FIELD_NUMBER: _ClassVar[int]
    COMMANDS_FIELD_NUMBER: _ClassVar[int]
    REPLAY_ERROR_FIELD_NUMBER: _ClassVar[int]
    NONDETERMINISM_FIELD_NUMBER: _ClassVar[int]
    UNREADABLE_FIELD_NUMBER: _ClassVar[int]
    NEW_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    EAGER_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    workflow_id: str
    task_token: str
    commands: _containers.RepeatedCompositeFieldContainer[WorkflowCommand]
    replay_error: str
    nondeterminism: bool
    unreadable: str
    new_run_id: str
    eager: EagerPoll
    def __init__(self, namespace: _Optional[str] = ..., workflow_id: _Optional[str] = ..., task_token: _Optional[str] = ..., commands: _Optional[_Iterable[_Union[WorkflowCommand, _Mapping]]] = ..., replay_error: _Optional[str] = ..., nondeterminism: bool = ..., unreadable: _Optional[str] = ..., new_run_id: _Optional[str] = ..., eager: _Optional[_Union[EagerPoll, _Mapping]] = ...) -> None: ...

class CompleteActivity(_message.Message):
    __slots__ = ("namespace", "workflow_id", "step_name", "sequence", "lease_token", "failed", "output", "error", "error_type", "non_retryable", "next_retry_delay_ms", "eager")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_NAME_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    LEASE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ERROR_TYPE_FIELD_NUMBER: _ClassVar[int]
    NON_RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    NEXT_RETRY_DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    EAGER_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    workflow_id: str
    step_name: str
    sequence: int
    lease_token: str
    failed: bool
    output: bytes
    error: str
    error_type: str
    non_retryable: bool
    next_retry_delay_ms: int
    eager: EagerPoll
    def __init__(self, namespace: _Optional[str] = ..., workflow_id: _Optional[str] = ..., step_name: _Optional[str] = ..., sequence: _Optional[int] = ..., lease_token: _Optional[str] = ..., failed: bool = ..., output: _Optional[bytes] = ..., error: _Optional[str] = ..., error_type: _Optional[str] = ..., non_retryable: bool = ..., next_retry_delay_ms: _Optional[int] = ..., eager: _Optional[_Union[EagerPoll, _Mapping]] = ...) -> None: ...

class RecordHeartbeat(_message.Message):
    __slots__ = ("namespace", "workflow_id", "lease_token", "details")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    workflow_id: str
    lease_token: str
    details: bytes
    def __init__(self, namespace: _Optional[str] = ..., workflow_id: _Optional[str] = ..., lease_token: _Optional[str] = ..., details: _Optional[bytes] = ...) -> None: ...

class GrantDecision(_message.Message):
    __slots__ = ("namespace", "workflow_id", "run_id", "nonce", "worker_id", "node", "poll_id", "timeout_ms")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    POLL_ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    workflow_id: str
    run_id: str
    nonce: str
    worker_id: str
    node: str
    poll_id: str
    timeout_ms: int
    def __init__(self, namespace: _Optional[str] = ..., workflow_id: _Optional[str] = ..., run_id: _Optional[str] = ..., nonce: _Optional[str] = ..., worker_id: _Optional[str] = ..., node: _Optional[str] = ..., poll_id: _Optional[str] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class GrantActivity(_message.Message):
    __slots__ = ("namespace", "workflow_id", "run_id", "sequence", "attempt", "nonce", "worker_id", "node", "poll_id", "duration_ms")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    POLL_ID_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
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
    def __init__(self, namespace: _Optional[str] = ..., workflow_id: _Optional[str] = ..., run_id: _Optional[str] = ..., sequence: _Optional[int] = ..., attempt: _Optional[int] = ..., nonce: _Optional[str] = ..., worker_id: _Optional[str] = ..., node: _Optional[str] = ..., poll_id: _Optional[str] = ..., duration_ms: _Optional[int] = ...) -> None: ...

class ReturnTask(_message.Message):
    __slots__ = ("namespace", "workflow_id", "token")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    workflow_id: str
    token: str
    def __init__(self, namespace: _Optional[str] = ..., workflow_id: _Optional[str] = ..., token: _Optional[str] = ...) -> None: ...

class ExpireLease(_message.Message):
    __slots__ = ("namespace", "workflow_id", "token")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    workflow_id: str
    token: str
    def __init__(self, namespace: _Optional[str] = ..., workflow_id: _Optional[str] = ..., token: _Optional[str] = ...) -> None: ...

class FireTimer(_message.Message):
    __slots__ = ("namespace", "workflow_id", "run_id", "kind", "sequence", "fire_at_ms")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    FIRE_AT_MS_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    workflow_id: str
    run_id: str
    kind: int
    sequence: int
    fire_at_ms: int
    def __init__(self, namespace: _Optional[str] = ..., workflow_id: _Optional[str] = ..., run_id: _Optional[str] = ..., kind: _Optional[int] = ..., sequence: _Optional[int] = ..., fire_at_ms: _Optional[int] = ...) -> None: ...

class DeliverMessage(_message.Message):
    __slots__ = ("namespace", "workflow_id", "run_id", "number", "target_workflow_id", "target_run_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TARGET_WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    TARGET_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    workflow_id: str
    run_id: str
    number: int
    target_workflow_id: str
    target_run_id: str
    def __init__(self, namespace: _Optional[str] = ..., workflow_id: _Optional[str] = ..., run_id: _Optional[str] = ..., number: _Optional[int] = ..., target_workflow_id: _Optional[str] = ..., target_run_id: _Optional[str] = ...) -> None: ...

class ForgetRequests(_message.Message):
    __slots__ = ("before_ms", "limit")
    BEFORE_MS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    before_ms: int
    limit: int
    def __init__(self, before_ms: _Optional[int] = ..., limit: _Optional[int] = ...) -> None: ...

class ForgetAudit(_message.Message):
    __slots__ = ("through", "before_ms")
    THROUGH_FIELD_NUMBER: _ClassVar[int]
    BEFORE_MS_FIELD_NUMBER: _ClassVar[int]
    through: int
    before_ms: int
    def __init__(self, through: _Optional[int] = ..., before_ms: _Optional[int] = ...) -> None: ...

class WorkflowCommand(_message.Message):
    __slots__ = ("schedule_activity", "start_timer", "await_signal", "complete_workflow", "fail_workflow", "record_marker", "start_child_workflow", "cancel_step", "continue_as_new", "upsert_search_attributes")
    SCHEDULE_ACTIVITY_FIELD_NUMBER: _ClassVar[int]
    START_TIMER_FIELD_NUMBER: _ClassVar[int]
    AWAIT_SIGNAL_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    FAIL_WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    RECORD_MARKER_FIELD_NUMBER: _ClassVar[int]
    START_CHILD_WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    CANCEL_STEP_FIELD_NUMBER: _ClassVar[int]
    CONTINUE_AS_NEW_FIELD_NUMBER: _ClassVar[int]
    UPSERT_SEARCH_ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    schedule_activity: ScheduleActivity
    start_timer: StartTimer
    await_signal: AwaitSignal
    complete_workflow: CompleteWorkflow
    fail_workflow: FailWorkflow
    record_marker: RecordMarker
    start_child_workflow: StartChildWorkflow
    cancel_step: CancelStep
    continue_as_new: ContinueAsNew
    upsert_search_attributes: UpsertSearchAttributes
    def __init__(self, schedule_activity: _Optional[_Union[ScheduleActivity, _Mapping]] = ..., start_timer: _Optional[_Union[StartTimer, _Mapping]] = ..., await_signal: _Optional[_Union[AwaitSignal, _Mapping]] = ..., complete_workflow: _Optional[_Union[CompleteWorkflow, _Mapping]] = ..., fail_workflow: _Optional[_Union[FailWorkflow, _Mapping]] = ..., record_marker: _Optional[_Union[RecordMarker, _Mapping]] = ..., start_child_workflow: _Optional[_Union[StartChildWorkflow, _Mapping]] = ..., cancel_step: _Optional[_Union[CancelStep, _Mapping]] = ..., continue_as_new: _Optional[_Union[ContinueAsNew, _Mapping]] = ..., upsert_search_attributes: _Optional[_Union[UpsertSearchAttributes, _Mapping]] = ...) -> None: ...

class ScheduleActivity(_message.Message):
    __slots__ = ("step_name", "sequence", "input", "retry", "task_queue", "start_to_close_timeout_ms", "schedule_to_close_timeout_ms", "schedule_to_start_timeout_ms", "priority")
    STEP_NAME_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    TASK_QUEUE_FIELD_NUMBER: _ClassVar[int]
    START_TO_CLOSE_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_TO_CLOSE_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_TO_START_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    step_name: str
    sequence: int
    input: bytes
    retry: _history_pb2.RetryPolicy
    task_queue: str
    start_to_close_timeout_ms: int
    schedule_to_close_timeout_ms: int
    schedule_to_start_timeout_ms: int
    priority: int
    def __init__(self, step_name: _Optional[str] = ..., sequence: _Optional[int] = ..., input: _Optional[bytes] = ..., retry: _Optional[_Union[_history_pb2.RetryPolicy, _Mapping]] = ..., task_queue: _Optional[str] = ..., start_to_close_timeout_ms: _Optional[int] = ..., schedule_to_close_timeout_ms: _Optional[int] = ..., schedule_to_start_timeout_ms: _Optional[int] = ..., priority: _Optional[int] = ...) -> None: ...

class StartTimer(_message.Message):
    __slots__ = ("step_name", "sequence", "delay_ms")
    STEP_NAME_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    step_name: str
    sequence: int
    delay_ms: int
    def __init__(self, step_name: _Optional[str] = ..., sequence: _Optional[int] = ..., delay_ms: _Optional[int] = ...) -> None: ...

class AwaitSignal(_message.Message):
    __slots__ = ("step_name", "sequence", "signal_name")
    STEP_NAME_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_NAME_FIELD_NUMBER: _ClassVar[int]
    step_name: str
    sequence: int
    signal_name: str
    def __init__(self, step_name: _Optional[str] = ..., sequence: _Optional[int] = ..., signal_name: _Optional[str] = ...) -> None: ...

class RecordMarker(_message.Message):
    __slots__ = ("step_name", "sequence", "marker", "data")
    STEP_NAME_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    MARKER_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    step_name: str
    sequence: int
    marker: str
    data: bytes
    def __init__(self, step_name: _Optional[str] = ..., sequence: _Optional[int] = ..., marker: _Optional[str] = ..., data: _Optional[bytes] = ...) -> None: ...

class StartChildWorkflow(_message.Message):
    __slots__ = ("step_name", "sequence", "workflow_type", "workflow_id", "input", "task_queue", "parent_close_policy")
    STEP_NAME_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_TYPE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    TASK_QUEUE_FIELD_NUMBER: _ClassVar[int]
    PARENT_CLOSE_POLICY_FIELD_NUMBER: _ClassVar[int]
    step_name: str
    sequence: int
    workflow_type: str
    workflow_id: str
    input: bytes
    task_queue: str
    parent_close_policy: int
    def __init__(self, step_name: _Optional[str] = ..., sequence: _Optional[int] = ..., workflow_type: _Optional[str] = ..., workflow_id: _Optional[str] = ..., input: _Optional[bytes] = ..., task_queue: _Optional[str] = ..., parent_close_policy: _Optional[int] = ...) -> None: ...

class CancelStep(_message.Message):
    __slots__ = ("step_name", "sequence", "reason")
    STEP_NAME_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    step_name: str
    sequence: int
    reason: str
    def __init__(self, step_name: _Optional[str] = ..., sequence: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class ContinueAsNew(_message.Message):
    __slots__ = ("input", "workflow_type", "task_queue", "execution_timeout_ms")
    INPUT_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_TYPE_FIELD_NUMBER: _ClassVar[int]
    TASK_QUEUE_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    input: bytes
    workflow_type: str
    task_queue: str
    execution_timeout_ms: int
    def __init__(self, input: _Optional[bytes] = ..., workflow_type: _Optional[str] = ..., task_queue: _Optional[str] = ..., execution_timeout_ms: _Optional[int] = ...) -> None: ...

class UpsertSearchAttributes(_message.Message):
    __slots__ = ("attributes",)
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    attributes: _containers.RepeatedCompositeFieldContainer[_history_pb2.SearchAttribute]
    def __init__(self, attributes: _Optional[_Iterable[_Union[_history_pb2.SearchAttribute, _Mapping]]] = ...) -> None: ...

class CompleteWorkflow(_message.Message):
    __slots__ = ("output",)
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    output: bytes
    def __init__(self, output: _Optional[bytes] = ...) -> None: ...

class FailWorkflow(_message.Message):
    __slots__ = ("error", "error_type", "cancelled")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ERROR_TYPE_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    error: str
    error_type: str
    cancelled: bool
    def __init__(self, error: _Optional[str] = ..., error_type: _Optional[str] = ..., cancelled: bool = ...) -> None: ...

class Reply(_message.Message):
    __slots__ = ("command_id", "answer")
    COMMAND_ID_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    command_id: str
    answer: Answer
    def __init__(self, command_id: _Optional[str] = ..., answer: _Optional[_Union[Answer, _Mapping]] = ...) -> None: ...

class Answer(_message.Message):
    __slots__ = ("started", "done", "granted", "rejection", "minted")
    STARTED_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    REJECTION_FIELD_NUMBER: _ClassVar[int]
    MINTED_FIELD_NUMBER: _ClassVar[int]
    started: Started
    done: Done
    granted: Granted
    rejection: Rejection
    minted: Minted
    def __init__(self, started: _Optional[_Union[Started, _Mapping]] = ..., done: _Optional[_Union[Done, _Mapping]] = ..., granted: _Optional[_Union[Granted, _Mapping]] = ..., rejection: _Optional[_Union[Rejection, _Mapping]] = ..., minted: _Optional[_Union[Minted, _Mapping]] = ...) -> None: ...

class Started(_message.Message):
    __slots__ = ("run_id", "started", "workflow_id")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    started: bool
    workflow_id: str
    def __init__(self, run_id: _Optional[str] = ..., started: bool = ..., workflow_id: _Optional[str] = ...) -> None: ...

class Done(_message.Message):
    __slots__ = ("handed", "forgotten")
    HANDED_FIELD_NUMBER: _ClassVar[int]
    FORGOTTEN_FIELD_NUMBER: _ClassVar[int]
    handed: _containers.RepeatedScalarFieldContainer[str]
    forgotten: int
    def __init__(self, handed: _Optional[_Iterable[str]] = ..., forgotten: _Optional[int] = ...) -> None: ...

class Granted(_message.Message):
    __slots__ = ("token",)
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    token: str
    def __init__(self, token: _Optional[str] = ...) -> None: ...

class Minted(_message.Message):
    __slots__ = ("token_id", "expires_ms")
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_MS_FIELD_NUMBER: _ClassVar[int]
    token_id: str
    expires_ms: int
    def __init__(self, token_id: _Optional[str] = ..., expires_ms: _Optional[int] = ...) -> None: ...

class Rejection(_message.Message):
    __slots__ = ("reason", "message", "run_id", "cancelled", "limit", "value", "retry_after_ms")
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    reason: str
    message: str
    run_id: str
    cancelled: bool
    limit: str
    value: int
    retry_after_ms: int
    def __init__(self, reason: _Optional[str] = ..., message: _Optional[str] = ..., run_id: _Optional[str] = ..., cancelled: bool = ..., limit: _Optional[str] = ..., value: _Optional[int] = ..., retry_after_ms: _Optional[int] = ...) -> None: ...
