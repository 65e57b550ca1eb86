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
)
from raftflow.cluster.api.limits import (
    DEFAULT_LIST_LIMIT,
    MAX_HISTORY_LIMIT,
    MAX_LIST_LIMIT,
    MAX_NAMES,
    MAX_OFFSET,
    MAX_POLL_MS,
    MAX_TASKS_PER_POLL,
    audit_cursor,
    check_id,
    check_payload,
    check_poll_request,
    check_sentence,
    check_token,
    check_types,
)
from raftflow.cluster.api.status import ApiError
from raftflow.cluster.api.validation import parse_object
from raftflow.cluster.config import Config
from raftflow.cluster.dispatch import Poll
from raftflow.cluster.store.views import AuditFilter, RunFilter
from raftflow.engine.commands import (
    CancelRun,
    CompleteActivity,
    CompleteDecision,
    CreateNamespace,
    IdConflictPolicy,
    IdReusePolicy,
    PauseRun,
    RegisterTypes,
    Role,
    SetQuota,
    SignalRun,
    StartRun,
    TerminateRun,
    UnpauseRun,
    UpdateNamespace,
)
from raftflow.engine.ids import DEFAULT_TASK_QUEUE, RunKey
from raftflow.engine.state import RunStatus
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


def set_quota(request: pb.SetNamespaceQuotaRequest) -> SetQuota:
    return SetQuota(
        namespace=check_id("name", request.name),
        max_open_runs=number("max_open_runs", request.max_open_runs),
        starts_per_second=number("starts_per_second", request.starts_per_second),
        request_id=request_id(request),
    )


def role(request: pb.MintTokenRequest) -> Role:
    found: Role = member("role", Role, request.role)
    return found


def audit_filter(request: pb.ListAuditRequest) -> AuditFilter:
    return AuditFilter(
        actor=optional_id("actor", request.actor),
        call=optional_id("call", request.call),
        namespace=optional_id("namespace_name", request.namespace_name),
        target=optional_id("target", request.target),
        outcome=optional_id("outcome", request.outcome),
        after_ms=request.after_ms or None,
        before_ms=request.before_ms or None,
        oldest_first=request.oldest_first,
        limit=number("limit", request.limit or DEFAULT_LIST_LIMIT, most=MAX_LIST_LIMIT),
        cursor=audit_cursor(request.cursor),
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
        most=number("max", request.max or 1, least=1, most=MAX_TASKS_PER_POLL),
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
        step_name=optional_id("step_name", request.step_name),
        sequence=number("sequence", request.sequence, most=MAX_SEQUENCE),
        lease_token=check_token("lease_token", request.lease_token),
        failed=result == "error",
        output=check_payload("output", request.output, config.limits.payload_bytes),
        error=check_sentence("error", request.error),
        error_type=check_sentence("error_type", request.error_type),
        non_retryable=request.non_retryable,
        next_retry_delay_ms=number("next_retry_delay_ms", delay, least=-1),
    )


def check_heartbeat(request: pb.HeartbeatRequest, config: Config) -> None:
    check_id("workflow_id", request.workflow_id)
    check_token("lease_token", request.lease_token)
    optional_id("worker_id", request.worker_id)
    check_payload("details", request.details, config.limits.payload_bytes)


def decision_token(request: pb.CompleteWorkflowTaskRequest, namespace: str) -> CompleteDecision:
    """Which workflow task is answered; nothing of the answer yet."""
    return CompleteDecision(
        namespace=namespace,
        workflow_id=check_id("workflow_id", request.workflow_id),
        task_token=check_token("task_token", request.task_token),
        commands=(),
    )


def decision_answer(
    request: pb.CompleteWorkflowTaskRequest, task: CompleteDecision, config: Config
) -> tuple[CompleteDecision, Poll | None]:
    """The same with its commands, or why the replay failed; and what takes activities in turn."""
    if request.replay_error_kind not in ("", "nondeterminism"):
        raise ApiError("INVALID_FIELD", "replay_error_kind must be nondeterminism or absent")
    commands = read_commands(request.commands, config)
    answer = replace(
        task,
        commands=commands,
        new_run_id=run_id_for(commands),
        replay_error=check_sentence("replay_error", request.replay_error),
        nondeterminism=bool(request.replay_error_kind),
    )
    return answer, eager(request, task.namespace)


def error_metadata(error: ApiError) -> dict[str, str]:
    """The details of google.rpc.ErrorInfo."""
    return {name: _metadatum(value) for name, value in error.details.items()}


def _metadatum(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
