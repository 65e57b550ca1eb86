"""Events: the facts of a run's history. Past participles; the names are public and for ever.

An event's meaning never changes; a new meaning is a new event. ``Event`` gives each its dense id
(from 1) and its log time.
"""

from __future__ import annotations

from dataclasses import dataclass

from raftflow.engine.retry import RetryPolicy

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowStarted:
    namespace: str
    workflow_id: str
    run_id: str
    workflow_type: str
    task_queue: str
    input: bytes
    execution_timeout_ms: int = 0
    traceparent: str = ""
    tracestate: str = ""
    format_version: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowCompleted:
    output: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowFailed:
    error: str
    error_type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowTerminated:
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowCancelled:
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowTimedOut:
    timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepScheduled:
    """An activity step. ``task_queue`` is resolved: never empty."""

    step_name: str
    sequence: int
    input: bytes
    retry: RetryPolicy
    task_queue: str
    start_to_close_timeout_ms: int = 0
    schedule_to_close_timeout_ms: int = 0
    schedule_to_start_timeout_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCompleted:
    """``attempt``, ``worker_id``, ``node`` and ``started_ms`` tell of the attempt that succeeded:
    grants have no events of their own."""

    sequence: int
    output: bytes
    attempt: int
    worker_id: str
    node: str
    started_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFailed:
    """The step's last attempt failed; retried attempts leave no event."""

    sequence: int
    error: str
    error_type: str
    non_retryable: bool
    attempt: int
    worker_id: str
    node: str
    started_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerStarted:
    step_name: str
    sequence: int
    delay_ms: int
    fire_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerFired:
    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalAwaited:
    step_name: str
    sequence: int
    signal_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalReceived:
    name: str
    payload: bytes
    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalConsumed:
    """The wait ``sequence`` took the signal that event ``signal_event_id`` recorded."""

    sequence: int
    signal_event_id: int


EventBody = (
    WorkflowStarted
    | WorkflowCompleted
    | WorkflowFailed
    | WorkflowTerminated
    | WorkflowCancelled
    | WorkflowTimedOut
    | StepScheduled
    | StepCompleted
    | StepFailed
    | TimerStarted
    | TimerFired
    | SignalAwaited
    | SignalReceived
    | SignalConsumed
)


@dataclass(frozen=True, slots=True)
class Event:
    event_id: int
    time_ms: int
    body: EventBody
