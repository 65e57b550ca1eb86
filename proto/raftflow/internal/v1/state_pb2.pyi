from raftflow.proto.raftflow.internal.v1 import entry_pb2 as _entry_pb2
from raftflow.proto.workflow.v1 import history_pb2 as _history_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RunRow(_message.Message):
    __slots__ = ("run_no", "namespace", "workflow_id", "run_id", "workflow_type", "task_queue", "status", "started_ms", "updated_ms", "closed_ms", "output", "error", "error_type", "execution_timeout_ms", "history_length", "history_bytes", "open_steps", "leased_tasks", "decision", "decision_failures", "stale_decisions", "suspended_reason", "traceparent", "tracestate", "has_input", "cancel_requested_event_id", "cancel_requested_ms", "cancel_reason", "search_attributes", "memo", "continued_from_run_id", "continued_to_run_id", "parent_workflow_id", "parent_run_id", "parent_sequence", "messages_sent", "decision_refusal")
    RUN_NO_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_TYPE_FIELD_NUMBER: _ClassVar[int]
    TASK_QUEUE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    STARTED_MS_FIELD_NUMBER: _ClassVar[int]
    UPDATED_MS_FIELD_NUMBER: _ClassVar[int]
    CLOSED_MS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ERROR_TYPE_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    HISTORY_LENGTH_FIELD_NUMBER: _ClassVar[int]
    HISTORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    OPEN_STEPS_FIELD_NUMBER: _ClassVar[int]
    LEASED_TASKS_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    DECISION_FAILURES_FIELD_NUMBER: _ClassVar[int]
    STALE_DECISIONS_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_REASON_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    TRACESTATE_FIELD_NUMBER: _ClassVar[int]
    HAS_INPUT_FIELD_NUMBER: _ClassVar[int]
    CANCEL_REQUESTED_EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    CANCEL_REQUESTED_MS_FIELD_NUMBER: _ClassVar[int]
    CANCEL_REASON_FIELD_NUMBER: _ClassVar[int]
    SEARCH_ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    MEMO_FIELD_NUMBER: _ClassVar[int]
    CONTINUED_FROM_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    CONTINUED_TO_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_SENT_FIELD_NUMBER: _ClassVar[int]
    DECISION_REFUSAL_FIELD_NUMBER: _ClassVar[int]
    run_no: int
    namespace: str
    workflow_id: str
    run_id: str
    workflow_type: str
    task_queue: str
    status: int
    started_ms: int
    updated_ms: int
    closed_ms: int
    output: bytes
    error: str
    error_type: str
    execution_timeout_ms: int
    history_length: int
    history_bytes: int
    open_steps: int
    leased_tasks: int
    decision: TaskRow
    decision_failures: int
    stale_decisions: int
    suspended_reason: str
    traceparent: str
    tracestate: str
    has_input: bool
    cancel_requested_event_id: int
    cancel_requested_ms: int
    cancel_reason: str
    search_attributes: _containers.RepeatedCompositeFieldContainer[_history_pb2.SearchAttribute]
    memo: str
    continued_from_run_id: str
    continued_to_run_id: str
    parent_workflow_id: str
    parent_run_id: str
    parent_sequence: int
    messages_sent: int
    decision_refusal: str
    def __init__(self, run_no: _Optional[int] = ..., namespace: _Optional[str] = ..., workflow_id: _Optional[str] = ..., run_id: _Optional[str] = ..., workflow_type: _Optional[str] = ..., task_queue: _Optional[str] = ..., status: _Optional[int] = ..., started_ms: _Optional[int] = ..., updated_ms: _Optional[int] = ..., closed_ms: _Optional[int] = ..., output: _Optional[bytes] = ..., error: _Optional[str] = ..., error_type: _Optional[str] = ..., execution_timeout_ms: _Optional[int] = ..., history_length: _Optional[int] = ..., history_bytes: _Optional[int] = ..., open_steps: _Optional[int] = ..., leased_tasks: _Optional[int] = ..., decision: _Optional[_Union[TaskRow, _Mapping]] = ..., decision_failures: _Optional[int] = ..., stale_decisions: _Optional[int] = ..., suspended_reason: _Optional[str] = ..., traceparent: _Optional[str] = ..., tracestate: _Optional[str] = ..., has_input: bool = ..., cancel_requested_event_id: _Optional[int] = ..., cancel_requested_ms: _Optional[int] = ..., cancel_reason: _Optional[str] = ..., search_attributes: _Optional[_Iterable[_Union[_history_pb2.SearchAttribute, _Mapping]]] = ..., memo: _Optional[str] = ..., continued_from_run_id: _Optional[str] = ..., continued_to_run_id: _Optional[str] = ..., parent_workflow_id: _Optional[str] = ..., parent_run_id: _Optional[str] = ..., parent_sequence: _Optional[int] = ..., messages_sent: _Optional[int] = ..., decision_refusal: _Optional[str] = ...) -> None: ...

