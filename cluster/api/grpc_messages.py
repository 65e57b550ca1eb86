"""The messages of the gRPC API as engine commands and views. The same checks, the same field names
in complaints as over JSON; the wire has seen to types and unknown fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from raftflow.cluster.api.decisions import MAX_SEQUENCE, coefficient_milli, policy_of
from raftflow.cluster.api.handlers.common import new_request_id
from raftflow.cluster.api.handlers.runs import DescribedRun
from raftflow.cluster.api.limits import (
    DEFAULT_LIST_LIMIT,
    MAX_ATTEMPTS,
    MAX_COMMANDS,
    MAX_DURATION_MS,
    MAX_HISTORY_LIMIT,
    MAX_LIST_LIMIT,
    MAX_NAMES,
    MAX_OFFSET,
    MAX_POLL_MS,
    MAX_TASKS_PER_POLL,
    check_id,
    check_payload,
    check_poll_request,
    check_sentence,
    check_types,
)
from raftflow.cluster.api.status import ApiError
from raftflow.cluster.api.views import wait_detail, wait_since_ms
from raftflow.cluster.config import Config
from raftflow.cluster.dispatch import Poll
from raftflow.cluster.store.views import RunFilter, RunPage, RunSummary
from raftflow.engine.commands import (
    AwaitSignal,
    CancelRun,
    CompleteActivity,
    CompleteDecision,
    CompleteWorkflow,
    FailWorkflow,
    IdConflictPolicy,
    IdReusePolicy,
    RegisterTypes,
    ScheduleActivity,
    SignalRun,
    StartRun,
    StartTimer,
    TerminateRun,
    WorkflowCommand,
)
from raftflow.engine.describe import ActivityTask, DecisionTask, StepView, waiting_on
from raftflow.engine.ids import DEFAULT_TASK_QUEUE, RunKey
from raftflow.engine.retry import NO_RETRY, RetryPolicy
from raftflow.engine.state import Run, RunStatus, Signal, Step
from raftflow.proto.workflow.v1 import service_pb2 as pb


def _number(field: str, value: int, *, most: int = MAX_DURATION_MS, least: int = 0) -> int:
    if not least <= value <= most:
        raise ApiError("INVALID_FIELD", f"{field} must be {least} to {most}")
    return value


def _optional_id(field: str, value: str, default: str = "") -> str:
    return check_id(field, value) if value else default


def _request_id(request: Any) -> str:
    return _optional_id("request_id", request.request_id) or new_request_id()


def run_of(request: Any) -> tuple[str, str]:
    return check_id("workflow_id", request.workflow_id), _optional_id("run_id", request.run_id)


# ---- runs ---------------------------------------------------------------------------------------


def start(
    request: pb.StartWorkflowRequest, namespace: str, metadata: Mapping[str, str], config: Config
) -> StartRun:
    return StartRun(
        namespace=namespace,
        workflow_id=_optional_id("workflow_id", request.workflow_id),
        run_id="",
        workflow_type=check_id("type", request.type),
        task_queue=_optional_id("task_queue", request.task_queue, DEFAULT_TASK_QUEUE),
        input=check_payload("input", request.input, config.limits.payload_bytes),
        execution_timeout_ms=_number("execution_timeout_ms", request.execution_timeout_ms),
        id_reuse_policy=_member("id_reuse_policy", IdReusePolicy, request.id_reuse_policy),
        id_conflict_policy=_member(
            "id_conflict_policy", IdConflictPolicy, request.id_conflict_policy
        ),
        request_id=_request_id(request),
        traceparent=request.traceparent or metadata.get("traceparent", ""),
        tracestate=request.tracestate or metadata.get("tracestate", ""),
    )


def _member(field: str, kinds: Any, value: int) -> Any:
    try:
        return kinds(value)
    except ValueError:
        names = ", ".join(kinds.__members__)
        raise ApiError("INVALID_FIELD", f"{field} must be one of {names}") from None


def signal(request: pb.SignalWorkflowRequest, namespace: str, config: Config) -> SignalRun:
    workflow_id, run_id = run_of(request)
    return SignalRun(
        namespace=namespace,
        workflow_id=workflow_id,
        run_id=run_id,
        name=check_id("name", request.name),
        payload=check_payload("payload", request.payload, config.limits.payload_bytes),
        request_id=_request_id(request),
    )


def terminate(request: pb.TerminateWorkflowRequest, namespace: str) -> TerminateRun:
    workflow_id, run_id = run_of(request)
    return TerminateRun(
        namespace=namespace,
        workflow_id=workflow_id,
        run_id=run_id,
        reason=check_sentence("reason", request.reason),
        request_id=_request_id(request),
    )


def cancel(request: pb.CancelWorkflowRequest, namespace: str) -> CancelRun:
    if request.graceful:
        raise ApiError("NOT_SUPPORTED", "graceful cancellation is not supported yet")
    workflow_id, run_id = run_of(request)
    return CancelRun(
        namespace=namespace,
        workflow_id=workflow_id,
        run_id=run_id,
        reason=check_sentence("reason", request.reason),
        request_id=_request_id(request),
    )


def run_filter(request: pb.ListWorkflowsRequest, namespace: str) -> RunFilter:
    return RunFilter(
        namespace=namespace,
        statuses=tuple(statuses(request.status)),
        query=request.q,
        workflow_type=_optional_id("type", request.type),
        task_queue=_optional_id("task_queue", request.task_queue),
        started_after_ms=request.started_after_ms or None,
        started_before_ms=request.started_before_ms or None,
        limit=_number("limit", request.limit, most=MAX_LIST_LIMIT) or DEFAULT_LIST_LIMIT,
        offset=_number("offset", request.offset, most=MAX_OFFSET),
        cursor=request.cursor,
    )


def statuses(names: Iterable[str]) -> Iterable[RunStatus]:
    for name in names:
        status = RunStatus.__members__.get(name.upper())
        if status is None:
            known = ", ".join(RunStatus.__members__)
            raise ApiError("INVALID_FIELD", f"status must be one of {known}")
        yield status


@dataclass(frozen=True, slots=True)
class HistoryRequest:
    key: RunKey
    first: int
    limit: int
    wait_ms: int


def history(request: pb.GetHistoryRequest, namespace: str) -> HistoryRequest:
    workflow_id, run_id = run_of(request)
    return HistoryRequest(
        RunKey(namespace, workflow_id, run_id),
        first=_number("from", getattr(request, "from"), most=10**9) or 1,
        limit=min(request.limit or MAX_HISTORY_LIMIT, MAX_HISTORY_LIMIT),
        wait_ms=min(request.wait_ms, MAX_POLL_MS),
    )


# ---- tasks --------------------------------------------------------------------------------------


def register_types(request: pb.RegisterWorkflowTypesRequest, namespace: str) -> RegisterTypes:
    return RegisterTypes(
        namespace=namespace, workflow_types=check_types(tuple(request.workflow_types))
    )


def poll(names: Iterable[str], field: str, request: Any, namespace: str) -> Poll:
    wanted = tuple(dict.fromkeys(check_id(field, name) for name in names))
    if len(wanted) > MAX_NAMES:
        raise ApiError(
            "INVALID_FIELD", f"{field} has {len(wanted)} names, the limit is {MAX_NAMES}"
        )
    return Poll(
        namespace=namespace,
        task_queue=_optional_id("task_queue", request.task_queue, DEFAULT_TASK_QUEUE),
        names=wanted,
        worker_id=_optional_id("worker_id", request.worker_id),
        request_id=check_poll_request(request.request_id),
        most=_number("max", request.max or 1, least=1, most=MAX_TASKS_PER_POLL),
    )


def eager(request: Any, namespace: str) -> Poll | None:
    """What the caller of a completion takes in its answer."""
    if not request.HasField("eager"):
        return None
    return poll(request.eager.names, "eager.names", request.eager, namespace)


def complete_activity(
    request: pb.CompleteTaskRequest, namespace: str, config: Config
) -> CompleteActivity:
    result = request.WhichOneof("result")
    delay = request.next_retry_delay_ms if request.HasField("next_retry_delay_ms") else -1
    return CompleteActivity(
        namespace=namespace,
        workflow_id=check_id("workflow_id", request.workflow_id),
        step_name=_optional_id("step_name", request.step_name),
        sequence=_number("sequence", request.sequence, most=MAX_SEQUENCE),
        lease_token=check_id("lease_token", request.lease_token),
        failed=result == "error",
        output=check_payload("output", request.output, config.limits.payload_bytes),
        error=check_sentence("error", request.error),
        error_type=check_sentence("error_type", request.error_type),
        non_retryable=request.non_retryable,
        next_retry_delay_ms=_number("next_retry_delay_ms", delay, least=-1),
    )


def check_heartbeat(request: pb.HeartbeatRequest, config: Config) -> None:
    check_id("workflow_id", request.workflow_id)
    check_id("lease_token", request.lease_token)
    _optional_id("worker_id", request.worker_id)
    check_payload("details", request.details, config.limits.payload_bytes)


def decision_token(request: pb.CompleteWorkflowTaskRequest, namespace: str) -> CompleteDecision:
    """Which workflow task is answered; nothing of the answer yet."""
    return CompleteDecision(
        namespace=namespace,
        workflow_id=check_id("workflow_id", request.workflow_id),
        task_token=check_id("task_token", request.task_token),
        commands=(),
    )


def decision_answer(
    request: pb.CompleteWorkflowTaskRequest, task: CompleteDecision, config: Config
) -> CompleteDecision:
    """The same with its commands, or why the replay failed."""
    if request.replay_error_kind not in ("", "nondeterminism"):
        raise ApiError("INVALID_FIELD", "replay_error_kind must be nondeterminism or absent")
    if len(request.commands) > MAX_COMMANDS:
        raise ApiError(
            "INVALID_FIELD",
            f"commands has {len(request.commands)} entries, the limit is {MAX_COMMANDS}",
        )
    return replace(
        task,
        commands=tuple(
            _command(f"commands[{number}]", command, config)
            for number, command in enumerate(request.commands)
        ),
        replay_error=check_sentence("replay_error", request.replay_error),
        nondeterminism=bool(request.replay_error_kind),
    )


def _command(path: str, command: pb.Command, config: Config) -> WorkflowCommand:
    kind = command.WhichOneof("command")
    if kind is None:
        raise ApiError("INVALID_FIELD", f"{path} has no command type that this release knows")
    body = getattr(command, kind)
    limit = config.limits.payload_bytes
    match kind:
        case "complete_workflow":
            return CompleteWorkflow(output=check_payload(f"{path}.output", body.output, limit))
        case "fail_workflow":
            return FailWorkflow(
                error=check_sentence(f"{path}.error", body.error),
                error_type=check_sentence(f"{path}.error_type", body.error_type),
                cancelled=body.cancelled,
            )
    name = check_id(f"{path}.step_name", body.step_name)
    sequence = _number(f"{path}.sequence", body.sequence, least=1, most=MAX_SEQUENCE)
    match kind:
        case "start_timer":
            delay_ms = _number(f"{path}.delay_ms", body.delay_ms)
            return StartTimer(step_name=name, sequence=sequence, delay_ms=delay_ms)
        case "await_signal":
            signal_name = check_id(f"{path}.signal_name", body.signal_name)
            return AwaitSignal(step_name=name, sequence=sequence, signal_name=signal_name)
    assert kind == "schedule_activity"
    return _activity(path, name, sequence, body, config)


def _activity(
    path: str, name: str, sequence: int, body: pb.ScheduleActivity, config: Config
) -> ScheduleActivity:
    limit = config.limits.payload_bytes
    retry = (
        _retry(f"{path}.retry_policy.", body.retry_policy)
        if body.HasField("retry_policy")
        else policy_of(config.activities.get(name))
    )
    timeouts = {
        field: _number(f"{path}.{field}", getattr(body, field))
        for field in (
            "start_to_close_timeout_ms",
            "schedule_to_close_timeout_ms",
            "schedule_to_start_timeout_ms",
        )
    }
    return ScheduleActivity(
        step_name=name,
        sequence=sequence,
        input=check_payload(f"{path}.input", body.input, limit),
        retry=retry,
        task_queue=_optional_id(f"{path}.task_queue", body.task_queue),
        **timeouts,
    )


def _retry(path: str, policy: pb.ActivityRetry) -> RetryPolicy:
    attempts = policy.max_attempts if policy.HasField("max_attempts") else NO_RETRY.max_attempts
    coefficient = policy.backoff_coefficient if policy.HasField("backoff_coefficient") else 2.0
    return RetryPolicy(
        max_attempts=_number(f"{path}max_attempts", attempts, most=MAX_ATTEMPTS),
        initial_backoff_ms=_number(f"{path}initial_backoff_ms", policy.initial_backoff_ms),
        max_backoff_ms=_number(f"{path}max_backoff_ms", policy.max_backoff_ms),
        backoff_coefficient_milli=coefficient_milli(f"{path}backoff_coefficient", coefficient),
        non_retryable_error_types=tuple(
            check_sentence(f"{path}non_retryable_error_types", text)
            for text in policy.non_retryable_error_types
        ),
    )


def error_metadata(error: ApiError) -> dict[str, str]:
    """The details of google.rpc.ErrorInfo."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in error.details.items()
    }


