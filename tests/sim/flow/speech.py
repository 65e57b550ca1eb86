"""What clients and workers say and hear over both APIs, as an SDK would: engine commands become
requests, answers become what the engine's words are for them."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import IntEnum
from functools import cache
from typing import Any
from urllib.parse import quote, urlencode

from raftflow.cluster.api.payloads import put_payload
from raftflow.cluster.codec.events import decode_event
from raftflow.cluster.dispatch import ACTIVITY, DECISION, Poll
from raftflow.cluster.store.records import unframe
from raftflow.engine import commands as cmd
from raftflow.engine.describe import ActivityTask, DecisionTask, OpenStep
from raftflow.engine.events import Event
from raftflow.engine.ids import RunKey
from raftflow.engine.rejections import Answer, Done, Reason, Rejection, Started
from raftflow.engine.retry import RetryPolicy
from raftflow.engine.state import StepKind, StepStatus
from raftflow.proto.workflow.v1 import service_pb2 as pb

WAIT_MS = 1_000

Task = ActivityTask | DecisionTask


@dataclass(frozen=True, slots=True)
class JsonCall:
    method: str
    target: str
    namespace: str
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class RpcCall:
    name: str
    namespace: str
    message: bytes


class Refused(Exception):
    """The node's answer was an error of the table."""

    def __init__(self, reason: str, message: str, details: Mapping[str, Any]) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message
        self.details = details


# ---- commands ------------------------------------------------------------------------------------


def as_json(command: cmd.Command, eager: Poll | None = None) -> JsonCall:
    body: dict[str, Any] = {}
    match command:
        case cmd.CreateNamespace():
            body = {"name": command.namespace, "retention_ms": command.retention_ms}
            return _post("/api/namespaces", "", body | {"request_id": command.request_id})
        case cmd.RegisterTypes():
            body = {"workflow_types": list(command.workflow_types)}
            return _post("/api/workflow-types", command.namespace, body)
        case cmd.StartRun():
            return _post("/api/workflows", command.namespace, _start(command))
        case cmd.DeleteRun():
            named = {"run_id": command.run_id, "request_id": command.request_id}
            target = f"{_path(command)}?{urlencode(named)}"
            return JsonCall("DELETE", target, command.namespace)
        case cmd.CompleteDecision():
            body = {"workflow_id": command.workflow_id, "task_token": command.task_token}
            body["commands"] = [_json_command(each) for each in command.commands]
            if command.unreadable:
                body["commands"] = [{"type": command.unreadable}]
            if command.replay_error:
                body["replay_error"] = command.replay_error
                body["replay_error_kind"] = "nondeterminism" if command.nondeterminism else ""
            _put_eager(body, eager, "activities", most=True)
            return _post("/api/workflow-tasks/complete", command.namespace, body)
        case cmd.CompleteActivity():
            body = {"workflow_id": command.workflow_id, "lease_token": command.lease_token}
            body["step_name"] = command.step_name
            if command.failed:
                body |= {"error": command.error, "error_type": command.error_type}
            else:
                put_payload(body, "output", command.output)
            _put_eager(body, eager, "types", most=False)
            return _post("/api/activity-tasks/complete", command.namespace, body)
    verb, more = _STEERING[type(command)](command)
    named = {"run_id": _of(command, "run_id"), "request_id": _of(command, "request_id")}
    return _post(f"{_path(command)}/{verb}", command.namespace, {**named, **more})  # type: ignore[union-attr]