class ArrivalRow(_message.Message):
    __slots__ = ("run_no", "number", "event", "joined")
    RUN_NO_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    JOINED_FIELD_NUMBER: _ClassVar[int]
    run_no: int
    number: int
    event: bytes
    joined: bool
    def __init__(self, run_no: _Optional[int] = ..., number: _Optional[int] = ..., event: _Optional[bytes] = ..., joined: bool = ...) -> None: ...

class OutboxRow(_message.Message):
    __slots__ = ("run_no", "number", "start_child", "report_child", "end_child")
    RUN_NO_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    START_CHILD_FIELD_NUMBER: _ClassVar[int]
    REPORT_CHILD_FIELD_NUMBER: _ClassVar[int]
    END_CHILD_FIELD_NUMBER: _ClassVar[int]
    run_no: int
    number: int
    start_child: StartChild
    report_child: ReportChild
    end_child: EndChild
    def __init__(self, run_no: _Optional[int] = ..., number: _Optional[int] = ..., start_child: _Optional[_Union[StartChild, _Mapping]] = ..., report_child: _Optional[_Union[ReportChild, _Mapping]] = ..., end_child: _Optional[_Union[EndChild, _Mapping]] = ...) -> None: ...

class StartChild(_message.Message):
    __slots__ = ("sequence", "workflow_id", "workflow_type", "task_queue", "input", "parent_close_policy", "traceparent", "tracestate")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_TYPE_FIELD_NUMBER: _ClassVar[int]
    TASK_QUEUE_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    PARENT_CLOSE_POLICY_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    TRACESTATE_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    workflow_id: str
    workflow_type: str
    task_queue: str
    input: bytes
    parent_close_policy: int
    traceparent: str
    tracestate: str
    def __init__(self, sequence: _Optional[int] = ..., workflow_id: _Optional[str] = ..., workflow_type: _Optional[str] = ..., task_queue: _Optional[str] = ..., input: _Optional[bytes] = ..., parent_close_policy: _Optional[int] = ..., traceparent: _Optional[str] = ..., tracestate: _Optional[str] = ...) -> None: ...

class ReportChild(_message.Message):
    __slots__ = ("parent_workflow_id", "parent_run_id", "parent_sequence")
    PARENT_WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    parent_workflow_id: str
    parent_run_id: str
    parent_sequence: int
    def __init__(self, parent_workflow_id: _Optional[str] = ..., parent_run_id: _Optional[str] = ..., parent_sequence: _Optional[int] = ...) -> None: ...

class EndChild(_message.Message):
    __slots__ = ("sequence", "workflow_id", "terminate", "reason")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    TERMINATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    workflow_id: str
    terminate: bool
    reason: str
    def __init__(self, sequence: _Optional[int] = ..., workflow_id: _Optional[str] = ..., terminate: bool = ..., reason: _Optional[str] = ...) -> None: ...

class DeletedRow(_message.Message):
    __slots__ = ("run_no",)
    RUN_NO_FIELD_NUMBER: _ClassVar[int]
    run_no: int
    def __init__(self, run_no: _Optional[int] = ...) -> None: ...

class TaskRow(_message.Message):
    __slots__ = ("state", "attempt", "token", "worker_id", "node", "leased_ms", "duration_ms", "backoff_until_ms", "last_token", "last_outcome")
    STATE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    LEASED_MS_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    LAST_TOKEN_FIELD_NUMBER: _ClassVar[int]
    LAST_OUTCOME_FIELD_NUMBER: _ClassVar[int]
    state: int
    attempt: int
    token: str
    worker_id: str
    node: str
    leased_ms: int
    duration_ms: int
    backoff_until_ms: int
    last_token: str
    last_outcome: bytes
    def __init__(self, state: _Optional[int] = ..., attempt: _Optional[int] = ..., token: _Optional[str] = ..., worker_id: _Optional[str] = ..., node: _Optional[str] = ..., leased_ms: _Optional[int] = ..., duration_ms: _Optional[int] = ..., backoff_until_ms: _Optional[int] = ..., last_token: _Optional[str] = ..., last_outcome: _Optional[bytes] = ...) -> None: ...

