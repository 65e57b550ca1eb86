from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class HistoryEvent(_message.Message):
    __slots__ = ("event_id", "time_ms", "workflow_started", "workflow_completed", "workflow_failed", "workflow_terminated", "workflow_cancel_requested", "workflow_cancelled", "workflow_timed_out", "workflow_continued_as_new", "search_attributes_upserted", "step_scheduled", "step_completed", "step_failed", "step_cancelled", "timer_started", "timer_fired", "signal_awaited", "signal_received", "signal_consumed", "marker_recorded", "child_started", "child_completed", "child_failed")
    EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_STARTED_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_COMPLETED_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FAILED_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_TERMINATED_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_CANCEL_REQUESTED_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_CANCELLED_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_TIMED_OUT_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_CONTINUED_AS_NEW_FIELD_NUMBER: _ClassVar[int]
    SEARCH_ATTRIBUTES_UPSERTED_FIELD_NUMBER: _ClassVar[int]
    STEP_SCHEDULED_FIELD_NUMBER: _ClassVar[int]
    STEP_COMPLETED_FIELD_NUMBER: _ClassVar[int]
    STEP_FAILED_FIELD_NUMBER: _ClassVar[int]
    STEP_CANCELLED_FIELD_NUMBER: _ClassVar[int]
    TIMER_STARTED_FIELD_NUMBER: _ClassVar[int]
    TIMER_FIRED_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_AWAITED_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_RECEIVED_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_CONSUMED_FIELD_NUMBER: _ClassVar[int]
    MARKER_RECORDED_FIELD_NUMBER: _ClassVar[int]
    CHILD_STARTED_FIELD_NUMBER: _ClassVar[int]
    CHILD_COMPLETED_FIELD_NUMBER: _ClassVar[int]
    CHILD_FAILED_FIELD_NUMBER: _ClassVar[int]
    event_id: int
    time_ms: int
    workflow_started: WorkflowStarted
    workflow_completed: WorkflowCompleted
    workflow_failed: WorkflowFailed
    workflow_terminated: WorkflowTerminated
    workflow_cancel_requested: WorkflowCancelRequested
    workflow_cancelled: WorkflowCancelled
    workflow_timed_out: WorkflowTimedOut
    workflow_continued_as_new: WorkflowContinuedAsNew
    search_attributes_upserted: SearchAttributesUpserted
    step_scheduled: StepScheduled
    step_completed: StepCompleted
    step_failed: StepFailed
    step_cancelled: StepCancelled
    timer_started: TimerStarted
    timer_fired: TimerFired
    signal_awaited: SignalAwaited
    signal_received: SignalReceived
    signal_consumed: SignalConsumed
    marker_recorded: MarkerRecorded
    child_started: ChildStarted
    child_completed: ChildCompleted
    child_failed: ChildFailed
    def __init__(self, event_id: _Optional[int] = ..., time_ms: _Optional[int] = ..., workflow_started: _Optional[_Union[WorkflowStarted, _Mapping]] = ..., workflow_completed: _Optional[_Union[WorkflowCompleted, _Mapping]] = ..., workflow_failed: _Optional[_Union[WorkflowFailed, _Mapping]] = ..., workflow_terminated: _Optional[_Union[WorkflowTerminated, _Mapping]] = ..., workflow_cancel_requested: _Optional[_Union[WorkflowCancelRequested, _Mapping]] = ..., workflow_cancelled: _Optional[_Union[WorkflowCancelled, _Mapping]] = ..., workflow_timed_out: _Optional[_Union[WorkflowTimedOut, _Mapping]] = ..., workflow_continued_as_new: _Optional[_Union[WorkflowContinuedAsNew, _Mapping]] = ..., search_attributes_upserted: _Optional[_Union[SearchAttributesUpserted, _Mapping]] = ..., step_scheduled: _Optional[_Union[StepScheduled, _Mapping]] = ..., step_completed: _Optional[_Union[StepCompleted, _Mapping]] = ..., step_failed: _Optional[_Union[StepFailed, _Mapping]] = ..., step_cancelled: _Optional[_Union[StepCancelled, _Mapping]] = ..., timer_started: _Optional[_Union[TimerStarted, _Mapping]] = ..., timer_fired: _Optional[_Union[TimerFired, _Mapping]] = ..., signal_awaited: _Optional[_Union[SignalAwaited, _Mapping]] = ..., signal_received: _Optional[_Union[SignalReceived, _Mapping]] = ..., signal_consumed: _Optional[_Union[SignalConsumed, _Mapping]] = ..., marker_recorded: _Optional[_Union[MarkerRecorded, _Mapping]] = ..., child_started: _Optional[_Union[ChildStarted, _Mapping]] = ..., child_completed: _Optional[_Union[ChildCompleted, _Mapping]] = ..., child_failed: _Optional[_Union[ChildFailed, _Mapping]] = ...) -> None: ...