def as_rpc(command: cmd.Command, eager: Poll | None = None) -> RpcCall:
    run = {name: _of(command, name) for name in ("workflow_id", "run_id", "request_id")}
    match command:
        case cmd.CreateNamespace():
            message: Any = pb.CreateNamespaceRequest(
                name=command.namespace,
                retention_ms=command.retention_ms,
                request_id=command.request_id,
            )
            return _rpc("CreateNamespace", "", message)
        case cmd.RegisterTypes():
            message = pb.RegisterWorkflowTypesRequest(workflow_types=command.workflow_types)
            return _rpc("RegisterWorkflowTypes", command.namespace, message)
        case cmd.StartRun():
            return _rpc("StartWorkflow", command.namespace, _start_message(command))
        case cmd.DeleteRun():
            return _rpc("DeleteWorkflow", command.namespace, pb.DeleteWorkflowRequest(**run))
        case cmd.SignalRun():
            message = pb.SignalWorkflowRequest(name=command.name, payload=command.payload, **run)
            return _rpc("SignalWorkflow", command.namespace, message)
        case cmd.CancelRun():
            message = pb.CancelWorkflowRequest(
                reason=command.reason, graceful=command.graceful, **run
            )
            return _rpc("CancelWorkflow", command.namespace, message)
        case cmd.TerminateRun():
            message = pb.TerminateWorkflowRequest(reason=command.reason, **run)
            return _rpc("TerminateWorkflow", command.namespace, message)
        case cmd.PauseRun():
            message = pb.PauseWorkflowRequest(reason=command.reason, **run)
            return _rpc("PauseWorkflow", command.namespace, message)
        case cmd.UnpauseRun():
            return _rpc("UnpauseWorkflow", command.namespace, pb.UnpauseWorkflowRequest(**run))
        case cmd.CompleteDecision():
            return _rpc("CompleteWorkflowTask", command.namespace, decision(command, eager))
        case cmd.CompleteActivity():
            return _rpc("CompleteTask", command.namespace, completion(command, eager))
    raise AssertionError(command)


def decision(command: cmd.CompleteDecision, eager: Poll | None) -> pb.CompleteWorkflowTaskRequest:
    given = [] if command.unreadable else [_message_of(each) for each in command.commands]
    return pb.CompleteWorkflowTaskRequest(
        workflow_id=command.workflow_id,
        task_token=command.task_token,
        commands=[pb.Command()] if command.unreadable else given,
        replay_error=command.replay_error,
        replay_error_kind="nondeterminism" if command.nondeterminism else "",
        namespace=command.namespace,
        eager=_eager_message(eager),
    )


def completion(command: cmd.CompleteActivity, eager: Poll | None) -> pb.CompleteTaskRequest:
    result: dict[str, Any] = {"output": command.output}
    if command.failed:
        result = {"error": command.error}
    return pb.CompleteTaskRequest(
        workflow_id=command.workflow_id,
        step_name=command.step_name,
        lease_token=command.lease_token,
        error_type=command.error_type,
        namespace=command.namespace,
        eager=_eager_message(eager),
        **result,
    )


def _post(target: str, namespace: str, body: Mapping[str, Any]) -> JsonCall:
    given = {name: value for name, value in body.items() if value != ""}
    return JsonCall("POST", target, namespace, json.dumps(given).encode())


def _rpc(name: str, namespace: str, message: Any) -> RpcCall:
    return RpcCall(name, namespace, message.SerializeToString())


def _of(command: Any, name: str) -> str:
    return str(getattr(command, name, ""))


def _path(command: Any) -> str:
    return "/api/workflows/" + quote(command.workflow_id, safe="")


def _signalled(command: Any) -> tuple[str, dict[str, Any]]:
    body: dict[str, Any] = {"name": command.name}
    put_payload(body, "payload", command.payload)
    return "signal", body


_STEERING: Mapping[Any, Callable[[Any], tuple[str, dict[str, Any]]]] = {
    cmd.SignalRun: _signalled,
    cmd.TerminateRun: lambda command: ("terminate", {"reason": command.reason}),
    cmd.CancelRun: lambda command: (
        "cancel",
        {"reason": command.reason, "graceful": command.graceful},
    ),
    cmd.PauseRun: lambda command: ("pause", {"reason": command.reason}),
    cmd.UnpauseRun: lambda command: ("unpause", {}),
}