# ---- answers ------------------------------------------------------------------------------------


def activity_task(task: ActivityTask, more: Iterable[ActivityTask] = ()) -> pb.Task:
    return pb.Task(
        workflow_id=task.workflow_id,
        run_id=task.run_id,
        step_name=task.step_name,
        sequence=task.sequence,
        input=task.input,
        lease_token=task.token,
        lease_duration_ms=task.lease_duration_ms,
        attempt=task.attempt,
        start_to_close_timeout_ms=task.start_to_close_timeout_ms,
        heartbeat_details=task.heartbeat_details,
        traceparent=task.traceparent,
        tracestate=task.tracestate,
        workflow_type=task.workflow_type,
        more=[activity_task(other) for other in more],
    )


def decision_task(task: DecisionTask, more: Iterable[DecisionTask] = ()) -> pb.WorkflowTask:
    return pb.WorkflowTask(
        workflow_id=task.workflow_id,
        run_id=task.run_id,
        workflow_type=task.workflow_type,
        task_token=task.token,
        history_length=task.history_length,
        input=task.input,
        started_ms=task.started_ms,
        traceparent=task.traceparent,
        tracestate=task.tracestate,
        suggest_continue_as_new_at=task.suggest_continue_as_new_at,
        steps=[_step(step) for step in task.steps],
        signals=[_signal(signal) for signal in task.signals],
        more=[decision_task(other) for other in more],
    )


