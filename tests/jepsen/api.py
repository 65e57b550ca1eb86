"""The calls of the public contract, each as JSON and as an RPC, with one answer for both."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import crc32c

from raftflow.proto.workflow.v1 import history_pb2
from raftflow.proto.workflow.v1 import service_pb2 as pb

JSON, GRPC = "json", "grpc"


@dataclass(frozen=True, slots=True)
class Request:
    """`read_json` gets the body (bytes when `raw`), `read_rpc` the message; both give what the
    history keeps. `wait_s` is how long a poll may take on top of the deadline."""

    method: str
    path: str
    body: Any
    rpc: str
    message: Any
    read_json: Callable[[Any], Any]
    read_rpc: Callable[[Any], Any]
    raw: bool = False
    wait_s: float = 0.0


def _nothing(_: Any) -> None:
    return None


def _run_path(workflow_id: str, rest: str = "") -> str:
    return f"/api/workflows/{quote(workflow_id, safe='')}{rest}"


# ---- runs ---------------------------------------------------------------------------------------


def register(types: Sequence[str]) -> Request:
    return Request(
        "POST",
        "/api/workflow-types",
        {"workflow_types": list(types)},
        "RegisterWorkflowTypes",
        pb.RegisterWorkflowTypesRequest(workflow_types=types),
        _nothing,
        _nothing,
    )


def start(
    workflow_type: str, workflow_id: str, *, queue: str, request_id: str, payload: str = ""
) -> Request:
    return Request(
        "POST",
        "/api/workflows",
        {
            "type": workflow_type,
            "workflow_id": workflow_id,
            "task_queue": queue,
            "request_id": request_id,
            "input": payload,
        },
        "StartWorkflow",
        pb.StartWorkflowRequest(
            type=workflow_type,
            workflow_id=workflow_id,
            task_queue=queue,
            request_id=request_id,
            input=payload.encode(),
        ),
        lambda body: {"run_id": body["run_id"], "started": body["started"]},
        lambda answer: {"run_id": answer.run_id, "started": answer.started},
    )


def signal(workflow_id: str, name: str, payload: str, *, request_id: str) -> Request:
    return Request(
        "POST",
        _run_path(workflow_id, "/signal"),
        {"name": name, "payload": payload, "request_id": request_id},
        "SignalWorkflow",
        pb.SignalWorkflowRequest(
            workflow_id=workflow_id, name=name, payload=payload.encode(), request_id=request_id
        ),
        _nothing,
        _nothing,
    )


def terminate(workflow_id: str, *, reason: str, request_id: str) -> Request:
    return Request(
        "POST",
        _run_path(workflow_id, "/terminate"),
        {"reason": reason, "request_id": request_id},
        "TerminateWorkflow",
        pb.TerminateWorkflowRequest(workflow_id=workflow_id, reason=reason, request_id=request_id),
        _nothing,
        _nothing,
    )


def describe(workflow_id: str) -> Request:
    return Request(
        "GET",
        _run_path(workflow_id),
        None,
        "DescribeWorkflow",
        pb.DescribeWorkflowRequest(workflow_id=workflow_id),
        _described_json,
        _described_rpc,
    )


def _described_json(body: dict[str, Any]) -> dict[str, Any]:
    return {
        "run_id": body["run_id"],
        "status": body["status"],
        "length": body["history_length"],
        "signals": [[each.get("event_id", 0), _text(each)] for each in body["signals"]],
        "steps": [
            [
                step["sequence"],
                step["kind"],
                step["status"],
                step.get("attempts", 0),
                step.get("resolved_event_id", 0),
                step.get("output", ""),
            ]
            for step in body["steps"]
        ],
    }


def _text(signal_view: Mapping[str, Any]) -> str:
    return str(signal_view["payload"])


def _described_rpc(answer: Any) -> dict[str, Any]:
    return {
        "run_id": answer.run.run_id,
        "status": answer.run.status,
        "length": answer.run.history_length,
        "signals": [[each.event_id, each.payload.decode()] for each in answer.signals],
        "steps": [
            [
                step.sequence,
                step.kind,
                step.status,
                step.attempts,
                step.resolved_event_id,
                step.output.decode(),
            ]
            for step in answer.steps
        ],
    }


def listing(*, prefix: str, cursor: str = "", limit: int = 1_000) -> Request:
    """One page of the runs whose id contains `prefix`."""
    query = {"q": prefix, "limit": limit, **({"cursor": cursor} if cursor else {})}
    return Request(
        "GET",
        f"/api/workflows?{urlencode(query)}",
        None,
        "ListWorkflows",
        pb.ListWorkflowsRequest(q=prefix, limit=limit, cursor=cursor),
        lambda body: {
            "runs": [[run["workflow_id"], run["run_id"]] for run in body["workflows"]],
            "cursor": body.get("next_cursor", ""),
        },
        lambda answer: {
            "runs": [[run.workflow_id, run.run_id] for run in answer.workflows],
            "cursor": answer.next_cursor,
        },
    )


def history(workflow_id: str, run_id: str = "") -> Request:
    """All events as stored, decoded and with their bytes (the checksums are verified here)."""
    query = urlencode({"format": "binary", **({"run_id": run_id} if run_id else {})})
    return Request(
        "GET",
        _run_path(workflow_id, f"/history?{query}"),
        None,
        "GetHistory",
        pb.GetHistoryRequest(workflow_id=workflow_id, run_id=run_id),
        records_of,
        lambda answer: records_of(b"".join(answer.records)),
        raw=True,
    )


def records_of(raw: bytes) -> list[bytes]:
    found = []
    at = 0
    while at < len(raw):
        length, crc = struct.unpack_from("<II", raw, at)
        payload = raw[at + 8 : at + 8 + length]
        if len(payload) != length or crc32c.crc32c(payload) != crc:
            raise ValueError(f"damaged record {len(found) + 1} in a served history")
        found.append(payload)
        at += 8 + length
    return found


def event_of(record: bytes) -> dict[str, Any]:
    """An event as checkers see it: id, type in snake case, time_ms, its fields (bytes as text)."""
    message = history_pb2.HistoryEvent.FromString(record)
    kind = message.WhichOneof("body")
    body = getattr(message, kind)
    event = {"id": message.event_id, "type": kind, "time_ms": message.time_ms}
    for field in body.DESCRIPTOR.fields:
        value = getattr(body, field.name)
        if isinstance(value, bytes):
            event[field.name] = value.decode(errors="replace")
        elif isinstance(value, str | int) and value:
            event[field.name] = value
    return event


# ---- tasks --------------------------------------------------------------------------------------


def poll_decision(types: Sequence[str], *, queue: str, worker: str, wait_ms: int) -> Request:
    query = {"types": ",".join(types), "task_queue": queue, "worker_id": worker, "wait": wait_ms}
    return Request(
        "GET",
        f"/api/workflow-tasks?{urlencode(query)}",
        None,
        "PollWorkflowTask",
        pb.PollWorkflowTaskRequest(types=types, task_queue=queue, worker_id=worker),
        lambda body: (
            body
            and {
                "workflow_id": body["workflow_id"],
                "run_id": body["run_id"],
                "token": body["task_token"],
                "length": body["history_length"],
                "steps": [
                    [s["kind"], s["status"], s.get("resolved_event_id", 0)] for s in body["steps"]
                ],
            }
        ),
        lambda task: (
            {
                "workflow_id": task.workflow_id,
                "run_id": task.run_id,
                "token": task.task_token,
                "length": task.history_length,
                "steps": [[s.kind, s.status, s.resolved_event_id] for s in task.steps],
            }
            if task.task_token
            else None
        ),
        wait_s=wait_ms / 1_000,
    )


def complete_decision(workflow_id: str, token: str, commands: Sequence[dict[str, Any]]) -> Request:
    return Request(
        "POST",
        "/api/workflow-tasks/complete",
        {"workflow_id": workflow_id, "task_token": token, "commands": list(commands)},
        "CompleteWorkflowTask",
        pb.CompleteWorkflowTaskRequest(
            workflow_id=workflow_id,
            task_token=token,
            commands=[_command(command) for command in commands],
        ),
        _nothing,
        _nothing,
    )


def _command(command: Mapping[str, Any]) -> pb.Command:
    kind = command["type"]
    fields: dict[str, Any] = {}
    for name, value in command.items():
        if name == "retry_policy":
            fields[name] = pb.ActivityRetry(**value)
        elif name in ("input", "data", "output"):
            fields[name] = value.encode()
        elif name != "type":
            fields[name] = value
    body = pb.Command.DESCRIPTOR.fields_by_name[kind].message_type
    return pb.Command(**{kind: getattr(pb, body.name)(**fields)})


def poll_activity(names: Sequence[str], *, queue: str, worker: str, wait_ms: int) -> Request:
    query = {
        "activities": ",".join(names),
        "task_queue": queue,
        "worker_id": worker,
        "wait": wait_ms,
    }
    return Request(
        "GET",
        f"/api/activity-tasks?{urlencode(query)}",
        None,
        "PollTask",
        pb.PollTaskRequest(activities=names, task_queue=queue, worker_id=worker),
        lambda body: (
            body
            and {
                "workflow_id": body["workflow_id"],
                "run_id": body["run_id"],
                "name": body["step_name"],
                "sequence": body["sequence"],
                "attempt": body["attempt"],
                "token": body["lease_token"],
                "lease_ms": body["lease_duration_ms"],
            }
        ),
        lambda task: (
            {
                "workflow_id": task.workflow_id,
                "run_id": task.run_id,
                "name": task.step_name,
                "sequence": task.sequence,
                "attempt": task.attempt,
                "token": task.lease_token,
                "lease_ms": task.lease_duration_ms,
            }
            if task.lease_token
            else None
        ),
        wait_s=wait_ms / 1_000,
    )


def complete_activity(
    task: Mapping[str, Any], *, output: str | None = None, error: str | None = None
) -> Request:
    body = {
        "workflow_id": task["workflow_id"],
        "step_name": task["name"],
        "sequence": task["sequence"],
        "lease_token": task["token"],
    }
    result = {"output": output} if error is None else {"error": error}
    message = pb.CompleteTaskRequest(**body)
    if error is None:
        message.output = (output or "").encode()
    else:
        message.error = error
    return Request(
        "POST",
        "/api/activity-tasks/complete",
        {**body, **result},
        "CompleteTask",
        message,
        _nothing,
        _nothing,
    )


def heartbeat(task: Mapping[str, Any], *, worker: str) -> Request:
    body = {
        "workflow_id": task["workflow_id"],
        "lease_token": task["token"],
        "worker_id": worker,
    }
    return Request(
        "POST",
        "/api/activity-tasks/heartbeat",
        body,
        "Heartbeat",
        pb.HeartbeatRequest(**body),
        _nothing,
        _nothing,
    )


# ---- the cluster (JSON alone) -------------------------------------------------------------------


def members() -> Request:
    """(entry that says so, {node: learner or voter}), as the node that is asked knows it: one that
    is cut off may know what has long changed."""
    return _admin(
        "GET",
        "/api/cluster",
        None,
        lambda body: (
            body["configuration_index"],
            {node["id"]: node.get("member", "voter") for node in body["nodes"]},
        ),
    )


def newest_members(answers: Iterable[tuple[int, dict[str, str]]]) -> dict[str, str]:
    """Of several answers to `members`, that of whoever knows the latest; {} of none."""
    return max(answers, key=lambda answer: answer[0], default=(0, {}))[1]


def add_node(node: str, raft: str) -> Request:
    return _admin("POST", "/api/cluster/nodes", {"id": node, "raft": raft}, lambda body: body)


def remove_node(node: str) -> Request:
    return _admin("DELETE", f"/api/cluster/nodes/{quote(node, safe='')}", None, lambda body: body)


def _admin(method: str, path: str, body: Any, read: Callable[[Any], Any]) -> Request:
    return Request(method, path, body, "", None, read, _nothing)