def _start(command: cmd.StartRun) -> dict[str, Any]:
    body: dict[str, Any] = {
        "workflow_id": command.workflow_id,
        "type": command.workflow_type,
        "task_queue": command.task_queue,
        "execution_timeout_ms": command.execution_timeout_ms,
        "id_reuse_policy": command.id_reuse_policy.name,
        "id_conflict_policy": command.id_conflict_policy.name,
        "request_id": command.request_id,
        "memo": json.loads(command.memo) if command.memo else {},
        "search_attributes": {name: json.loads(text) for name, text in command.search_attributes},
    }
    put_payload(body, "input", command.input)
    if command.signal_name:
        body["signal"] = {"name": command.signal_name}
        put_payload(body["signal"], "payload", command.signal_payload)
    return body


def _start_message(command: cmd.StartRun) -> pb.StartWorkflowRequest:
    signal = None
    if command.signal_name:
        signal = pb.StartSignal(name=command.signal_name, payload=command.signal_payload)
    return pb.StartWorkflowRequest(
        workflow_id=command.workflow_id,
        type=command.workflow_type,
        task_queue=command.task_queue,
        execution_timeout_ms=command.execution_timeout_ms,
        id_reuse_policy=int(command.id_reuse_policy),  # type: ignore[arg-type]
        id_conflict_policy=int(command.id_conflict_policy),  # type: ignore[arg-type]
        request_id=command.request_id,
        memo=command.memo,
        search_attributes=_attribute_values(command.search_attributes),
        input=command.input,
        signal=signal,
    )


def _attribute_values(attributes: cmd.Attributes) -> dict[str, pb.AttributeValue]:
    return {name: pb.AttributeValue(text=json.loads(text)) for name, text in attributes}


# ---- the commands of a decision: both APIs name their fields as the engine does ------------------


@cache
def _kind(command: Any) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", command.__name__).lower()


@cache
def _names(command: Any) -> tuple[str, ...]:
    return tuple(each.name for each in fields(command))


def _json_command(command: Any) -> dict[str, Any]:
    body: dict[str, Any] = {"type": _kind(type(command))}
    for name in _names(type(command)):
        value = getattr(command, name)
        if isinstance(value, bytes):
            put_payload(body, name, value)
        elif isinstance(value, RetryPolicy):
            body["retry_policy"] = _retry(value)
        elif isinstance(value, IntEnum):
            body[name] = value.name
        elif isinstance(value, tuple):
            body[name] = {key: json.loads(text) for key, text in value}
        else:
            body[name] = value
    return body


def _message_of(command: Any) -> pb.Command:
    body: dict[str, Any] = {}
    for name in _names(type(command)):
        value = getattr(command, name)
        if isinstance(value, RetryPolicy):
            body["retry_policy"] = pb.ActivityRetry(**_retry(value))
        elif isinstance(value, tuple):
            body[name] = _attribute_values(value)
        elif value != -1:
            body[name] = int(value) if isinstance(value, IntEnum) else value
    made: Any = getattr(pb, type(command).__name__)(**body)
    return pb.Command(**{_kind(type(command)): made})


def _retry(policy: RetryPolicy) -> dict[str, Any]:
    return {
        "max_attempts": policy.max_attempts,
        "initial_backoff_ms": policy.initial_backoff_ms,
        "max_backoff_ms": policy.max_backoff_ms,
        "backoff_coefficient": policy.backoff_coefficient_milli / 1_000,
        "non_retryable_error_types": list(policy.non_retryable_error_types),
        "jitter": policy.jitter_milli / 1_000,
    }


# ---- polls ---------------------------------------------------------------------------------------


def poll_as_json(kind: Any, poll: Poll) -> JsonCall:
    query = {
        "worker_id": poll.worker_id,
        "task_queue": poll.task_queue,
        "request_id": poll.request_id,
        "max": str(poll.most),
        "wait": str(WAIT_MS),
    }
    path = "/api/activity-tasks" if kind == ACTIVITY else "/api/workflow-tasks"
    asked = urlencode({name: value for name, value in query.items() if value})
    return JsonCall("GET", f"{path}?{asked}", poll.namespace)


