"""Views of a run: what the API shows and what workers are handed. Pure and frozen: a view stays as
it was when the run moves on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from raftflow.engine import trace
from raftflow.engine.decide.activity import lost
from raftflow.engine.decide.context import step_at
from raftflow.engine.limits import Limits
from raftflow.engine.state import (
    Run,
    Signal,
    Step,
    StepKind,
    StepStatus,
    Task,
    TaskState,
)


class OpenStep(NamedTuple):
    """A step without its result, as it is when a task is handed out. (A tuple, since a run may have
    thousands of them, and every one is made for every task.)"""

    sequence: int
    kind: StepKind
    name: str
    attempts: int
    workflow_type: str
    workflow_id: str
    run_id: str
    status: StepStatus = StepStatus.SCHEDULED
    output: bytes = b""
    error: str = ""
    error_type: str = ""
    non_retryable: bool = False
    resolved_event_id: int = 0
    resolved_ms: int = 0
    marker: str = ""


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
class DecisionTask:
    """A workflow task as a worker gets it. ``steps[n - 1]`` has sequence n; one that has its result
    changes no more and stands here itself. ``signals`` are those that no wait took."""

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
    cancel_requested_event_id: int
    cancel_requested_ms: int
    cancel_reason: str
    steps: tuple[Step | OpenStep, ...]
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
        cancel_requested_event_id=run.cancel_requested_event_id,
        cancel_requested_ms=run.cancel_requested_ms,
        cancel_reason=run.cancel_reason,
        steps=tuple([_open(s) if s.status is StepStatus.SCHEDULED else s for s in run.steps]),
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


def _open(step: Step) -> OpenStep:
    return OpenStep(
        step.sequence,
        step.kind,
        step.name,
        step.attempts,
        step.workflow_type,
        step.workflow_id,
        step.run_id,
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
