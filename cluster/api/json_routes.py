"""The JSON API: which path and method means which call, and how its fields are read.

A route takes the request and returns what to send. Paths are matched undecoded, so that an id may
hold slashes (`%2F`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, unquote

from multidict import MultiMapping

from raftflow.cluster.api import views
from raftflow.cluster.api.decisions import COMPLETION_FIELDS, parse_answer, parse_token
from raftflow.cluster.api.encoding import Rows
from raftflow.cluster.api.handlers import admin, common, runs, tasks
from raftflow.cluster.api.handlers.common import new_request_id
from raftflow.cluster.api.limits import (
    DEFAULT_LIST_LIMIT,
    MAX_HISTORY_LIMIT,
    MAX_LIST_LIMIT,
    MAX_OFFSET,
    MAX_POLL_MS,
    MAX_TASKS_PER_POLL,
    check_id,
    check_payload,
    check_poll_request,
    check_types,
)
from raftflow.cluster.api.payloads import parse_time
from raftflow.cluster.api.services import NodeServices
from raftflow.cluster.api.status import ApiError
from raftflow.cluster.api.validation import Fields, names_in, parse_object
from raftflow.cluster.api.watch import Watch
from raftflow.cluster.store.views import RunFilter
from raftflow.engine.commands import (
    CancelRun,
    CompleteActivity,
    CreateNamespace,
    IdConflictPolicy,
    IdReusePolicy,
    RegisterTypes,
    SignalRun,
    StartRun,
    TerminateRun,
)
from raftflow.engine.ids import DEFAULT_TASK_QUEUE, RunKey
from raftflow.engine.state import RunStatus


@lru_cache(maxsize=128)  # workers ask the same again and again
def _pairs(query: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=100)
    except UnicodeDecodeError:
        raise ApiError("MALFORMED", "the query is not valid UTF-8") from None
    except ValueError as error:
        raise ApiError("MALFORMED", f"the query cannot be read: {error}") from None


@dataclass(slots=True)
class Request:
    """One call as the transport read it. ``workflow_id`` comes from the path, decoded."""

    node: NodeServices
    watch: Watch
    namespace: str
    workflow_id: str
    query_text: str
    headers: MultiMapping[str]
    body: bytes

    def fields(self, known: frozenset[str], later: frozenset[str] = frozenset()) -> Fields:
        return Fields(parse_object(self.body), known, later=later)

    def query(self, known: frozenset[str]) -> dict[str, str]:
        if not self.query_text:
            return {}
        values = dict(_pairs(self.query_text))
        for name in values:
            if name.startswith("attr.") and "attr.*" in known:
                raise ApiError("NOT_SUPPORTED", f"{name} is not supported yet")
            if name not in known:
                raise ApiError("UNKNOWN_FIELD", f'unknown field "{name}"')
        return values

    def payload(self, fields: Fields, name: str) -> bytes:
        data = fields.payload(name) or b""
        return check_payload(name, data, self.node.config.limits.payload_bytes)


@dataclass(frozen=True, slots=True)
class Answer:
    """What to send: a JSON object, or bytes in pieces. ``tasks`` are those that a poll's answer
    hands out: they go back when the caller has hung up."""

    status: int
    body: Any = None
    headers: Mapping[str, str] | None = None
    stream: AsyncIterator[bytes] | None = None
    tasks: tuple[Any, ...] = ()


NOTHING_CAME = Answer(204)

Handler = Callable[[Request], Awaitable[Answer]]

_REQUEST_ID = frozenset({"request_id"})
_START = _REQUEST_ID | {
    "type",
    "workflow_id",
    "input",
    "input_base64",
    "execution_timeout_ms",
    "id_reuse_policy",
    "id_conflict_policy",
    "task_queue",
}
_START_LATER = frozenset({"search_attributes", "memo", "parent_close_policy", "start_delay_ms"})
_LIST = frozenset(
    {
        "status",
        "q",
        "type",
        "task_queue",
        "started_after",
        "started_before",
        "limit",
        "offset",
        "cursor",
        "attr.*",
    }
)


def _request_id(fields: Fields) -> str:
    return fields.identifier("request_id", "") or new_request_id()


def _number(query: dict[str, str], name: str, default: int, *, least: int, most: int) -> int:
    text = query.get(name, "")
    if text == "":
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise ApiError("INVALID_FIELD", f"{name} must be an integer")
    if not least <= int(text) <= most:
        raise ApiError("INVALID_FIELD", f"{name} must be {least} to {most}")
    return int(text)


def _optional_id(query: dict[str, str], name: str, default: str = "") -> str:
    value = query.get(name, "")
    return check_id(name, value) if value else default


# ---- runs ---------------------------------------------------------------------------------------


async def start(request: Request) -> Answer:
    fields = request.fields(_START, _START_LATER)
    command = StartRun(
        namespace=request.namespace,
        workflow_id=fields.identifier("workflow_id", ""),
        run_id="",
        workflow_type=fields.identifier("type"),
        task_queue=fields.identifier("task_queue", DEFAULT_TASK_QUEUE),
        input=request.payload(fields, "input"),
        execution_timeout_ms=fields.integer("execution_timeout_ms", 0),
        id_reuse_policy=fields.choice(
            "id_reuse_policy", IdReusePolicy, IdReusePolicy.REJECT_DUPLICATE
        ),
        id_conflict_policy=fields.choice(
            "id_conflict_policy", IdConflictPolicy, IdConflictPolicy.FAIL
        ),
        request_id=_request_id(fields),
        # Several are none, and several lists are one: W3C Trace Context.
        traceparent=",".join(request.headers.getall("traceparent", ())),
        tracestate=",".join(request.headers.getall("tracestate", ())),
    )
    run = await runs.start(request.node, command)
    return Answer(
        201 if run.started else 200,
        {"workflow_id": run.workflow_id, "run_id": run.run_id, "started": run.started},
    )


async def list_runs(request: Request) -> Answer:
    query = request.query(_LIST)
    after, before = query.get("started_after"), query.get("started_before")
    wanted = RunFilter(
        namespace=request.namespace,
        statuses=_statuses(query.get("status", "")),
        query=query.get("q", ""),
        workflow_type=_optional_id(query, "type"),
        task_queue=_optional_id(query, "task_queue"),
        started_after_ms=parse_time(after, "started_after") if after else None,
        started_before_ms=parse_time(before, "started_before") if before else None,
        limit=_number(query, "limit", DEFAULT_LIST_LIMIT, least=0, most=MAX_LIST_LIMIT),
        offset=_number(query, "offset", 0, least=0, most=MAX_OFFSET),
        cursor=query.get("cursor", ""),
    )
    page, index = await runs.list_runs(request.node, wanted)
    return Answer(200, views.run_page(wanted, page), {"X-Workflowd-Applied-Index": str(index)})


def _statuses(text: str) -> tuple[RunStatus, ...]:
    found = []
    for name in filter(None, text.split(",")):
        status = RunStatus.__members__.get(name.upper())
        if status is None:
            raise ApiError(
                "INVALID_FIELD", f"status must be one of {', '.join(RunStatus.__members__)}"
            )
        found.append(status)
    return tuple(found)


async def describe(request: Request) -> Answer:
    run_id = _optional_id(request.query(frozenset({"run_id"})), "run_id")
    found = await runs.describe(request.node, request.namespace, request.workflow_id, run_id)
    return Answer(200, views.described(found))


async def runs_of(request: Request) -> Answer:
    request.query(frozenset())
    found = await runs.runs_of(request.node, request.namespace, request.workflow_id)
    return Answer(200, {"runs": Rows(found, views.run_summary)})


async def history(request: Request) -> Answer:
    query = request.query(frozenset({"run_id", "from", "limit", "wait", "format"}))
    binary = query.get("format", "json") == "binary"
    if not binary and query.get("format", "json") != "json":
        raise ApiError("INVALID_FIELD", "format must be json or binary")
    key = RunKey(request.namespace, request.workflow_id, _optional_id(query, "run_id"))
    page = await runs.history(
        request.node,
        request.watch,
        key,
        first=_number(query, "from", 1, least=1, most=10**9),
        limit=_number(query, "limit", MAX_HISTORY_LIMIT, least=1, most=MAX_HISTORY_LIMIT),
        wait_ms=_number(query, "wait", 0, least=0, most=MAX_POLL_MS),
    )
    if page is None:
        return NOTHING_CAME
    if not binary:
        return Answer(200, views.history_page(page))
    return Answer(
        200,
        headers={
            "Content-Type": "application/octet-stream",
            "Content-Disposition": f'attachment; filename="{page.run.key.run_id}.history"',
        },
        stream=runs.whole_history(request.node, page),
    )


async def signal(request: Request) -> Answer:
    known = _REQUEST_ID | {"name", "payload", "payload_base64", "run_id"}
    fields = request.fields(known)
    await runs.change(
        request.node,
        SignalRun(
            namespace=request.namespace,
            workflow_id=request.workflow_id,
            run_id=fields.identifier("run_id", ""),
            name=fields.identifier("name"),
            payload=request.payload(fields, "payload"),
            request_id=_request_id(fields),
        ),
    )
    return Answer(200, {"status": "delivered"})


async def terminate(request: Request) -> Answer:
    fields = request.fields(_REQUEST_ID | {"reason", "run_id"})
    await runs.change(
        request.node,
        TerminateRun(
            namespace=request.namespace,
            workflow_id=request.workflow_id,
            run_id=fields.identifier("run_id", ""),
            reason=fields.text("reason"),
            request_id=_request_id(fields),
        ),
    )
    return Answer(200, {"status": "terminated"})


async def cancel(request: Request) -> Answer:
    fields = request.fields(_REQUEST_ID | {"reason", "run_id", "graceful"})
    if fields.flag("graceful"):
        raise ApiError("NOT_SUPPORTED", "graceful cancellation is not supported yet")
    await runs.change(
        request.node,
        CancelRun(
            namespace=request.namespace,
            workflow_id=request.workflow_id,
            run_id=fields.identifier("run_id", ""),
            reason=fields.text("reason"),
            request_id=_request_id(fields),
        ),
    )
    return Answer(200, {"status": "cancelled"})


async def forget(request: Request) -> Answer:
    raise ApiError("NOT_SUPPORTED", "forgetting a closed run is not supported yet")


# ---- tasks --------------------------------------------------------------------------------------


async def register_types(request: Request) -> Answer:
    fields = request.fields(_REQUEST_ID | {"workflow_types", "worker_id", "sdk"})
    types = check_types(fields.texts("workflow_types"))
    fields.text("worker_id")
    fields.text("sdk")
    await common.register_types(
        request.node, RegisterTypes(namespace=request.namespace, workflow_types=types)
    )
    return Answer(200, {"status": "registered", "workflow_types": list(types)})


def _poll(request: Request, query: dict[str, str], names: str) -> tasks.Poll:
    return tasks.Poll(
        namespace=request.namespace,
        task_queue=_optional_id(query, "task_queue", DEFAULT_TASK_QUEUE),
        names=names_in(query.get(names, ""), names),
        worker_id=_optional_id(query, "worker_id"),
        request_id=check_poll_request(query.get("request_id", "")),
    )


async def poll_decision(request: Request) -> Answer:
    query = request.query(_REQUEST_ID | {"types", "worker_id", "task_queue"})
    task = await tasks.poll_decision(request.node, _poll(request, query, "types"))
    if task is None:
        return NOTHING_CAME
    return Answer(200, views.decision_task(task), tasks=(task,))


async def complete_decision(request: Request) -> Answer:
    fields = request.fields(_REQUEST_ID | COMPLETION_FIELDS)
    fields.identifier("request_id", "")
    node = request.node
    await tasks.complete_decision(
        node,
        parse_token(fields, request.namespace),
        lambda task: parse_answer(fields, task, node.config),
    )
    return Answer(200, {"status": "completed"})


async def poll_activity(request: Request) -> Answer:
    query = request.query(_REQUEST_ID | {"activities", "worker_id", "task_queue", "max"})
    poll = _poll(request, query, "activities")
    most = _number(query, "max", 1, least=1, most=MAX_TASKS_PER_POLL)
    if most > 1:
        found = await tasks.poll_activities(request.node, poll, most)
        if not found:
            return NOTHING_CAME
        body = {"tasks": Rows(found, views.activity_task)}
        return Answer(200, body, tasks=tuple(found))
    task = await tasks.poll_activity(request.node, poll)
    if task is None:
        return NOTHING_CAME
    return Answer(200, views.activity_task(task), tasks=(task,))


async def complete_activity(request: Request) -> Answer:
    fields = request.fields(
        _REQUEST_ID
        | {
            "workflow_id",
            "step_name",
            "sequence",
            "lease_token",
            "output",
            "output_base64",
            "error",
            "error_type",
            "non_retryable",
            "next_retry_delay_ms",
        }
    )
    output = fields.payload("output")
    failed = fields.values.get("error") is not None
    if failed and output is not None:
        raise ApiError("INVALID_FIELD", "output and error exclude each other")
    check_payload("output", output or b"", request.node.config.limits.payload_bytes)
    fields.identifier("request_id", "")
    await tasks.complete_activity(
        request.node,
        CompleteActivity(
            namespace=request.namespace,
            workflow_id=fields.identifier("workflow_id"),
            step_name=fields.identifier("step_name", ""),
            sequence=fields.integer("sequence", 0),
            lease_token=fields.identifier("lease_token"),
            failed=failed,
            output=output or b"",
            error=fields.text("error"),
            error_type=fields.text("error_type"),
            non_retryable=fields.flag("non_retryable"),
            next_retry_delay_ms=fields.integer("next_retry_delay_ms", -1, least=-1),
        ),
    )
    return Answer(200, {"status": "completed"})


async def heartbeat(request: Request) -> Answer:
    fields = request.fields(
        _REQUEST_ID | {"workflow_id", "lease_token", "worker_id", "details", "details_base64"}
    )
    details = fields.payload("details")
    check_payload("details", details or b"", request.node.config.limits.payload_bytes)
    fields.identifier("request_id", "")
    await tasks.heartbeat(
        request.node,
        namespace=request.namespace,
        workflow_id=fields.identifier("workflow_id"),
        lease_token=fields.identifier("lease_token"),
        worker_id=fields.identifier("worker_id", ""),
        details=details,
    )
    return Answer(200, {"status": "extended"})


# ---- the node and the cluster -------------------------------------------------------------------


async def create_namespace(request: Request) -> Answer:
    fields = request.fields(_REQUEST_ID | {"name", "retention_ms"})
    name = fields.identifier("name")
    retention_ms = fields.integer("retention_ms", 0)
    await admin.create_namespace(
        request.node,
        CreateNamespace(namespace=name, retention_ms=retention_ms, request_id=_request_id(fields)),
    )
    return Answer(201, {"name": name, "retention_ms": retention_ms})


async def list_namespaces(request: Request) -> Answer:
    request.query(frozenset())
    return Answer(200, await admin.namespaces(request.node))


async def health(request: Request) -> Answer:
    return Answer(200, await admin.health(request.node))


async def ready(request: Request) -> Answer:
    state = admin.readiness(request.node)
    return Answer(200 if state["ready"] else 503, state)


async def cluster(request: Request) -> Answer:
    return Answer(200, await admin.cluster(request.node))


# ---- the table ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Route:
    """``name`` is the operation, as gRPC and the metrics call it."""

    name: str
    handler: Handler
    polls: bool = False  # may wait for long; a stopping node ends it


Methods = Mapping[str, Route]

PATHS: Mapping[str, Methods] = {
    "/api/workflows": {
        "GET": Route("ListWorkflows", list_runs),
        "POST": Route("StartWorkflow", start),
    },
    "/api/workflow-types": {"POST": Route("RegisterWorkflowTypes", register_types)},
    "/api/workflow-tasks": {"GET": Route("PollWorkflowTask", poll_decision, polls=True)},
    "/api/workflow-tasks/complete": {"POST": Route("CompleteWorkflowTask", complete_decision)},
    "/api/activity-tasks": {"GET": Route("PollTask", poll_activity, polls=True)},
    "/api/activity-tasks/complete": {"POST": Route("CompleteTask", complete_activity)},
    "/api/activity-tasks/heartbeat": {"POST": Route("Heartbeat", heartbeat)},
    "/api/namespaces": {
        "GET": Route("ListNamespaces", list_namespaces),
        "POST": Route("CreateNamespace", create_namespace),
    },
    "/api/health": {"GET": Route("Health", health)},
    "/api/ready": {"GET": Route("Ready", ready)},
    "/api/cluster": {"GET": Route("DescribeCluster", cluster)},
}

# Under /api/workflows/{id}; "" is the run itself.
RUN_PATHS: Mapping[str, Methods] = {
    "": {
        "GET": Route("DescribeWorkflow", describe),
        "DELETE": Route("DeleteWorkflow", forget),
    },
    "runs": {"GET": Route("ListRuns", runs_of)},
    "history": {"GET": Route("GetHistory", history, polls=True)},
    "signal": {"POST": Route("SignalWorkflow", signal)},
    "terminate": {"POST": Route("TerminateWorkflow", terminate)},
    "cancel": {"POST": Route("CancelWorkflow", cancel)},
}

_RUN_PREFIX = "/api/workflows/"


def match(raw_path: str) -> tuple[Methods, str]:
    """The methods of an undecoded path, and the workflow id in it ("" when it has none)."""
    methods = PATHS.get(raw_path)
    if methods is not None:
        return methods, ""
    if raw_path.startswith(_RUN_PREFIX):
        encoded, _, verb = raw_path[len(_RUN_PREFIX) :].partition("/")
        run_methods = RUN_PATHS.get(verb)
        if run_methods is not None and encoded and not raw_path.endswith("/"):
            return run_methods, _workflow_id(encoded)
    raise ApiError("ROUTE_NOT_FOUND", "there is no such path; docs/protocol.md lists them")


def _workflow_id(encoded: str) -> str:
    try:
        decoded = unquote(encoded, errors="strict")
    except UnicodeDecodeError:
        raise ApiError("MALFORMED", "the workflow id in the path is not valid UTF-8") from None
    return check_id("workflow_id", decoded)
