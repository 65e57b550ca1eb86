"""The JSON API: which path and method means which call.

Paths are matched undecoded, so that an id may hold slashes (`%2F`) or be `..` (`%2E%2E`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from raftflow.cluster.api import views
from raftflow.cluster.api.decisions import COMPLETION, MAX_SEQUENCE, parse_answer, parse_token
from raftflow.cluster.api.encoding import Rows
from raftflow.cluster.api.handlers import common, tasks
from raftflow.cluster.api.limits import (
    MAX_NAMES,
    MAX_TASKS_PER_POLL,
    check_id,
    check_payload,
    check_poll_request,
    check_types,
)
from raftflow.cluster.api.routes import node, runs, steering
from raftflow.cluster.api.routes.request import (
    NOTHING_CAME,
    Answer,
    Methods,
    Request,
    Route,
    number,
    optional_id,
)
from raftflow.cluster.api.schema import (
    FLAG,
    ID,
    NAMES,
    OPTIONAL_ID,
    POLL_REQUEST_ID,
    REQUEST_ID,
    SENTENCE,
    TYPE_NAME,
    Object,
    array,
    integer,
    ref,
)
from raftflow.cluster.api.status import ApiError
from raftflow.cluster.api.validation import names_in
from raftflow.engine.commands import CompleteActivity, RegisterTypes
from raftflow.engine.ids import DEFAULT_TASK_QUEUE

# ---- tasks --------------------------------------------------------------------------------------


async def register_types(request: Request) -> Answer:
    fields = request.fields()
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
        task_queue=optional_id(query, "task_queue", DEFAULT_TASK_QUEUE),
        names=names_in(query.get(names, ""), names),
        worker_id=optional_id(query, "worker_id"),
        request_id=check_poll_request(query.get("request_id", "")),
    )


async def poll_decision(request: Request) -> Answer:
    query = request.query()
    task = await tasks.poll_decision(request.node, _poll(request, query, "types"))
    if task is None:
        return NOTHING_CAME
    return Answer(200, views.decision_task(task), tasks=(task,))


async def complete_decision(request: Request) -> Answer:
    fields = request.fields()
    fields.identifier("request_id", "")
    node = request.node
    await tasks.complete_decision(
        node,
        parse_token(fields, request.namespace),
        lambda task: parse_answer(fields, task, node.config),
    )
    return Answer(200, {"status": "completed"})


async def poll_activity(request: Request) -> Answer:
    query = request.query()
    poll = _poll(request, query, "activities")
    most = number(query, "max", 1, least=1, most=MAX_TASKS_PER_POLL)
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
    fields = request.fields()
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
    fields = request.fields()
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


# What they take. The commands of a decision are described where they are read.

POLL = {"worker_id": OPTIONAL_ID, "task_queue": OPTIONAL_ID, "request_id": POLL_REQUEST_ID}
_BODY_ID = {"request_id": REQUEST_ID}
_LEASE = {"workflow_id": ID, "lease_token": ID}

REGISTER_TYPES = Route(
    name="RegisterWorkflowTypes",
    handler=register_types,
    summary="Make workflow types known, for ever, in every node.",
    body=Object(
        fields={
            "workflow_types": {**array(TYPE_NAME, MAX_NAMES), "minItems": 1},
            "worker_id": SENTENCE,
            "sdk": SENTENCE,
            **_BODY_ID,
        },
        required=("workflow_types",),
    ),
    answers={200: ref("Registered")},
)
POLL_DECISION = Route(
    name="PollWorkflowTask",
    handler=poll_decision,
    summary="Wait for a workflow task.",
    query=Object(fields={"types": NAMES, **POLL}),
    answers={200: ref("WorkflowTask"), 204: None},
    polls=True,
)
COMPLETE_DECISION = Route(
    name="CompleteWorkflowTask",
    handler=complete_decision,
    summary="Decide: all commands are applied, or none.",
    body=Object(fields={**COMPLETION, **_BODY_ID}, required=("workflow_id", "task_token")),
    answers={200: ref("Completed")},
    refusals=(
        "WORKFLOW_NOT_FOUND",
        "RUN_CLOSED",
        "DECISION_STALE",
        "BAD_SEQUENCE",
        "INVALID_COMMAND",
        "TYPE_NOT_REGISTERED",
        "LIMIT_EXCEEDED",
        "LEASE_LOST",
        "UNREADABLE",
    ),
)
POLL_ACTIVITY = Route(
    name="PollTask",
    handler=poll_activity,
    summary="Wait for an activity task; with `max` above 1, for several.",
    query=Object(
        fields={"activities": NAMES, **POLL, "max": integer(1, MAX_TASKS_PER_POLL, default=1)}
    ),
    answers={200: {"oneOf": [ref("ActivityTask"), ref("ActivityTasks")]}, 204: None},
    polls=True,
)
COMPLETE_ACTIVITY = Route(
    name="CompleteTask",
    handler=complete_activity,
    summary="Report the outcome of an activity: `output` or `error`.",
    body=Object(
        fields={
            **_LEASE,
            "step_name": OPTIONAL_ID,
            "sequence": integer(0, MAX_SEQUENCE),
            "error": SENTENCE,
            "error_type": SENTENCE,
            "non_retryable": FLAG,
            "next_retry_delay_ms": integer(-1),
            **_BODY_ID,
        },
        required=("workflow_id", "lease_token"),
        payloads=("output",),
    ),
    answers={200: ref("Completed")},
    refusals=("WORKFLOW_NOT_FOUND", "LEASE_LOST", "UNREADABLE"),
)
HEARTBEAT = Route(
    name="Heartbeat",
    handler=heartbeat,
    summary="Keep the lease of an activity.",
    body=Object(
        fields={**_LEASE, "worker_id": OPTIONAL_ID, **_BODY_ID},
        required=("workflow_id", "lease_token"),
        payloads=("details",),
    ),
    answers={200: ref("Extended")},
    refusals=("LEASE_LOST",),
)


# ---- the table ----------------------------------------------------------------------------------


PATHS: Mapping[str, Methods] = {
    "/api/workflows": {"GET": runs.LIST, "POST": runs.START},
    "/api/workflow-types": {"POST": REGISTER_TYPES},
    "/api/workflow-tasks": {"GET": POLL_DECISION},
    "/api/workflow-tasks/complete": {"POST": COMPLETE_DECISION},
    "/api/activity-tasks": {"GET": POLL_ACTIVITY},
    "/api/activity-tasks/complete": {"POST": COMPLETE_ACTIVITY},
    "/api/activity-tasks/heartbeat": {"POST": HEARTBEAT},
    "/api/namespaces": {"GET": node.LIST_NAMESPACES, "POST": node.CREATE_NAMESPACE},
    "/api/health": {"GET": node.HEALTH},
    "/api/ready": {"GET": node.READY},
    "/api/cluster": {"GET": node.CLUSTER},
}

# Under a collection: what follows the id, "" being the thing itself.
MEMBERS: Mapping[str, Mapping[str, Methods]] = {
    "/api/workflows": {
        "": {"GET": runs.DESCRIBE, "DELETE": steering.DELETE},
        "runs": {"GET": runs.RUNS},
        "history": {"GET": runs.HISTORY},
        "signal": {"POST": steering.SIGNAL},
        "terminate": {"POST": steering.TERMINATE},
        "cancel": {"POST": steering.CANCEL},
        "pause": {"POST": steering.PAUSE},
        "unpause": {"POST": steering.UNPAUSE},
    },
    "/api/namespaces": {"": {"PUT": node.UPDATE_NAMESPACE}},
}


def templates() -> Iterator[tuple[str, Methods]]:
    """Every path there is, `{id}` standing for the id in it."""
    yield from PATHS.items()
    for collection, members in MEMBERS.items():
        for verb, methods in members.items():
            yield f"{collection}/{{id}}" + (f"/{verb}" if verb else ""), methods


def match(raw_path: str) -> tuple[Methods, str]:
    """The methods of an undecoded path, and the id in it ("" when it has none)."""
    methods = PATHS.get(raw_path)
    if methods is not None:
        return methods, ""
    for collection, members in MEMBERS.items():
        if raw_path.startswith(collection + "/"):
            encoded, slash, verb = raw_path[len(collection) + 1 :].partition("/")
            found = members.get(verb)
            if found is not None and encoded and bool(slash) == bool(verb):
                return found, _id(encoded)
    raise ApiError("ROUTE_NOT_FOUND", "there is no such path; docs/protocol.md lists them")


def _id(encoded: str) -> str:
    try:
        decoded = unquote(encoded, errors="strict")
    except UnicodeDecodeError:
        raise ApiError("MALFORMED", "the id in the path is not valid UTF-8") from None
    return check_id("the id in the path", decoded)
