"""Views of a run: what the API shows and what workers are handed. Pure and frozen: a view stays as
it was when the run moves on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from raftflow.engine import trace
from raftflow.engine.commands import Attributes
from raftflow.engine.decide.activity import lost
from raftflow.engine.decide.context import step_at
from raftflow.engine.limits import Limits
from raftflow.engine.state import (
    Run,
    RunStatus,
    Signal,
    Step,
    StepKind,
    StepStatus,
    Task,
    TaskState,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepView:
    """One step. Zero times and ids mean "not yet". ``fire_at_ms`` is a timer's, ``signal_name`` a
    wait's, ``marker`` a marker's; the workflow is a child's; the rest is an activity's."""

    sequence: int
    kind: StepKind
    name: str
    status: StepStatus
    scheduled_event_id: int
    scheduled_ms: int
    resolved_event_id: int
    resolved_ms: int
    output: bytes
    error: str
    error_type: str
    non_retryable: bool
    fire_at_ms: int
    signal_name: str
    task_queue: str
    attempts: int
    last_error: str
    task: TaskState
    worker_id: str
    node: str
    leased_ms: int
    retry_at_ms: int
    priority: int
    marker: str
    workflow_type: str
    workflow_id: str
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitView:
    """One thing that an open run waits for. ``kind``: WORKFLOW_TASK (``task`` says whether it is
    queued, out with a worker, or pausing), ACTIVITY likewise, TIMER, SIGNAL, CHILD. ``sequence`` 0
    is the workflow task; ``due_ms`` is when a timer or a pause ends. ``arrived``: the step has its
    result, which the code will see when the decision that is out has ended. ``refused``: why the
    last answer to the workflow task was not taken; ``held``: how many facts wait for it to end."""

    kind: str
    step_name: str
    sequence: int
    task: TaskState
    task_queue: str = ""
    worker_id: str = ""
    attempt: int = 0
    signal_name: str = ""
    due_ms: int = 0
    arrived: bool = False
    refused: str = ""
    held: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    namespace: str
    workflow_id: str
    run_id: str
    workflow_type: str
    task_queue: str
    status: RunStatus
    history_length: int
    history_bytes: int
    input: bytes
    output: bytes
    error: str
    error_type: str
    started_ms: int
    updated_ms: int
    closed_ms: int
    execution_timeout_ms: int
    suspended_reason: str
    search_attributes: Attributes
    memo: str
    continued_from_run_id: str
    continued_to_run_id: str
    parent_workflow_id: str
    parent_run_id: str
    parent_sequence: int
    cancel_requested_event_id: int  # 0: nobody asked the code to cancel
    cancel_requested_ms: int
    cancel_reason: str
    arrivals: int  # facts that join the history when the decision that is out has ended
    steps: tuple[StepView, ...]
    signals: tuple[Signal, ...]
    waiting_on: tuple[WaitView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionTask:
    """A workflow task as a worker gets it. ``steps[n - 1]`` has sequence n; ``signals`` are those
    that no wait took."""

    namespace: str
    workflow_id: str
    run_id: str
    workflow_type: str
    task_queue: str
    token: str
    attempt: int
    timeout_ms: int
    history_length: int
    input: bytes
    started_ms: int
    traceparent: str
    tracestate: str
    suggest_continue_as_new_at: int
    search_attributes: Attributes
    memo: str
    continued_from_run_id: str
    parent_workflow_id: str
    parent_run_id: str
    parent_sequence: int
    cancel_requested_event_id: int
    cancel_requested_ms: int
    cancel_reason: str
    steps: tuple[StepView, ...]
    signals: tuple[Signal, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityTask:
    namespace: str
    workflow_id: str
    run_id: str
    workflow_type: str
    task_queue: str
    step_name: str
    sequence: int
    attempt: int
    input: bytes
    token: str
    lease_duration_ms: int
    start_to_close_timeout_ms: int
    heartbeat_details: bytes
    scheduled_ms: int
    started_ms: int
    traceparent: str
    tracestate: str


@dataclass(frozen=True, slots=True)
class LeaseFate:
    """Whether an activity's lease is held; if not, why, and whether its work is still wanted."""

    held: bool
    cancelled: bool
    message: str


def describe_run(run: Run, all_signals: Iterable[Signal]) -> RunView:
    """The run with all its steps and all its signals, taken ones too."""
    return RunView(
        namespace=run.key.namespace,
        workflow_id=run.key.workflow_id,
        run_id=run.key.run_id,
        workflow_type=run.workflow_type,
        task_queue=run.task_queue,
        status=run.status,
        history_length=run.history_length,
        history_bytes=run.history_bytes,
        input=run.input,
        output=run.output,
        error=run.error,
        error_type=run.error_type,
        started_ms=run.started_ms,
        updated_ms=run.updated_ms,
        closed_ms=run.closed_ms,
        execution_timeout_ms=run.execution_timeout_ms,
        suspended_reason=run.suspended_reason,
        search_attributes=run.search_attributes,
        memo=run.memo,
        continued_from_run_id=run.continued_from_run_id,
        continued_to_run_id=run.continued_to_run_id,
        parent_workflow_id=run.parent_workflow_id,
        parent_run_id=run.parent_run_id,
        parent_sequence=run.parent_sequence,
        cancel_requested_event_id=run.cancel_requested_event_id,
        cancel_requested_ms=run.cancel_requested_ms,
        cancel_reason=run.cancel_reason,
        arrivals=len(run.arrivals),
        steps=tuple([step_view(step) for step in run.steps]),
        signals=tuple(all_signals),
        waiting_on=waiting_on(run),
    )