def poll_as_rpc(kind: Any, poll: Poll) -> RpcCall:
    named = {
        "worker_id": poll.worker_id,
        "task_queue": poll.task_queue,
        "request_id": poll.request_id,
        "max": poll.most,
        "namespace": poll.namespace,
    }
    if kind == ACTIVITY:
        return _rpc("PollTask", poll.namespace, pb.PollTaskRequest(**named))
    return _rpc("PollWorkflowTask", poll.namespace, pb.PollWorkflowTaskRequest(**named))


def _put_eager(body: dict[str, Any], poll: Poll | None, names: str, *, most: bool) -> None:
    if poll is not None:
        body["eager"] = {
            "worker_id": poll.worker_id,
            "task_queue": poll.task_queue,
            "request_id": poll.request_id,
            names: list(poll.names),
        } | ({"max": poll.most} if most else {})


def _eager_message(poll: Poll | None) -> pb.EagerPoll | None:
    if poll is None:
        return None
    return pb.EagerPoll(
        worker_id=poll.worker_id,
        names=poll.names,
        task_queue=poll.task_queue,
        max=poll.most,
        request_id=poll.request_id,
    )


def beat_as_json(task: ActivityTask, worker: str, details: bytes | None) -> JsonCall:
    body: dict[str, Any] = {
        "workflow_id": task.workflow_id,
        "lease_token": task.token,
        "worker_id": worker,
    }
    if details is not None:
        put_payload(body, "details", details)
    return _post("/api/activity-tasks/heartbeat", task.namespace, body)


def beat_as_rpc(task: ActivityTask, worker: str, details: bytes | None) -> RpcCall:
    beat = pb.HeartbeatRequest(
        workflow_id=task.workflow_id,
        lease_token=task.token,
        worker_id=worker,
        details=details,
        namespace=task.namespace,
    )
    return _rpc("Heartbeat", task.namespace, beat)


# ---- reads ---------------------------------------------------------------------------------------


def describe_as_json(key: RunKey) -> JsonCall:
    target = f"{_path(key)}?{urlencode({'run_id': key.run_id})}"
    return JsonCall("GET", target, key.namespace)


def describe_as_rpc(key: RunKey) -> RpcCall:
    wanted = pb.DescribeWorkflowRequest(workflow_id=key.workflow_id, run_id=key.run_id)
    return _rpc("DescribeWorkflow", key.namespace, wanted)


def described(body: Any) -> int:
    return int(body["history_length"] if isinstance(body, dict) else body.run.history_length)


def history_as_rpc(key: RunKey, first: int) -> RpcCall:
    wanted = pb.GetHistoryRequest(
        workflow_id=key.workflow_id,
        run_id=key.run_id,
        **{"from": first},  # type: ignore[arg-type]
    )
    return _rpc("GetHistory", key.namespace, wanted)


def history_in(body: Any) -> tuple[int, list[Event]]:
    return body.history_length, [decode_event(unframe(record)) for record in body.records]


def list_as_json(namespace: str) -> JsonCall:
    return JsonCall("GET", "/api/workflows?limit=20", namespace)


def list_as_rpc(namespace: str) -> RpcCall:
    return _rpc("ListWorkflows", namespace, pb.ListWorkflowsRequest(limit=20))


def listed(body: Any, namespace: str) -> list[tuple[RunKey, int]]:
    runs = [_View(each) for each in body["workflows"]] if isinstance(body, dict) else body.workflows
    return [(RunKey(namespace, run.workflow_id, run.run_id), run.history_length) for run in runs]


# ---- answers -------------------------------------------------------------------------------------


def answer_of(command: cmd.Command, body: Any) -> Answer:
    """Of a call that succeeded: a JSON object or a message."""
    if isinstance(command, cmd.StartRun):
        if isinstance(body, dict):
            return Started(body["run_id"], body["started"], body["workflow_id"])
        return Started(body.run_id, body.started, body.workflow_id)
    return Done()


def rejection_of(refused: Refused) -> Rejection:
    """The engine's refusals under their own name; what the API itself refused is a bad command."""
    known = refused.reason in Reason.__members__
    reason = Reason(refused.reason) if known else Reason.INVALID_COMMAND
    return Rejection(
        reason=reason,
        message=refused.message,
        run_id=refused.details.get("run_id", ""),
        cancelled=str(refused.details.get("cancelled", "")).lower() == "true",
    )


