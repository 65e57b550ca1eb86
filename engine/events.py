"""Events: the facts of a run's history. Past participles; the names are public and for ever.

An event's meaning never changes; a new meaning is a new event. ``Event`` gives each its dense id
(from 1) and its log time.
"""

from __future__ import annotations

from dataclasses import dataclass

from raftflow.engine.commands import Attributes, ParentClosePolicy
from raftflow.engine.limits import USUAL_PRIORITY
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
    search_attributes: Attributes = ()
    memo: str = ""
    continued_from_run_id: str = ""  # the run before it in a chain of continue-as-new
    parent_workflow_id: str = ""  # of a child, with the run and the step that started it
    parent_run_id: str = ""
    parent_sequence: int = 0


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
class WorkflowCancelRequested:
    """A graceful cancel: the code is told."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowContinuedAsNew:
    """The run ended and ``new_run_id`` began, with these."""

    new_run_id: str
    workflow_type: str
    task_queue: str
    input: bytes
    execution_timeout_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchAttributesUpserted:
    """A value of JSON null removed the attribute."""

    attributes: Attributes


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
    priority: int = USUAL_PRIORITY


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
class StepCancelled:
    """By the workflow's own code. Steps that end with their run leave no event."""

    sequence: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerRecorded:
    step_name: str
    sequence: int
    marker: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildStarted:
    """The parent's code started a child. ``workflow_id`` is resolved: never empty."""

    step_name: str
    sequence: int
    workflow_type: str
    workflow_id: str
    task_queue: str
    input: bytes
    parent_close_policy: ParentClosePolicy = ParentClosePolicy.TERMINATE


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildCompleted:
    """``run_id``: the last one of the child's chain."""

    sequence: int
    output: bytes
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildFailed:
    """The child ended otherwise, or could not be started (then ``run_id`` is "")."""

    sequence: int
    error: str
    error_type: str
    run_id: str


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
    | WorkflowCancelRequested
    | WorkflowCancelled
    | WorkflowTimedOut
    | WorkflowContinuedAsNew
    | SearchAttributesUpserted
    | StepScheduled
    | StepCompleted
    | StepFailed
    | StepCancelled
    | MarkerRecorded
    | ChildStarted
    | ChildCompleted
    | ChildFailed
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