class RetryPolicy(_message.Message):
    __slots__ = ("max_attempts", "initial_backoff_ms", "max_backoff_ms", "backoff_coefficient_milli", "non_retryable_error_types", "jitter_milli", "jitter_seed")
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    INITIAL_BACKOFF_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_BACKOFF_MS_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_COEFFICIENT_MILLI_FIELD_NUMBER: _ClassVar[int]
    NON_RETRYABLE_ERROR_TYPES_FIELD_NUMBER: _ClassVar[int]
    JITTER_MILLI_FIELD_NUMBER: _ClassVar[int]
    JITTER_SEED_FIELD_NUMBER: _ClassVar[int]
    max_attempts: int
    initial_backoff_ms: int
    max_backoff_ms: int
    backoff_coefficient_milli: int
    non_retryable_error_types: _containers.RepeatedScalarFieldContainer[str]
    jitter_milli: int
    jitter_seed: int
    def __init__(self, max_attempts: _Optional[int] = ..., initial_backoff_ms: _Optional[int] = ..., max_backoff_ms: _Optional[int] = ..., backoff_coefficient_milli: _Optional[int] = ..., non_retryable_error_types: _Optional[_Iterable[str]] = ..., jitter_milli: _Optional[int] = ..., jitter_seed: _Optional[int] = ...) -> None: ...