class StepRow(_message.Message):
    __slots__ = ("run_no", "sequence", "kind", "name", "status", "scheduled_event_id", "scheduled_ms", "output", "error", "error_type", "non_retryable", "resolved_event_id", "resolved_ms", "retry", "task_queue", "start_to_close_timeout_ms", "schedule_to_close_timeout_ms", "schedule_to_start_timeout_ms", "attempts", "last_error", "heartbeat_details", "task", "fire_at_ms", "signal_name", "has_input", "priority", "marker", "workflow_type", "workflow_id", "run_id", "parent_close_policy", "arrived")
    RUN_NO_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_MS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ERROR_TYPE_FIELD_NUMBER: _ClassVar[int]
    NON_RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    RESOLVED_EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    RESOLVED_MS_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    TASK_QUEUE_FIELD_NUMBER: _ClassVar[int]
    START_TO_CLOSE_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_TO_CLOSE_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_TO_START_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    LAST_ERROR_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_DETAILS_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    FIRE_AT_MS_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_NAME_FIELD_NUMBER: _ClassVar[int]
    HAS_INPUT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    MARKER_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_TYPE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_CLOSE_POLICY_FIELD_NUMBER: _ClassVar[int]
    ARRIVED_FIELD_NUMBER: _ClassVar[int]
    run_no: int
    sequence: int
    kind: int
    name: str
    status: int
    scheduled_event_id: int
    scheduled_ms: int
    output: bytes
    error: str
    error_type: str
    non_retryable: bool
    resolved_event_id: int
    resolved_ms: int
    retry: _history_pb2.RetryPolicy
    task_queue: str
    start_to_close_timeout_ms: int
    schedule_to_close_timeout_ms: int
    schedule_to_start_timeout_ms: int
    attempts: int
    last_error: str
    heartbeat_details: bytes
    task: TaskRow
    fire_at_ms: int
    signal_name: str
    has_input: bool
    priority: int
    marker: str
    workflow_type: str
    workflow_id: str
    run_id: str
    parent_close_policy: int
    arrived: bool
    def __init__(self, run_no: _Optional[int] = ..., sequence: _Optional[int] = ..., kind: _Optional[int] = ..., name: _Optional[str] = ..., status: _Optional[int] = ..., scheduled_event_id: _Optional[int] = ..., scheduled_ms: _Optional[int] = ..., output: _Optional[bytes] = ..., error: _Optional[str] = ..., error_type: _Optional[str] = ..., non_retryable: bool = ..., resolved_event_id: _Optional[int] = ..., resolved_ms: _Optional[int] = ..., retry: _Optional[_Union[_history_pb2.RetryPolicy, _Mapping]] = ..., task_queue: _Optional[str] = ..., start_to_close_timeout_ms: _Optional[int] = ..., schedule_to_close_timeout_ms: _Optional[int] = ..., schedule_to_start_timeout_ms: _Optional[int] = ..., attempts: _Optional[int] = ..., last_error: _Optional[str] = ..., heartbeat_details: _Optional[bytes] = ..., task: _Optional[_Union[TaskRow, _Mapping]] = ..., fire_at_ms: _Optional[int] = ..., signal_name: _Optional[str] = ..., has_input: bool = ..., priority: _Optional[int] = ..., marker: _Optional[str] = ..., workflow_type: _Optional[str] = ..., workflow_id: _Optional[str] = ..., run_id: _Optional[str] = ..., parent_close_policy: _Optional[int] = ..., arrived: bool = ...) -> None: ...

class SignalRow(_message.Message):
    __slots__ = ("run_no", "event_id", "time_ms", "name", "payload", "taken_by")
    RUN_NO_FIELD_NUMBER: _ClassVar[int]
    EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    TAKEN_BY_FIELD_NUMBER: _ClassVar[int]
    run_no: int
    event_id: int
    time_ms: int
    name: str
    payload: bytes
    taken_by: int
    def __init__(self, run_no: _Optional[int] = ..., event_id: _Optional[int] = ..., time_ms: _Optional[int] = ..., name: _Optional[str] = ..., payload: _Optional[bytes] = ..., taken_by: _Optional[int] = ...) -> None: ...

