"""The messages of the gRPC API as engine commands and views. The same checks, the same field names
in complaints as over JSON; the wire has seen to types and unknown fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from raftflow.cluster.api.attributes import parse_memo
from raftflow.cluster.api.decisions import MAX_SEQUENCE, run_id_for
from raftflow.cluster.api.grpc_commands import read_commands
from raftflow.cluster.api.grpc_fields import (
    attributes,
    member,
    number,
    optional_id,
    plain_attributes,
    request_id,
    run_of,
    shown_attributes,
)
from raftflow.cluster.api.handlers.runs import DescribedRun
from raftflow.cluster.api.handlers.tasks import Poll
from raftflow.cluster.api.limits import (
    DEFAULT_LIST_LIMIT,
    MAX_HISTORY_LIMIT,
    MAX_LIST_LIMIT,
    MAX_NAMES,
    MAX_OFFSET,
    MAX_POLL_MS,
    check_id,
    check_payload,
    check_poll_request,
    check_sentence,
    check_types,
)
from raftflow.cluster.api.status import ApiError
from raftflow.cluster.api.validation import parse_object
from raftflow.cluster.api.views import wait_detail, wait_since_ms
from raftflow.cluster.config import Config
from raftflow.cluster.store.views import RunFilter, RunPage, RunSummary
from raftflow.engine.commands import (
    CancelRun,
    CompleteActivity,
    CompleteDecision,
    CreateNamespace,
    IdConflictPolicy,
    IdReusePolicy,
    PauseRun,
    RegisterTypes,
    SignalRun,
    StartRun,
    TerminateRun,
    UnpauseRun,
    UpdateNamespace,
)
from raftflow.engine.describe import ActivityTask, DecisionTask, StepView, waiting_on
from raftflow.engine.ids import DEFAULT_TASK_QUEUE, RunKey
from raftflow.engine.state import NamespaceRecord, Run, RunStatus, Signal, Step
from raftflow.proto.workflow.v1 import service_pb2 as pb

# ---- runs ---------------------------------------------------------------------------------------


def start(
    request: pb.StartWorkflowRequest, namespace: str, metadata: Mapping[str, str], config: Config
) -> StartRun:
    signalled = request.HasField("signal")
    return StartRun(
        namespace=namespace,
        workflow_id=optional_id("workflow_id", request.workflow_id),
        run_id="",
        workflow_type=check_id("type", request.type),
        task_queue=optional_id("task_queue", request.task_queue, DEFAULT_TASK_QUEUE),
        input=check_payload("input", request.input, config.limits.payload_bytes),
        execution_timeout_ms=number("execution_timeout_ms", request.execution_timeout_ms),
        id_reuse_policy=member("id_reuse_policy", IdReusePolicy, request.id_reuse_policy),
        id_conflict_policy=member(
            "id_conflict_policy", IdConflictPolicy, request.id_conflict_policy
        ),
        request_id=request_id(request),
        traceparent=request.traceparent or metadata.get("traceparent", ""),
        tracestate=request.tracestate or metadata.get("tracestate", ""),
        search_attributes=attributes("search_attributes", request.search_attributes),
        memo=_memo(request.memo, config.limits.payload_bytes),
        signal_name=check_id("signal.name", request.signal.name) if signalled else "",
        signal_payload=check_payload(
            "signal.payload", request.signal.payload, config.limits.payload_bytes
        ),
    )


def _memo(text: str, limit: int) -> str:
    if not text:
        return ""
    try:
        return parse_memo(parse_object(text.encode()), limit)
    except ApiError as error:
        raise ApiError("INVALID_FIELD", f"memo: {error.message}") from None


def signal(request: pb.SignalWorkflowRequest, namespace: str, config: Config) -> SignalRun:
    workflow_id, run_id = run_of(request)
    return SignalRun(
        namespace=namespace,
        workflow_id=workflow_id,
        run_id=run_id,
        name=check_id("name", request.name),
        payload=check_payload("payload", request.payload, config.limits.payload_bytes),
        request_id=request_id(request),
    )


def terminate(request: pb.TerminateWorkflowRequest, namespace: str) -> TerminateRun:
    workflow_id, run_id = run_of(request)
    return TerminateRun(
        namespace=namespace,
        workflow_id=workflow_id,
        run_id=run_id,
        reason=check_sentence("reason", request.reason),
        request_id=request_id(request),
    )


def cancel(request: pb.CancelWorkflowRequest, namespace: str) -> CancelRun:
    workflow_id, run_id = run_of(request)
    return CancelRun(
        namespace=namespace,
        workflow_id=workflow_id,
        run_id=run_id,
        reason=check_sentence("reason", request.reason),
        request_id=request_id(request),
        graceful=request.graceful,
    )


def pause(request: pb.PauseWorkflowRequest, namespace: str) -> PauseRun:
    workflow_id, run_id = run_of(request)
    return PauseRun(
        namespace=namespace,
        workflow_id=workflow_id,
        run_id=run_id,
        reason=check_sentence("reason", request.reason),
        request_id=request_id(request),
    )


def unpause(request: pb.UnpauseWorkflowRequest, namespace: str) -> UnpauseRun:
    workflow_id, run_id = run_of(request)
    return UnpauseRun(
        namespace=namespace,
        workflow_id=workflow_id,
        run_id=run_id,
        request_id=request_id(request),
    )


def create_namespace(request: pb.CreateNamespaceRequest) -> CreateNamespace:
    return CreateNamespace(
        namespace=check_id("name", request.name),
        retention_ms=number("retention_ms", request.retention_ms),
        request_id=request_id(request),
    )


def update_namespace(request: pb.UpdateNamespaceRequest) -> UpdateNamespace:
    return UpdateNamespace(
        namespace=check_id("name", request.name),
        retention_ms=number("retention_ms", request.retention_ms),
        request_id=request_id(request),
    )


def run_filter(request: pb.ListWorkflowsRequest, namespace: str) -> RunFilter:
    return RunFilter(
        namespace=namespace,
        statuses=tuple(statuses(request.status)),
        query=request.q,
        workflow_type=optional_id("type", request.type),
        task_queue=optional_id("task_queue", request.task_queue),
        started_after_ms=request.started_after_ms or None,
        started_before_ms=request.started_before_ms or None,
        attributes=plain_attributes("search_attributes", request.search_attributes),
        limit=number("limit", request.limit, most=MAX_LIST_LIMIT) or DEFAULT_LIST_LIMIT,
        offset=number("offset", request.offset, most=MAX_OFFSET),
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
        first=number("from", getattr(request, "from"), most=10**9) or 1,
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
        task_queue=optional_id("task_queue", request.task_queue, DEFAULT_TASK_QUEUE),
        names=wanted,
        worker_id=optional_id("worker_id", request.worker_id),
        request_id=check_poll_request(request.request_id),
    )


def complete_activity(
    request: pb.CompleteTaskRequest, namespace: str, config: Config
) -> CompleteActivity:
    result = request.WhichOneof("result")
    delay = request.next_retry_delay_ms if request.HasField("next_retry_delay_ms") else -1
    return CompleteActivity(
        namespace=namespace,
        workflow_id=check_id("workflow_id", request.workflow_id),
        step_name=optional_id("step_name", request.step_name),
        sequence=number("sequence", request.sequence, most=MAX_SEQUENCE),
        lease_token=check_id("lease_token", request.lease_token),
        failed=result == "error",
        output=check_payload("output", request.output, config.limits.payload_bytes),
        error=check_sentence("error", request.error),
        error_type=check_sentence("error_type", request.error_type),
        non_retryable=request.non_retryable,
        next_retry_delay_ms=number("next_retry_delay_ms", delay, least=-1),
    )


def check_heartbeat(request: pb.HeartbeatRequest, config: Config) -> None:
    check_id("workflow_id", request.workflow_id)
    check_id("lease_token", request.lease_token)
    optional_id("worker_id", request.worker_id)
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
    commands = read_commands(request.commands, config)
    return replace(
        task,
        commands=commands,
        new_run_id=run_id_for(commands),
        replay_error=check_sentence("replay_error", request.replay_error),
        nondeterminism=bool(request.replay_error_kind),
    )


# ---- answers ------------------------------------------------------------------------------------


def activity_task(task: ActivityTask) -> pb.Task:
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
    )


def decision_task(task: DecisionTask) -> pb.WorkflowTask:
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
        cancel_requested_event_id=task.cancel_requested_event_id,
        cancel_requested_ms=task.cancel_requested_ms,
        cancel_reason=task.cancel_reason,
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
        continued_from_run_id=run.continued_from_run_id,
        continued_to_run_id=run.continued_to_run_id,
        parent=_parent(run),
        cancel_requested_ms=run.cancel_requested_ms,
        cancel_reason=run.cancel_reason,
    )


def _parent(run: Run) -> pb.Parent | None:
    if not run.parent_workflow_id:
        return None
    return pb.Parent(
        workflow_id=run.parent_workflow_id, run_id=run.parent_run_id, sequence=run.parent_sequence
    )


def namespaces(records: Iterable[NamespaceRecord]) -> pb.ListNamespacesResponse:
    return pb.ListNamespacesResponse(
        namespaces=[
            pb.Namespace(
                name=record.name, retention_ms=record.retention_ms, created_ms=record.created_ms
            )
            for record in records
        ]
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
        search_attributes=shown_attributes(run.search_attributes),
        memo=run.memo,
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
        marker=step.marker,
        workflow_type=step.workflow_type,
        workflow_id=step.workflow_id,
        run_id=step.run_id,
    )


def _signal(signal: Signal) -> pb.Signal:
    return pb.Signal(
        name=signal.name,
        payload=signal.payload,
        event_id=signal.event_id,
        received_ms=signal.time_ms,
        taken_by=signal.taken_by,
    )