def described(found: DescribedRun) -> pb.DescribeWorkflowResponse:
    run = found.run
    return pb.DescribeWorkflowResponse(
        run=_run(run),
        input=run.input,
        output=run.output,
        error=run.error or run.suspended_reason,
        error_type=run.error_type,
        steps=[_step(step) for step in run.steps],
        signals=[_signal(signal) for signal in found.signals],
        waiting_on=[
            pb.Waiting(
                kind=wait.kind,
                step_name=wait.step_name,
                sequence=wait.sequence,
                detail=wait_detail(wait),
                since_ms=wait_since_ms(run, wait),
                until_ms=wait.due_ms,
            )
            for wait in waiting_on(run)
        ],
        execution_timeout_ms=run.execution_timeout_ms,
        traceparent=run.traceparent,
        tracestate=run.tracestate,
    )


def run_page(page: RunPage, applied_index: int) -> pb.ListWorkflowsResponse:
    return pb.ListWorkflowsResponse(
        total=page.total,
        total_exact=page.total_exact,
        workflows=[_run(run) for run in page.runs],
        next_cursor=page.next_cursor,
        applied_index=applied_index,
    )


def _run(run: Run | RunSummary) -> pb.RunSummary:
    return pb.RunSummary(
        workflow_id=run.key.workflow_id,
        run_id=run.key.run_id,
        workflow_type=run.workflow_type,
        status=run.status.name,
        started_ms=run.started_ms,
        updated_ms=run.updated_ms,
        closed_ms=run.closed_ms,
        history_length=run.history_length,
        task_queue=run.task_queue,
    )


def _step(step: Step | StepView) -> pb.Step:
    return pb.Step(
        step_name=step.name,
        sequence=step.sequence,
        kind=step.kind.name,
        status=step.status.name,
        attempts=step.attempts,
        output=step.output,
        error=step.error,
        error_type=step.error_type,
        non_retryable=step.non_retryable,
        resolved_event_id=step.resolved_event_id,
        resolved_ms=step.resolved_ms,
    )


def _signal(signal: Signal) -> pb.Signal:
    return pb.Signal(
        name=signal.name,
        payload=signal.payload,
        event_id=signal.event_id,
        received_ms=signal.time_ms,
        taken_by=signal.taken_by,
    )
