from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class IdReusePolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ID_REUSE_POLICY_REJECT_DUPLICATE: _ClassVar[IdReusePolicy]
    ID_REUSE_POLICY_ALLOW_DUPLICATE: _ClassVar[IdReusePolicy]
    ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY: _ClassVar[IdReusePolicy]

class IdConflictPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ID_CONFLICT_POLICY_FAIL: _ClassVar[IdConflictPolicy]
    ID_CONFLICT_POLICY_USE_EXISTING: _ClassVar[IdConflictPolicy]

class ParentClosePolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PARENT_CLOSE_POLICY_TERMINATE: _ClassVar[ParentClosePolicy]
    PARENT_CLOSE_POLICY_REQUEST_CANCEL: _ClassVar[ParentClosePolicy]
    PARENT_CLOSE_POLICY_ABANDON: _ClassVar[ParentClosePolicy]

class Role(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROLE_UNSPECIFIED: _ClassVar[Role]
    ROLE_VIEWER: _ClassVar[Role]
    ROLE_USER: _ClassVar[Role]
    ROLE_ADMIN: _ClassVar[Role]
    ROLE_WORKER: _ClassVar[Role]

class TaskKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TASK_KIND_UNSPECIFIED: _ClassVar[TaskKind]
    TASK_KIND_ACTIVITY: _ClassVar[TaskKind]
    TASK_KIND_WORKFLOW: _ClassVar[TaskKind]
ID_REUSE_POLICY_REJECT_DUPLICATE: IdReusePolicy
ID_REUSE_POLICY_ALLOW_DUPLICATE: IdReusePolicy
ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY: IdReusePolicy
ID_CONFLICT_POLICY_FAIL: IdConflictPolicy
ID_CONFLICT_POLICY_USE_EXISTING: IdConflictPolicy
PARENT_CLOSE_POLICY_TERMINATE: ParentClosePolicy
PARENT_CLOSE_POLICY_REQUEST_CANCEL: ParentClosePolicy
PARENT_CLOSE_POLICY_ABANDON: ParentClosePolicy
ROLE_UNSPECIFIED: Role
ROLE_VIEWER: Role
ROLE_USER: Role
ROLE_ADMIN: Role
ROLE_WORKER: Role
TASK_KIND_UNSPECIFIED: TaskKind
TASK_KIND_ACTIVITY: TaskKind
TASK_KIND_WORKFLOW: TaskKind

class PollTaskRequest(_message.Message):
    __slots__ = ("worker_id", "activities", "task_queue", "namespace", "request_id", "max")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    ACTIVITIES_FIELD_NUMBER: _ClassVar[int]
    TASK_QUEUE_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    activities: _containers.RepeatedScalarFieldContainer[str]
    task_queue: str
    namespace: str
    request_id: str
    max: int
    def __init__(self, worker_id: _Optional[str] = ..., activities: _Optional[_Iterable[str]] = ..., task_queue: _Optional[str] = ..., namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., max: _Optional[int] = ...) -> None: ...

class Task(_message.Message):
    __slots__ = ("workflow_id", "run_id", "step_name", "sequence", "input", "lease_token", "lease_duration_ms", "attempt", "start_to_close_timeout_ms", "heartbeat_details", "traceparent", "tracestate", "workflow_type", "more")
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_NAME_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    LEASE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    LEASE_DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    START_TO_CLOSE_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_DETAILS_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    TRACESTATE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_TYPE_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    workflow_id: str
    run_id: str
    step_name: str
    sequence: int
    input: bytes
    lease_token: str
    lease_duration_ms: int
    attempt: int
    start_to_close_timeout_ms: int
    heartbeat_details: bytes
    traceparent: str
    tracestate: str
    workflow_type: str
    more: _containers.RepeatedCompositeFieldContainer[Task]
    def __init__(self, workflow_id: _Optional[str] = ..., run_id: _Optional[str] = ..., step_name: _Optional[str] = ..., sequence: _Optional[int] = ..., input: _Optional[bytes] = ..., lease_token: _Optional[str] = ..., lease_duration_ms: _Optional[int] = ..., attempt: _Optional[int] = ..., start_to_close_timeout_ms: _Optional[int] = ..., heartbeat_details: _Optional[bytes] = ..., traceparent: _Optional[str] = ..., tracestate: _Optional[str] = ..., workflow_type: _Optional[str] = ..., more: _Optional[_Iterable[_Union[Task, _Mapping]]] = ...) -> None: ...

class CompleteTaskRequest(_message.Message):
    __slots__ = ("workflow_id", "step_name", "sequence", "lease_token", "output", "error", "error_type", "non_retryable", "next_retry_delay_ms", "namespace", "request_id", "eager")
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_NAME_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    LEASE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ERROR_TYPE_FIELD_NUMBER: _ClassVar[int]
    NON_RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    NEXT_RETRY_DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    EAGER_FIELD_NUMBER: _ClassVar[int]
    workflow_id: str
    step_name: str
    sequence: int
    lease_token: str
    output: bytes
    error: str
    error_type: str
    non_retryable: bool
    next_retry_delay_ms: int
    namespace: str
    request_id: str
    eager: EagerPoll
    def __init__(self, workflow_id: _Optional[str] = ..., step_name: _Optional[str] = ..., sequence: _Optional[int] = ..., lease_token: _Optional[str] = ..., output: _Optional[bytes] = ..., error: _Optional[str] = ..., error_type: _Optional[str] = ..., non_retryable: bool = ..., next_retry_delay_ms: _Optional[int] = ..., namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., eager: _Optional[_Union[EagerPoll, _Mapping]] = ...) -> None: ...

class CompleteTaskResponse(_message.Message):
    __slots__ = ("workflow_task",)
    WORKFLOW_TASK_FIELD_NUMBER: _ClassVar[int]
    workflow_task: WorkflowTask
    def __init__(self, workflow_task: _Optional[_Union[WorkflowTask, _Mapping]] = ...) -> None: ...

class EagerPoll(_message.Message):
    __slots__ = ("worker_id", "names", "task_queue", "max", "request_id")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    TASK_QUEUE_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    names: _containers.RepeatedScalarFieldContainer[str]
    task_queue: str
    max: int
    request_id: str
    def __init__(self, worker_id: _Optional[str] = ..., names: _Optional[_Iterable[str]] = ..., task_queue: _Optional[str] = ..., max: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("workflow_id", "lease_token", "worker_id", "details", "namespace", "request_id")
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    workflow_id: str
    lease_token: str
    worker_id: str
    details: bytes
    namespace: str
    request_id: str
    def __init__(self, workflow_id: _Optional[str] = ..., lease_token: _Optional[str] = ..., worker_id: _Optional[str] = ..., details: _Optional[bytes] = ..., namespace: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class HeartbeatResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AttributeValue(_message.Message):
    __slots__ = ("text", "integer", "number", "flag")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    INTEGER_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    FLAG_FIELD_NUMBER: _ClassVar[int]
    text: str
    integer: int
    number: float
    flag: bool
    def __init__(self, text: _Optional[str] = ..., integer: _Optional[int] = ..., number: _Optional[float] = ..., flag: bool = ...) -> None: ...

class StartWorkflowRequest(_message.Message):
    __slots__ = ("type", "workflow_id", "input", "execution_timeout_ms", "id_reuse_policy", "id_conflict_policy", "task_queue", "namespace", "request_id", "traceparent", "tracestate", "search_attributes", "memo", "signal")
    class SearchAttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: AttributeValue
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[AttributeValue, _Mapping]] = ...) -> None: ...
    TYPE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    ID_REUSE_POLICY_FIELD_NUMBER: _ClassVar[int]
    ID_CONFLICT_POLICY_FIELD_NUMBER: _ClassVar[int]
    TASK_QUEUE_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    TRACESTATE_FIELD_NUMBER: _ClassVar[int]
    SEARCH_ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    MEMO_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    type: str
    workflow_id: str
    input: bytes
    execution_timeout_ms: int
    id_reuse_policy: IdReusePolicy
    id_conflict_policy: IdConflictPolicy
    task_queue: str
    namespace: str
    request_id: str
    traceparent: str
    tracestate: str
    search_attributes: _containers.MessageMap[str, AttributeValue]
    memo: str
    signal: StartSignal
    def __init__(self, type: _Optional[str] = ..., workflow_id: _Optional[str] = ..., input: _Optional[bytes] = ..., execution_timeout_ms: _Optional[int] = ..., id_reuse_policy: _Optional[_Union[IdReusePolicy, str]] = ..., id_conflict_policy: _Optional[_Union[IdConflictPolicy, str]] = ..., task_queue: _Optional[str] = ..., namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., traceparent: _Optional[str] = ..., tracestate: _Optional[str] = ..., search_attributes: _Optional[_Mapping[str, AttributeValue]] = ..., memo: _Optional[str] = ..., signal: _Optional[_Union[StartSignal, _Mapping]] = ...) -> None: ...

class StartSignal(_message.Message):
    __slots__ = ("name", "payload")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    name: str
    payload: bytes
    def __init__(self, name: _Optional[str] = ..., payload: _Optional[bytes] = ...) -> None: ...

class StartWorkflowResponse(_message.Message):
    __slots__ = ("workflow_id", "run_id", "started")
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    workflow_id: str
    run_id: str
    started: bool
    def __init__(self, workflow_id: _Optional[str] = ..., run_id: _Optional[str] = ..., started: bool = ...) -> None: ...

class SignalWorkflowRequest(_message.Message):
    __slots__ = ("workflow_id", "run_id", "name", "payload", "namespace", "request_id")
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    workflow_id: str
    run_id: str
    name: str
    payload: bytes
    namespace: str
    request_id: str
    def __init__(self, workflow_id: _Optional[str] = ..., run_id: _Optional[str] = ..., name: _Optional[str] = ..., payload: _Optional[bytes] = ..., namespace: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class SignalWorkflowResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TerminateWorkflowRequest(_message.Message):
    __slots__ = ("workflow_id", "run_id", "reason", "namespace", "request_id")
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    workflow_id: str
    run_id: str
    reason: str
    namespace: str
    request_id: str
    def __init__(self, workflow_id: _Optional[str] = ..., run_id: _Optional[str] = ..., reason: _Optional[str] = ..., namespace: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class TerminateWorkflowResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CancelWorkflowRequest(_message.Message):
    __slots__ = ("workflow_id", "run_id", "reason", "graceful", "namespace", "request_id")
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    GRACEFUL_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    workflow_id: str
    run_id: str
    reason: str
    graceful: bool
    namespace: str
    request_id: str
    def __init__(self, workflow_id: _Optional[str] = ..., run_id: _Optional[str] = ..., reason: _Optional[str] = ..., graceful: bool = ..., namespace: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class CancelWorkflowResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PauseWorkflowRequest(_message.Message):
    __slots__ = ("workflow_id", "run_id", "reason", "namespace", "request_id")
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    workflow_id: str
    run_id: str
    reason: str
    namespace: str
    request_id: str
    def __init__(self, workflow_id: _Optional[str] = ..., run_id: _Optional[str] = ..., reason: _Optional[str] = ..., namespace: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class PauseWorkflowResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class UnpauseWorkflowRequest(_message.Message):
    __slots__ = ("workflow_id", "run_id", "namespace", "request_id")
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    workflow_id: str
    run_id: str
    namespace: str
    request_id: str
    def __init__(self, workflow_id: _Optional[str] = ..., run_id: _Optional[str] = ..., namespace: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class UnpauseWorkflowResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeleteWorkflowRequest(_message.Message):
    __slots__ = ("workflow_id", "run_id", "namespace", "request_id")
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    workflow_id: str
    run_id: str
    namespace: str
    request_id: str
    def __init__(self, workflow_id: _Optional[str] = ..., run_id: _Optional[str] = ..., namespace: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class DeleteWorkflowResponse(_message.Message):
    __slots__ = ("runs",)
    RUNS_FIELD_NUMBER: _ClassVar[int]
    runs: int
    def __init__(self, runs: _Optional[int] = ...) -> None: ...

class DescribeWorkflowRequest(_message.Message):
    __slots__ = ("workflow_id", "run_id", "namespace")
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    workflow_id: str
    run_id: str
    namespace: str
    def __init__(self, workflow_id: _Optional[str] = ..., run_id: _Optional[str] = ..., namespace: _Optional[str] = ...) -> None: ...

class DescribeWorkflowResponse(_message.Message):
    __slots__ = ("run", "input", "output", "error", "error_type", "steps", "signals", "waiting_on", "execution_timeout_ms", "traceparent", "tracestate", "continued_from_run_id", "continued_to_run_id", "parent", "cancel_requested_ms", "cancel_reason", "payload_hidden")
    RUN_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ERROR_TYPE_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    SIGNALS_FIELD_NUMBER: _ClassVar[int]
    WAITING_ON_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    TRACESTATE_FIELD_NUMBER: _ClassVar[int]
    CONTINUED_FROM_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    CONTINUED_TO_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    CANCEL_REQUESTED_MS_FIELD_NUMBER: _ClassVar[int]
    CANCEL_REASON_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_HIDDEN_FIELD_NUMBER: _ClassVar[int]
    run: RunSummary
    input: bytes
    output: bytes
    error: str
    error_type: str
    steps: _containers.RepeatedCompositeFieldContainer[Step]
    signals: _containers.RepeatedCompositeFieldContainer[Signal]
    waiting_on: _containers.RepeatedCompositeFieldContainer[Waiting]
    execution_timeout_ms: int
    traceparent: str
    tracestate: str
    continued_from_run_id: str
    continued_to_run_id: str
    parent: Parent
    cancel_requested_ms: int
    cancel_reason: str
    payload_hidden: bool
    def __init__(self, run: _Optional[_Union[RunSummary, _Mapping]] = ..., input: _Optional[bytes] = ..., output: _Optional[bytes] = ..., error: _Optional[str] = ..., error_type: _Optional[str] = ..., steps: _Optional[_Iterable[_Union[Step, _Mapping]]] = ..., signals: _Optional[_Iterable[_Union[Signal, _Mapping]]] = ..., waiting_on: _Optional[_Iterable[_Union[Waiting, _Mapping]]] = ..., execution_timeout_ms: _Optional[int] = ..., traceparent: _Optional[str] = ..., tracestate: _Optional[str] = ..., continued_from_run_id: _Optional[str] = ..., continued_to_run_id: _Optional[str] = ..., parent: _Optional[_Union[Parent, _Mapping]] = ..., cancel_requested_ms: _Optional[int] = ..., cancel_reason: _Optional[str] = ..., payload_hidden: bool = ...) -> None: ...

class Parent(_message.Message):
    __slots__ = ("workflow_id", "run_id", "sequence")
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    workflow_id: str
    run_id: str
    sequence: int
    def __init__(self, workflow_id: _Optional[str] = ..., run_id: _Optional[str] = ..., sequence: _Optional[int] = ...) -> None: ...

class RunSummary(_message.Message):
    __slots__ = ("workflow_id", "run_id", "workflow_type", "status", "started_ms", "updated_ms", "closed_ms", "history_length", "task_queue", "search_attributes", "memo")
    class SearchAttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: AttributeValue
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[AttributeValue, _Mapping]] = ...) -> None: ...
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_TYPE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    STARTED_MS_FIELD_NUMBER: _ClassVar[int]
    UPDATED_MS_FIELD_NUMBER: _ClassVar[int]
    CLOSED_MS_FIELD_NUMBER: _ClassVar[int]
    HISTORY_LENGTH_FIELD_NUMBER: _ClassVar[int]
    TASK_QUEUE_FIELD_NUMBER: _ClassVar[int]
    SEARCH_ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    MEMO_FIELD_NUMBER: _ClassVar[int]
    workflow_id: str
    run_id: str
    workflow_type: str
    status: str
    started_ms: int
    updated_ms: int
    closed_ms: int
    history_length: int
    task_queue: str
    search_attributes: _containers.MessageMap[str, AttributeValue]
    memo: str
    def __init__(self, workflow_id: _Optional[str] = ..., run_id: _Optional[str] = ..., workflow_type: _Optional[str] = ..., status: _Optional[str] = ..., started_ms: _Optional[int] = ..., updated_ms: _Optional[int] = ..., closed_ms: _Optional[int] = ..., history_length: _Optional[int] = ..., task_queue: _Optional[str] = ..., search_attributes: _Optional[_Mapping[str, AttributeValue]] = ..., memo: _Optional[str] = ...) -> None: ...

class Step(_message.Message):
    __slots__ = ("step_name", "sequence", "kind", "status", "attempts", "output", "error", "error_type", "non_retryable", "resolved_event_id", "resolved_ms", "marker", "workflow_type", "workflow_id", "run_id")
    STEP_NAME_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ERROR_TYPE_FIELD_NUMBER: _ClassVar[int]
    NON_RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    RESOLVED_EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    RESOLVED_MS_FIELD_NUMBER: _ClassVar[int]
    MARKER_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_TYPE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    step_name: str
    sequence: int
    kind: str
    status: str
    attempts: int
    output: bytes
    error: str
    error_type: str
    non_retryable: bool
    resolved_event_id: int
    resolved_ms: int
    marker: str
    workflow_type: str
    workflow_id: str
    run_id: str
    def __init__(self, step_name: _Optional[str] = ..., sequence: _Optional[int] = ..., kind: _Optional[str] = ..., status: _Optional[str] = ..., attempts: _Optional[int] = ..., output: _Optional[bytes] = ..., error: _Optional[str] = ..., error_type: _Optional[str] = ..., non_retryable: bool = ..., resolved_event_id: _Optional[int] = ..., resolved_ms: _Optional[int] = ..., marker: _Optional[str] = ..., workflow_type: _Optional[str] = ..., workflow_id: _Optional[str] = ..., run_id: _Optional[str] = ...) -> None: ...

class Signal(_message.Message):
    __slots__ = ("name", "payload", "event_id", "received_ms", "taken_by")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_MS_FIELD_NUMBER: _ClassVar[int]
    TAKEN_BY_FIELD_NUMBER: _ClassVar[int]
    name: str
    payload: bytes
    event_id: int
    received_ms: int
    taken_by: int
    def __init__(self, name: _Optional[str] = ..., payload: _Optional[bytes] = ..., event_id: _Optional[int] = ..., received_ms: _Optional[int] = ..., taken_by: _Optional[int] = ...) -> None: ...

class Waiting(_message.Message):
    __slots__ = ("kind", "step_name", "sequence", "detail", "since_ms", "until_ms")
    KIND_FIELD_NUMBER: _ClassVar[int]
    STEP_NAME_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    kind: str
    step_name: str
    sequence: int
    detail: str
    since_ms: int
    until_ms: int
    def __init__(self, kind: _Optional[str] = ..., step_name: _Optional[str] = ..., sequence: _Optional[int] = ..., detail: _Optional[str] = ..., since_ms: _Optional[int] = ..., until_ms: _Optional[int] = ...) -> None: ...

class ListWorkflowsRequest(_message.Message):
    __slots__ = ("status", "q", "type", "task_queue", "started_after_ms", "started_before_ms", "limit", "offset", "cursor", "namespace", "search_attributes")
    class SearchAttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: AttributeValue
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[AttributeValue, _Mapping]] = ...) -> None: ...
    STATUS_FIELD_NUMBER: _ClassVar[int]
    Q_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    TASK_QUEUE_FIELD_NUMBER: _ClassVar[int]
    STARTED_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    STARTED_BEFORE_MS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    SEARCH_ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    status: _containers.RepeatedScalarFieldContainer[str]
    q: str
    type: str
    task_queue: str
    started_after_ms: int
    started_before_ms: int
    limit: int
    offset: int
    cursor: str
    namespace: str
    search_attributes: _containers.MessageMap[str, AttributeValue]
    def __init__(self, status: _Optional[_Iterable[str]] = ..., q: _Optional[str] = ..., type: _Optional[str] = ..., task_queue: _Optional[str] = ..., started_after_ms: _Optional[int] = ..., started_before_ms: _Optional[int] = ..., limit: _Optional[int] = ..., offset: _Optional[int] = ..., cursor: _Optional[str] = ..., namespace: _Optional[str] = ..., search_attributes: _Optional[_Mapping[str, AttributeValue]] = ...) -> None: ...

class ListWorkflowsResponse(_message.Message):
    __slots__ = ("total", "total_exact", "workflows", "next_cursor", "applied_index")
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    TOTAL_EXACT_FIELD_NUMBER: _ClassVar[int]
    WORKFLOWS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    APPLIED_INDEX_FIELD_NUMBER: _ClassVar[int]
    total: int
    total_exact: bool
    workflows: _containers.RepeatedCompositeFieldContainer[RunSummary]
    next_cursor: str
    applied_index: int
    def __init__(self, total: _Optional[int] = ..., total_exact: bool = ..., workflows: _Optional[_Iterable[_Union[RunSummary, _Mapping]]] = ..., next_cursor: _Optional[str] = ..., applied_index: _Optional[int] = ...) -> None: ...

class GetHistoryRequest(_message.Message):
    __slots__ = ("workflow_id", "run_id", "limit", "wait_ms", "namespace")
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    workflow_id: str
    run_id: str
    limit: int
    wait_ms: int
    namespace: str
    def __init__(self, workflow_id: _Optional[str] = ..., run_id: _Optional[str] = ..., limit: _Optional[int] = ..., wait_ms: _Optional[int] = ..., namespace: _Optional[str] = ..., **kwargs) -> None: ...

class GetHistoryResponse(_message.Message):
    __slots__ = ("run_id", "status", "history_length", "records")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    HISTORY_LENGTH_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    status: str
    history_length: int
    records: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, run_id: _Optional[str] = ..., status: _Optional[str] = ..., history_length: _Optional[int] = ..., records: _Optional[_Iterable[bytes]] = ...) -> None: ...

class RegisterWorkflowTypesRequest(_message.Message):
    __slots__ = ("workflow_types", "worker_id", "sdk", "namespace", "request_id")
    WORKFLOW_TYPES_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    SDK_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    workflow_types: _containers.RepeatedScalarFieldContainer[str]
    worker_id: str
    sdk: str
    namespace: str
    request_id: str
    def __init__(self, workflow_types: _Optional[_Iterable[str]] = ..., worker_id: _Optional[str] = ..., sdk: _Optional[str] = ..., namespace: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class RegisterWorkflowTypesResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PollWorkflowTaskRequest(_message.Message):
    __slots__ = ("worker_id", "types", "task_queue", "namespace", "request_id", "max")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    TYPES_FIELD_NUMBER: _ClassVar[int]
    TASK_QUEUE_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    types: _containers.RepeatedScalarFieldContainer[str]
    task_queue: str
    namespace: str
    request_id: str
    max: int
    def __init__(self, worker_id: _Optional[str] = ..., types: _Optional[_Iterable[str]] = ..., task_queue: _Optional[str] = ..., namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., max: _Optional[int] = ...) -> None: ...

class WorkflowTask(_message.Message):
    __slots__ = ("workflow_id", "run_id", "workflow_type", "task_token", "history_length", "input", "started_ms", "traceparent", "tracestate", "suggest_continue_as_new_at", "steps", "signals", "cancel_requested_event_id", "cancel_requested_ms", "cancel_reason", "more")
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_TYPE_FIELD_NUMBER: _ClassVar[int]
    TASK_TOKEN_FIELD_NUMBER: _ClassVar[int]
    HISTORY_LENGTH_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    STARTED_MS_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    TRACESTATE_FIELD_NUMBER: _ClassVar[int]
    SUGGEST_CONTINUE_AS_NEW_AT_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    SIGNALS_FIELD_NUMBER: _ClassVar[int]
    CANCEL_REQUESTED_EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    CANCEL_REQUESTED_MS_FIELD_NUMBER: _ClassVar[int]
    CANCEL_REASON_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    workflow_id: str
    run_id: str
    workflow_type: str
    task_token: str
    history_length: int
    input: bytes
    started_ms: int
    traceparent: str
    tracestate: str
    suggest_continue_as_new_at: int
    steps: _containers.RepeatedCompositeFieldContainer[Step]
    signals: _containers.RepeatedCompositeFieldContainer[Signal]
    cancel_requested_event_id: int
    cancel_requested_ms: int
    cancel_reason: str
    more: _containers.RepeatedCompositeFieldContainer[WorkflowTask]
    def __init__(self, workflow_id: _Optional[str] = ..., run_id: _Optional[str] = ..., workflow_type: _Optional[str] = ..., task_token: _Optional[str] = ..., history_length: _Optional[int] = ..., input: _Optional[bytes] = ..., started_ms: _Optional[int] = ..., traceparent: _Optional[str] = ..., tracestate: _Optional[str] = ..., suggest_continue_as_new_at: _Optional[int] = ..., steps: _Optional[_Iterable[_Union[Step, _Mapping]]] = ..., signals: _Optional[_Iterable[_Union[Signal, _Mapping]]] = ..., cancel_requested_event_id: _Optional[int] = ..., cancel_requested_ms: _Optional[int] = ..., cancel_reason: _Optional[str] = ..., more: _Optional[_Iterable[_Union[WorkflowTask, _Mapping]]] = ...) -> None: ...

class CompleteWorkflowTaskRequest(_message.Message):
    __slots__ = ("workflow_id", "task_token", "commands", "replay_error", "replay_error_kind", "namespace", "request_id", "eager")
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_TOKEN_FIELD_NUMBER: _ClassVar[int]
    COMMANDS_FIELD_NUMBER: _ClassVar[int]
    REPLAY_ERROR_FIELD_NUMBER: _ClassVar[int]
    REPLAY_ERROR_KIND_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    EAGER_FIELD_NUMBER: _ClassVar[int]
    workflow_id: str
    task_token: str
    commands: _containers.RepeatedCompositeFieldContainer[Command]
    replay_error: str
    replay_error_kind: str
    namespace: str
    request_id: str
    eager: EagerPoll
    def __init__(self, workflow_id: _Optional[str] = ..., task_token: _Optional[str] = ..., commands: _Optional[_Iterable[_Union[Command, _Mapping]]] = ..., replay_error: _Optional[str] = ..., replay_error_kind: _Optional[str] = ..., namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., eager: _Optional[_Union[EagerPoll, _Mapping]] = ...) -> None: ...

class CompleteWorkflowTaskResponse(_message.Message):
    __slots__ = ("activity_tasks",)
    ACTIVITY_TASKS_FIELD_NUMBER: _ClassVar[int]
    activity_tasks: _containers.RepeatedCompositeFieldContainer[Task]
    def __init__(self, activity_tasks: _Optional[_Iterable[_Union[Task, _Mapping]]] = ...) -> None: ...

class Command(_message.Message):
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
    __slots__ = ("step_name", "sequence", "input", "retry_policy", "task_queue", "start_to_close_timeout_ms", "schedule_to_close_timeout_ms", "schedule_to_start_timeout_ms", "priority")
    STEP_NAME_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    RETRY_POLICY_FIELD_NUMBER: _ClassVar[int]
    TASK_QUEUE_FIELD_NUMBER: _ClassVar[int]
    START_TO_CLOSE_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_TO_CLOSE_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_TO_START_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    step_name: str
    sequence: int
    input: bytes
    retry_policy: ActivityRetry
    task_queue: str
    start_to_close_timeout_ms: int
    schedule_to_close_timeout_ms: int
    schedule_to_start_timeout_ms: int
    priority: int
    def __init__(self, step_name: _Optional[str] = ..., sequence: _Optional[int] = ..., input: _Optional[bytes] = ..., retry_policy: _Optional[_Union[ActivityRetry, _Mapping]] = ..., task_queue: _Optional[str] = ..., start_to_close_timeout_ms: _Optional[int] = ..., schedule_to_close_timeout_ms: _Optional[int] = ..., schedule_to_start_timeout_ms: _Optional[int] = ..., priority: _Optional[int] = ...) -> None: ...

class ActivityRetry(_message.Message):
    __slots__ = ("max_attempts", "initial_backoff_ms", "max_backoff_ms", "backoff_coefficient", "non_retryable_error_types", "jitter")
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    INITIAL_BACKOFF_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_BACKOFF_MS_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_COEFFICIENT_FIELD_NUMBER: _ClassVar[int]
    NON_RETRYABLE_ERROR_TYPES_FIELD_NUMBER: _ClassVar[int]
    JITTER_FIELD_NUMBER: _ClassVar[int]
    max_attempts: int
    initial_backoff_ms: int
    max_backoff_ms: int
    backoff_coefficient: float
    non_retryable_error_types: _containers.RepeatedScalarFieldContainer[str]
    jitter: float
    def __init__(self, max_attempts: _Optional[int] = ..., initial_backoff_ms: _Optional[int] = ..., max_backoff_ms: _Optional[int] = ..., backoff_coefficient: _Optional[float] = ..., non_retryable_error_types: _Optional[_Iterable[str]] = ..., jitter: _Optional[float] = ...) -> None: ...

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
    parent_close_policy: ParentClosePolicy
    def __init__(self, step_name: _Optional[str] = ..., sequence: _Optional[int] = ..., workflow_type: _Optional[str] = ..., workflow_id: _Optional[str] = ..., input: _Optional[bytes] = ..., task_queue: _Optional[str] = ..., parent_close_policy: _Optional[_Union[ParentClosePolicy, str]] = ...) -> None: ...

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
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: AttributeValue
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[AttributeValue, _Mapping]] = ...) -> None: ...
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    attributes: _containers.MessageMap[str, AttributeValue]
    def __init__(self, attributes: _Optional[_Mapping[str, AttributeValue]] = ...) -> None: ...

class Namespace(_message.Message):
    __slots__ = ("name", "retention_ms", "created_ms", "max_open_runs", "starts_per_second")
    NAME_FIELD_NUMBER: _ClassVar[int]
    RETENTION_MS_FIELD_NUMBER: _ClassVar[int]
    CREATED_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_OPEN_RUNS_FIELD_NUMBER: _ClassVar[int]
    STARTS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    name: str
    retention_ms: int
    created_ms: int
    max_open_runs: int
    starts_per_second: int
    def __init__(self, name: _Optional[str] = ..., retention_ms: _Optional[int] = ..., created_ms: _Optional[int] = ..., max_open_runs: _Optional[int] = ..., starts_per_second: _Optional[int] = ...) -> None: ...

class CreateNamespaceRequest(_message.Message):
    __slots__ = ("name", "retention_ms", "request_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    RETENTION_MS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    retention_ms: int
    request_id: str
    def __init__(self, name: _Optional[str] = ..., retention_ms: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class CreateNamespaceResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class UpdateNamespaceRequest(_message.Message):
    __slots__ = ("name", "retention_ms", "request_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    RETENTION_MS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    retention_ms: int
    request_id: str
    def __init__(self, name: _Optional[str] = ..., retention_ms: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class UpdateNamespaceResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SetNamespaceQuotaRequest(_message.Message):
    __slots__ = ("name", "max_open_runs", "starts_per_second", "request_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MAX_OPEN_RUNS_FIELD_NUMBER: _ClassVar[int]
    STARTS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    max_open_runs: int
    starts_per_second: int
    request_id: str
    def __init__(self, name: _Optional[str] = ..., max_open_runs: _Optional[int] = ..., starts_per_second: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class SetNamespaceQuotaResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListNamespacesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListNamespacesResponse(_message.Message):
    __slots__ = ("namespaces",)
    NAMESPACES_FIELD_NUMBER: _ClassVar[int]
    namespaces: _containers.RepeatedCompositeFieldContainer[Namespace]
    def __init__(self, namespaces: _Optional[_Iterable[_Union[Namespace, _Mapping]]] = ...) -> None: ...

class Token(_message.Message):
    __slots__ = ("id", "name", "role", "namespaces", "sees_payloads", "created_ms", "expires_ms", "revoked_ms", "parent", "status")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    NAMESPACES_FIELD_NUMBER: _ClassVar[int]
    SEES_PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    CREATED_MS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_MS_FIELD_NUMBER: _ClassVar[int]
    REVOKED_MS_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    role: Role
    namespaces: _containers.RepeatedScalarFieldContainer[str]
    sees_payloads: bool
    created_ms: int
    expires_ms: int
    revoked_ms: int
    parent: str
    status: str
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., role: _Optional[_Union[Role, str]] = ..., namespaces: _Optional[_Iterable[str]] = ..., sees_payloads: bool = ..., created_ms: _Optional[int] = ..., expires_ms: _Optional[int] = ..., revoked_ms: _Optional[int] = ..., parent: _Optional[str] = ..., status: _Optional[str] = ...) -> None: ...

class MintTokenRequest(_message.Message):
    __slots__ = ("name", "role", "namespaces", "sees_payloads", "lifetime_ms", "request_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    NAMESPACES_FIELD_NUMBER: _ClassVar[int]
    SEES_PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_MS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    role: Role
    namespaces: _containers.RepeatedScalarFieldContainer[str]
    sees_payloads: bool
    lifetime_ms: int
    request_id: str
    def __init__(self, name: _Optional[str] = ..., role: _Optional[_Union[Role, str]] = ..., namespaces: _Optional[_Iterable[str]] = ..., sees_payloads: bool = ..., lifetime_ms: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class MintTokenResponse(_message.Message):
    __slots__ = ("text", "token", "not_yet")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    NOT_YET_FIELD_NUMBER: _ClassVar[int]
    text: str
    token: Token
    not_yet: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, text: _Optional[str] = ..., token: _Optional[_Union[Token, _Mapping]] = ..., not_yet: _Optional[_Iterable[str]] = ...) -> None: ...

class ListTokensRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListTokensResponse(_message.Message):
    __slots__ = ("tokens",)
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    tokens: _containers.RepeatedCompositeFieldContainer[Token]
    def __init__(self, tokens: _Optional[_Iterable[_Union[Token, _Mapping]]] = ...) -> None: ...

class RevokeTokenRequest(_message.Message):
    __slots__ = ("id", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    request_id: str
    def __init__(self, id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class RevokeTokenResponse(_message.Message):
    __slots__ = ("applied_by", "not_yet")
    APPLIED_BY_FIELD_NUMBER: _ClassVar[int]
    NOT_YET_FIELD_NUMBER: _ClassVar[int]
    applied_by: _containers.RepeatedScalarFieldContainer[str]
    not_yet: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, applied_by: _Optional[_Iterable[str]] = ..., not_yet: _Optional[_Iterable[str]] = ...) -> None: ...

class ListAuditRequest(_message.Message):
    __slots__ = ("actor", "call", "namespace_name", "target", "outcome", "after_ms", "before_ms", "oldest_first", "limit", "cursor")
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_NAME_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    BEFORE_MS_FIELD_NUMBER: _ClassVar[int]
    OLDEST_FIRST_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    actor: str
    call: str
    namespace_name: str
    target: str
    outcome: str
    after_ms: int
    before_ms: int
    oldest_first: bool
    limit: int
    cursor: str
    def __init__(self, actor: _Optional[str] = ..., call: _Optional[str] = ..., namespace_name: _Optional[str] = ..., target: _Optional[str] = ..., outcome: _Optional[str] = ..., after_ms: _Optional[int] = ..., before_ms: _Optional[int] = ..., oldest_first: bool = ..., limit: _Optional[int] = ..., cursor: _Optional[str] = ...) -> None: ...

class ListAuditResponse(_message.Message):
    __slots__ = ("entries", "next_cursor")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[AuditEntry]
    next_cursor: str
    def __init__(self, entries: _Optional[_Iterable[_Union[AuditEntry, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class AuditEntry(_message.Message):
    __slots__ = ("id", "time_ms", "actor", "role", "node", "address", "token_id", "call", "namespace_name", "target", "run_id", "detail", "outcome")
    ID_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_NAME_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    id: str
    time_ms: int
    actor: str
    role: Role
    node: str
    address: str
    token_id: str
    call: str
    namespace_name: str
    target: str
    run_id: str
    detail: str
    outcome: str
    def __init__(self, id: _Optional[str] = ..., time_ms: _Optional[int] = ..., actor: _Optional[str] = ..., role: _Optional[_Union[Role, str]] = ..., node: _Optional[str] = ..., address: _Optional[str] = ..., token_id: _Optional[str] = ..., call: _Optional[str] = ..., namespace_name: _Optional[str] = ..., target: _Optional[str] = ..., run_id: _Optional[str] = ..., detail: _Optional[str] = ..., outcome: _Optional[str] = ...) -> None: ...

class WorkerMessage(_message.Message):
    __slots__ = ("id", "demand", "received", "complete_task", "complete_workflow_task", "heartbeat")
    ID_FIELD_NUMBER: _ClassVar[int]
    DEMAND_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_TASK_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_WORKFLOW_TASK_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    id: int
    demand: WorkerDemand
    received: BatchReceived
    complete_task: CompleteTaskRequest
    complete_workflow_task: CompleteWorkflowTaskRequest
    heartbeat: HeartbeatRequest
    def __init__(self, id: _Optional[int] = ..., demand: _Optional[_Union[WorkerDemand, _Mapping]] = ..., received: _Optional[_Union[BatchReceived, _Mapping]] = ..., complete_task: _Optional[_Union[CompleteTaskRequest, _Mapping]] = ..., complete_workflow_task: _Optional[_Union[CompleteWorkflowTaskRequest, _Mapping]] = ..., heartbeat: _Optional[_Union[HeartbeatRequest, _Mapping]] = ...) -> None: ...

class WorkerDemand(_message.Message):
    __slots__ = ("demand_id", "kind", "names", "task_queue", "worker_id", "in_flight", "received", "namespace")
    DEMAND_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    TASK_QUEUE_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    demand_id: str
    kind: TaskKind
    names: _containers.RepeatedScalarFieldContainer[str]
    task_queue: str
    worker_id: str
    in_flight: int
    received: int
    namespace: str
    def __init__(self, demand_id: _Optional[str] = ..., kind: _Optional[_Union[TaskKind, str]] = ..., names: _Optional[_Iterable[str]] = ..., task_queue: _Optional[str] = ..., worker_id: _Optional[str] = ..., in_flight: _Optional[int] = ..., received: _Optional[int] = ..., namespace: _Optional[str] = ...) -> None: ...

class BatchReceived(_message.Message):
    __slots__ = ("demand_id", "number")
    DEMAND_ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    demand_id: str
    number: int
    def __init__(self, demand_id: _Optional[str] = ..., number: _Optional[int] = ...) -> None: ...

class NodeMessage(_message.Message):
    __slots__ = ("id", "outcome", "tasks", "lease_ended")
    ID_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    LEASE_ENDED_FIELD_NUMBER: _ClassVar[int]
    id: int
    outcome: CallOutcome
    tasks: TaskBatch
    lease_ended: LeaseEnded
    def __init__(self, id: _Optional[int] = ..., outcome: _Optional[_Union[CallOutcome, _Mapping]] = ..., tasks: _Optional[_Union[TaskBatch, _Mapping]] = ..., lease_ended: _Optional[_Union[LeaseEnded, _Mapping]] = ...) -> None: ...

class CallOutcome(_message.Message):
    __slots__ = ("error", "complete_task", "complete_workflow_task")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_TASK_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_WORKFLOW_TASK_FIELD_NUMBER: _ClassVar[int]
    error: CallError
    complete_task: CompleteTaskResponse
    complete_workflow_task: CompleteWorkflowTaskResponse
    def __init__(self, error: _Optional[_Union[CallError, _Mapping]] = ..., complete_task: _Optional[_Union[CompleteTaskResponse, _Mapping]] = ..., complete_workflow_task: _Optional[_Union[CompleteWorkflowTaskResponse, _Mapping]] = ...) -> None: ...

class CallError(_message.Message):
    __slots__ = ("code", "message", "reason", "metadata")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    reason: str
    metadata: _containers.ScalarMap[str, str]
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ..., reason: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ...) -> None: ...

class TaskBatch(_message.Message):
    __slots__ = ("demand_id", "number", "activity_tasks", "workflow_tasks")
    DEMAND_ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ACTIVITY_TASKS_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_TASKS_FIELD_NUMBER: _ClassVar[int]
    demand_id: str
    number: int
    activity_tasks: _containers.RepeatedCompositeFieldContainer[Task]
    workflow_tasks: _containers.RepeatedCompositeFieldContainer[WorkflowTask]
    def __init__(self, demand_id: _Optional[str] = ..., number: _Optional[int] = ..., activity_tasks: _Optional[_Iterable[_Union[Task, _Mapping]]] = ..., workflow_tasks: _Optional[_Iterable[_Union[WorkflowTask, _Mapping]]] = ...) -> None: ...

class LeaseEnded(_message.Message):
    __slots__ = ("workflow_id", "token", "cancelled")
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    workflow_id: str
    token: str
    cancelled: bool
    def __init__(self, workflow_id: _Optional[str] = ..., token: _Optional[str] = ..., cancelled: bool = ...) -> None: ...