class SearchAttribute(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class WorkflowStarted(_message.Message):
    __slots__ = ("format_version", "namespace", "workflow_id", "run_id", "workflow_type", "task_queue", "input", "execution_timeout_ms", "traceparent", "tracestate", "search_attributes", "memo", "continued_from_run_id", "parent_workflow_id", "parent_run_id", "parent_sequence")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_TYPE_FIELD_NUMBER: _ClassVar[int]
    TASK_QUEUE_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    TRACESTATE_FIELD_NUMBER: _ClassVar[int]
    SEARCH_ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    MEMO_FIELD_NUMBER: _ClassVar[int]
    CONTINUED_FROM_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    namespace: str
    workflow_id: str
    run_id: str
    workflow_type: str
    task_queue: str
    input: bytes
    execution_timeout_ms: int
    traceparent: str
    tracestate: str
    search_attributes: _containers.RepeatedCompositeFieldContainer[SearchAttribute]
    memo: str
    continued_from_run_id: str
    parent_workflow_id: str
    parent_run_id: str
    parent_sequence: int
    def __init__(self, format_version: _Optional[int] = ..., namespace: _Optional[str] = ..., workflow_id: _Optional[str] = ..., run_id: _Optional[str] = ..., workflow_type: _Optional[str] = ..., task_queue: _Optional[str] = ..., input: _Optional[bytes] = ..., execution_timeout_ms: _Optional[int] = ..., traceparent: _Optional[str] = ..., tracestate: _Optional[str] = ..., search_attributes: _Optional[_Iterable[_Union[SearchAttribute, _Mapping]]] = ..., memo: _Optional[str] = ..., continued_from_run_id: _Optional[str] = ..., parent_workflow_id: _Optional[str] = ..., parent_run_id: _Optional[str] = ..., parent_sequence: _Optional[int] = ...) -> None: ...

class WorkflowCompleted(_message.Message):
    __slots__ = ("output",)
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    output: bytes
    def __init__(self, output: _Optional[bytes] = ...) -> None: ...

class WorkflowFailed(_message.Message):
    __slots__ = ("error", "error_type")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ERROR_TYPE_FIELD_NUMBER: _ClassVar[int]
    error: str
    error_type: str
    def __init__(self, error: _Optional[str] = ..., error_type: _Optional[str] = ...) -> None: ...

class WorkflowTerminated(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class WorkflowCancelled(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class WorkflowTimedOut(_message.Message):
    __slots__ = ("timeout_ms",)
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    timeout_ms: int
    def __init__(self, timeout_ms: _Optional[int] = ...) -> None: ...

class WorkflowCancelRequested(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class WorkflowContinuedAsNew(_message.Message):
    __slots__ = ("new_run_id", "workflow_type", "task_queue", "input", "execution_timeout_ms")
    NEW_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_TYPE_FIELD_NUMBER: _ClassVar[int]
    TASK_QUEUE_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    new_run_id: str
    workflow_type: str
    task_queue: str
    input: bytes
    execution_timeout_ms: int
    def __init__(self, new_run_id: _Optional[str] = ..., workflow_type: _Optional[str] = ..., task_queue: _Optional[str] = ..., input: _Optional[bytes] = ..., execution_timeout_ms: _Optional[int] = ...) -> None: ...

class SearchAttributesUpserted(_message.Message):
    __slots__ = ("attributes",)
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    attributes: _containers.RepeatedCompositeFieldContainer[SearchAttribute]
    def __init__(self, attributes: _Optional[_Iterable[_Union[SearchAttribute, _Mapping]]] = ...) -> None: ...

class StepScheduled(_message.Message):
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
    retry: RetryPolicy
    task_queue: str
    start_to_close_timeout_ms: int
    schedule_to_close_timeout_ms: int
    schedule_to_start_timeout_ms: int
    priority: int
    def __init__(self, step_name: _Optional[str] = ..., sequence: _Optional[int] = ..., input: _Optional[bytes] = ..., retry: _Optional[_Union[RetryPolicy, _Mapping]] = ..., task_queue: _Optional[str] = ..., start_to_close_timeout_ms: _Optional[int] = ..., schedule_to_close_timeout_ms: _Optional[int] = ..., schedule_to_start_timeout_ms: _Optional[int] = ..., priority: _Optional[int] = ...) -> None: ...

class StepCompleted(_message.Message):
    __slots__ = ("sequence", "output", "attempt", "worker_id", "node", "started_ms")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    STARTED_MS_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    output: bytes
    attempt: int
    worker_id: str
    node: str
    started_ms: int
    def __init__(self, sequence: _Optional[int] = ..., output: _Optional[bytes] = ..., attempt: _Optional[int] = ..., worker_id: _Optional[str] = ..., node: _Optional[str] = ..., started_ms: _Optional[int] = ...) -> None: ...

class StepFailed(_message.Message):
    __slots__ = ("sequence", "error", "error_type", "non_retryable", "attempt", "worker_id", "node", "started_ms")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ERROR_TYPE_FIELD_NUMBER: _ClassVar[int]
    NON_RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    STARTED_MS_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    error: str
    error_type: str
    non_retryable: bool
    attempt: int
    worker_id: str
    node: str
    started_ms: int
    def __init__(self, sequence: _Optional[int] = ..., error: _Optional[str] = ..., error_type: _Optional[str] = ..., non_retryable: bool = ..., attempt: _Optional[int] = ..., worker_id: _Optional[str] = ..., node: _Optional[str] = ..., started_ms: _Optional[int] = ...) -> None: ...

class StepCancelled(_message.Message):
    __slots__ = ("sequence", "reason")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    reason: str
    def __init__(self, sequence: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class MarkerRecorded(_message.Message):
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

class ChildStarted(_message.Message):
    __slots__ = ("step_name", "sequence", "workflow_type", "workflow_id", "task_queue", "input", "parent_close_policy")
    STEP_NAME_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_TYPE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_QUEUE_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    PARENT_CLOSE_POLICY_FIELD_NUMBER: _ClassVar[int]
    step_name: str
    sequence: int
    workflow_type: str
    workflow_id: str
    task_queue: str
    input: bytes
    parent_close_policy: int
    def __init__(self, step_name: _Optional[str] = ..., sequence: _Optional[int] = ..., workflow_type: _Optional[str] = ..., workflow_id: _Optional[str] = ..., task_queue: _Optional[str] = ..., input: _Optional[bytes] = ..., parent_close_policy: _Optional[int] = ...) -> None: ...

class ChildCompleted(_message.Message):
    __slots__ = ("sequence", "output", "run_id")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    output: bytes
    run_id: str
    def __init__(self, sequence: _Optional[int] = ..., output: _Optional[bytes] = ..., run_id: _Optional[str] = ...) -> None: ...

class ChildFailed(_message.Message):
    __slots__ = ("sequence", "error", "error_type", "run_id")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ERROR_TYPE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    error: str
    error_type: str
    run_id: str
    def __init__(self, sequence: _Optional[int] = ..., error: _Optional[str] = ..., error_type: _Optional[str] = ..., run_id: _Optional[str] = ...) -> None: ...

class TimerStarted(_message.Message):
    __slots__ = ("step_name", "sequence", "delay_ms", "fire_at_ms")
    STEP_NAME_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    FIRE_AT_MS_FIELD_NUMBER: _ClassVar[int]
    step_name: str
    sequence: int
    delay_ms: int
    fire_at_ms: int
    def __init__(self, step_name: _Optional[str] = ..., sequence: _Optional[int] = ..., delay_ms: _Optional[int] = ..., fire_at_ms: _Optional[int] = ...) -> None: ...

class TimerFired(_message.Message):
    __slots__ = ("sequence",)
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    def __init__(self, sequence: _Optional[int] = ...) -> None: ...

class SignalAwaited(_message.Message):
    __slots__ = ("step_name", "sequence", "signal_name")
    STEP_NAME_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_NAME_FIELD_NUMBER: _ClassVar[int]
    step_name: str
    sequence: int
    signal_name: str
    def __init__(self, step_name: _Optional[str] = ..., sequence: _Optional[int] = ..., signal_name: _Optional[str] = ...) -> None: ...

class SignalReceived(_message.Message):
    __slots__ = ("name", "payload", "request_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    payload: bytes
    request_id: str
    def __init__(self, name: _Optional[str] = ..., payload: _Optional[bytes] = ..., request_id: _Optional[str] = ...) -> None: ...

class SignalConsumed(_message.Message):
    __slots__ = ("sequence", "signal_event_id")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    signal_event_id: int
    def __init__(self, sequence: _Optional[int] = ..., signal_event_id: _Optional[int] = ...) -> None: ...