class TimerRow(_message.Message):
    __slots__ = ("run_no", "kind", "sequence", "fire_at_ms", "disarmed")
    RUN_NO_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    FIRE_AT_MS_FIELD_NUMBER: _ClassVar[int]
    DISARMED_FIELD_NUMBER: _ClassVar[int]
    run_no: int
    kind: int
    sequence: int
    fire_at_ms: int
    disarmed: bool
    def __init__(self, run_no: _Optional[int] = ..., kind: _Optional[int] = ..., sequence: _Optional[int] = ..., fire_at_ms: _Optional[int] = ..., disarmed: bool = ...) -> None: ...

class NamespaceRow(_message.Message):
    __slots__ = ("name", "retention_ms", "created_ms", "max_open_runs", "starts_per_second", "starts_paid_us")
    NAME_FIELD_NUMBER: _ClassVar[int]
    RETENTION_MS_FIELD_NUMBER: _ClassVar[int]
    CREATED_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_OPEN_RUNS_FIELD_NUMBER: _ClassVar[int]
    STARTS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    STARTS_PAID_US_FIELD_NUMBER: _ClassVar[int]
    name: str
    retention_ms: int
    created_ms: int
    max_open_runs: int
    starts_per_second: int
    starts_paid_us: int
    def __init__(self, name: _Optional[str] = ..., retention_ms: _Optional[int] = ..., created_ms: _Optional[int] = ..., max_open_runs: _Optional[int] = ..., starts_per_second: _Optional[int] = ..., starts_paid_us: _Optional[int] = ...) -> None: ...

class TokenRow(_message.Message):
    __slots__ = ("token_id", "name", "role", "namespaces", "sees_payloads", "salt", "digest", "created_ms", "expires_ms", "revoked_ms", "parent", "forgotten")
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    NAMESPACES_FIELD_NUMBER: _ClassVar[int]
    SEES_PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    SALT_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    CREATED_MS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_MS_FIELD_NUMBER: _ClassVar[int]
    REVOKED_MS_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    FORGOTTEN_FIELD_NUMBER: _ClassVar[int]
    token_id: str
    name: str
    role: int
    namespaces: _containers.RepeatedScalarFieldContainer[str]
    sees_payloads: bool
    salt: bytes
    digest: bytes
    created_ms: int
    expires_ms: int
    revoked_ms: int
    parent: str
    forgotten: bool
    def __init__(self, token_id: _Optional[str] = ..., name: _Optional[str] = ..., role: _Optional[int] = ..., namespaces: _Optional[_Iterable[str]] = ..., sees_payloads: bool = ..., salt: _Optional[bytes] = ..., digest: _Optional[bytes] = ..., created_ms: _Optional[int] = ..., expires_ms: _Optional[int] = ..., revoked_ms: _Optional[int] = ..., parent: _Optional[str] = ..., forgotten: bool = ...) -> None: ...

class AuditRow(_message.Message):
    __slots__ = ("audit_no", "time_ms", "actor", "role", "node", "address", "token_id", "call", "namespace", "target", "run_id", "detail", "outcome", "forgotten")
    AUDIT_NO_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    FORGOTTEN_FIELD_NUMBER: _ClassVar[int]
    audit_no: int
    time_ms: int
    actor: str
    role: int
    node: str
    address: str
    token_id: str
    call: str
    namespace: str
    target: str
    run_id: str
    detail: str
    outcome: str
    forgotten: bool
    def __init__(self, audit_no: _Optional[int] = ..., time_ms: _Optional[int] = ..., actor: _Optional[str] = ..., role: _Optional[int] = ..., node: _Optional[str] = ..., address: _Optional[str] = ..., token_id: _Optional[str] = ..., call: _Optional[str] = ..., namespace: _Optional[str] = ..., target: _Optional[str] = ..., run_id: _Optional[str] = ..., detail: _Optional[str] = ..., outcome: _Optional[str] = ..., forgotten: bool = ...) -> None: ...

class TypeRow(_message.Message):
    __slots__ = ("namespace", "workflow_type")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_TYPE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    workflow_type: str
    def __init__(self, namespace: _Optional[str] = ..., workflow_type: _Optional[str] = ...) -> None: ...

class RequestRow(_message.Message):
    __slots__ = ("namespace", "request_id", "payload_digest", "answer", "expires_ms")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_DIGEST_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_MS_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    payload_digest: bytes
    answer: _entry_pb2.Answer
    expires_ms: int
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., payload_digest: _Optional[bytes] = ..., answer: _Optional[_Union[_entry_pb2.Answer, _Mapping]] = ..., expires_ms: _Optional[int] = ...) -> None: ...