def tasks_in(kind: Any, body: Any, namespace: str) -> list[Task]:
    """Of the answer to a poll, or to a completion that takes what comes next."""
    if body is None:
        return []
    read: Any = _activity if kind == ACTIVITY else _decision
    if isinstance(body, dict):
        if "activity_tasks" in body:
            found = body["activity_tasks"]
        elif "workflow_task" in body:
            found = [body["workflow_task"]]
        elif "tasks" in body:
            found = body["tasks"]
        else:
            found = [] if "status" in body else [body]
        return [read(_View(view), namespace) for view in found]
    if isinstance(body, pb.CompleteWorkflowTaskResponse):
        return [read(task, namespace) for task in body.activity_tasks]
    if isinstance(body, pb.CompleteTaskResponse):
        taken = [body.workflow_task] if body.HasField("workflow_task") else []
        return [read(task, namespace) for task in taken]
    return [read(task, namespace) for task in (body, *body.more) if task.workflow_id]


def next_kind(command: cmd.Command) -> Any:
    """What a completion takes in its answer."""
    return ACTIVITY if isinstance(command, cmd.CompleteDecision) else DECISION


class _View:
    """A JSON object with the fields of its message."""

    def __init__(self, view: Mapping[str, Any]) -> None:
        self._view = view

    def __getattr__(self, name: str) -> Any:
        value = self._view.get(name)
        if name in _BYTES:
            encoded = self._view.get(name + "_base64")
            return base64.b64decode(encoded) if encoded is not None else (value or "").encode()
        if name in ("steps", "signals"):
            return [_View(each) for each in value or ()]
        if value is None:
            return "" if name in _TEXTS else 0
        return value


_BYTES = frozenset({"input", "output", "payload", "heartbeat_details"})
_TEXTS = frozenset(
    {"error", "error_type", "marker", "workflow_type", "workflow_id", "run_id", "cancel_reason"}
    | {"traceparent", "tracestate"}
)


def _activity(task: Any, namespace: str) -> ActivityTask:
    return ActivityTask(
        namespace=namespace,
        workflow_id=task.workflow_id,
        run_id=task.run_id,
        workflow_type=task.workflow_type,
        task_queue="",
        step_name=task.step_name,
        sequence=task.sequence,
        attempt=task.attempt,
        input=task.input,
        token=task.lease_token,
        lease_duration_ms=task.lease_duration_ms,
        start_to_close_timeout_ms=task.start_to_close_timeout_ms,
        heartbeat_details=task.heartbeat_details,
        scheduled_ms=0,
        started_ms=0,
        traceparent=task.traceparent,
        tracestate=task.tracestate,
    )


def _decision(task: Any, namespace: str) -> DecisionTask:
    return DecisionTask(
        namespace=namespace,
        workflow_id=task.workflow_id,
        run_id=task.run_id,
        workflow_type=task.workflow_type,
        task_queue="",
        token=task.task_token,
        attempt=0,
        timeout_ms=0,
        history_length=task.history_length,
        input=task.input,
        started_ms=0,
        traceparent=task.traceparent,
        tracestate=task.tracestate,
        suggest_continue_as_new_at=task.suggest_continue_as_new_at,
        cancel_requested_event_id=task.cancel_requested_event_id,
        cancel_requested_ms=0,
        cancel_reason=task.cancel_reason,
        steps=tuple(_step(step) for step in task.steps),
        signals=(),
    )


def _step(step: Any) -> OpenStep:
    return OpenStep(
        step.sequence,
        StepKind[step.kind],
        step.step_name,
        step.attempts,
        step.workflow_type,
        step.workflow_id,
        step.run_id,
        StepStatus[step.status],
        step.output,
        step.error,
        step.error_type,
        bool(step.non_retryable),
        step.resolved_event_id,
        0,
        step.marker,
    )