def waiting_on(run: Run) -> tuple[WaitView, ...]:
    """What could wake an open run, the workflow task first, then steps by sequence."""
    if not run.open:
        return ()
    waits = []
    if run.decision.state is not TaskState.NONE:
        decision = _task_wait("WORKFLOW_TASK", "", 0, run.task_queue, run.decision)
        waits.append(replace(decision, refused=run.decision_refusal, held=len(run.arrivals)))
    waits += [_wait(step) for step in run.steps if step.status is StepStatus.SCHEDULED]
    return tuple(waits)


def decision_task(run: Run, limits: Limits) -> DecisionTask:
    """The run's workflow task, which is out with a worker."""
    return DecisionTask(
        namespace=run.key.namespace,
        workflow_id=run.key.workflow_id,
        run_id=run.key.run_id,
        workflow_type=run.workflow_type,
        task_queue=run.task_queue,
        token=run.decision.token,
        attempt=run.decision.attempt,
        timeout_ms=run.decision.duration_ms,
        history_length=run.history_length,
        input=run.input,
        started_ms=run.started_ms,
        traceparent=run.traceparent,
        tracestate=run.tracestate,
        suggest_continue_as_new_at=limits.suggest_continue_as_new_at,
        search_attributes=run.search_attributes,
        memo=run.memo,
        continued_from_run_id=run.continued_from_run_id,
        parent_workflow_id=run.parent_workflow_id,
        parent_run_id=run.parent_run_id,
        parent_sequence=run.parent_sequence,
        cancel_requested_event_id=run.cancel_requested_event_id,
        cancel_requested_ms=run.cancel_requested_ms,
        cancel_reason=run.cancel_reason,
        steps=tuple([step_view(step) for step in run.steps]),
        signals=tuple(run.signals.values()),
    )


def activity_task(run: Run, step: Step) -> ActivityTask:
    """An activity's task, which is out with a worker."""
    return ActivityTask(
        namespace=run.key.namespace,
        workflow_id=run.key.workflow_id,
        run_id=run.key.run_id,
        workflow_type=run.workflow_type,
        task_queue=step.task_queue,
        step_name=step.name,
        sequence=step.sequence,
        attempt=step.attempts,
        input=step.input,
        token=step.task.token,
        lease_duration_ms=step.task.duration_ms,
        start_to_close_timeout_ms=step.start_to_close_timeout_ms,
        heartbeat_details=step.heartbeat_details,
        scheduled_ms=step.scheduled_ms,
        started_ms=step.task.leased_ms,
        traceparent=trace.of_step(run.traceparent, run.key.run_id, step.sequence),
        tracestate=run.tracestate,
    )


def lease_fate(run: Run | None, sequence: int, token: str) -> LeaseFate:
    """What a worker that beats for ``token`` must hear."""
    step = None if run is None else step_at(run, sequence)
    if step is not None and token and step.task.token == token:
        return LeaseFate(True, False, "")
    rejection = lost(run, step)
    return LeaseFate(False, rejection.cancelled, rejection.message)


def step_view(step: Step) -> StepView:
    task = step.task
    return StepView(
        sequence=step.sequence,
        kind=step.kind,
        name=step.name,
        status=step.status,
        scheduled_event_id=step.scheduled_event_id,
        scheduled_ms=step.scheduled_ms,
        resolved_event_id=step.resolved_event_id,
        resolved_ms=step.resolved_ms,
        output=step.output,
        error=step.error,
        error_type=step.error_type,
        non_retryable=step.non_retryable,
        fire_at_ms=step.fire_at_ms,
        signal_name=step.signal_name,
        task_queue=step.task_queue,
        attempts=step.attempts,
        last_error=step.last_error,
        task=task.state,
        worker_id=task.worker_id,
        node=task.node,
        leased_ms=task.leased_ms,
        retry_at_ms=task.backoff_until_ms,
        priority=step.priority,
        marker=step.marker,
        workflow_type=step.workflow_type,
        workflow_id=step.workflow_id,
        run_id=step.run_id,
    )


def _wait(step: Step) -> WaitView:
    if step.kind is StepKind.ACTIVITY:
        wait = _task_wait("ACTIVITY", step.name, step.sequence, step.task_queue, step.task)
        return replace(wait, arrived=True) if step.arrived else wait
    return WaitView(
        kind=step.kind.name,
        step_name=step.name,
        sequence=step.sequence,
        task=TaskState.NONE,
        signal_name=step.signal_name,
        due_ms=step.fire_at_ms,
        arrived=step.arrived,
    )


def _task_wait(kind: str, name: str, sequence: int, task_queue: str, task: Task) -> WaitView:
    return WaitView(
        kind=kind,
        step_name=name,
        sequence=sequence,
        task=task.state,
        task_queue=task_queue,
        worker_id=task.worker_id,
        attempt=task.attempt,
        due_ms=task.backoff_until_ms,
    )
