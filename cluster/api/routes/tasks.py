"""Tasks: what workers register for, poll and complete."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from raftflow.cluster.api import views
from raftflow.cluster.api.decisions import COMPLETION, MAX_SEQUENCE, parse_answer, parse_token
from raftflow.cluster.api.encoding import Rows
from raftflow.cluster.api.handlers import common, tasks
from raftflow.cluster.api.limits import (
    MAX_NAMES,
    MAX_POLL_MS,
    MAX_TASKS_PER_POLL,
    check_id,
    check_payload,
    check_poll_request,
    check_types,
)
from raftflow.cluster.api.routes.request import (
    NOTHING_CAME,
    Answer,
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
    TOKEN,
    TYPE_NAME,
    Object,
    array,
    integer,
    ref,
)
from raftflow.cluster.api.status import ApiError
from raftflow.cluster.api.validation import Fields, names_in
from raftflow.cluster.dispatch import Poll
from raftflow.engine.commands import CompleteActivity, CompleteDecision, RegisterTypes
from raftflow.engine.ids import DEFAULT_TASK_QUEUE

_POLL = {"worker_id": OPTIONAL_ID, "task_queue": OPTIONAL_ID, "request_id": POLL_REQUEST_ID}
_MAX = integer(1, MAX_TASKS_PER_POLL, default=1)
# The leader has to hear of the poll and to write the grant, in an election too: a shorter one would
# only make tasks go out and come back.
_MIN_WAIT_MS = 1_000
_WAIT = integer(_MIN_WAIT_MS, MAX_POLL_MS, default=MAX_POLL_MS)
_NAMED = array(ID, MAX_NAMES)
EAGER_ACTIVITIES = Object(fields={"activities": _NAMED, **_POLL, "max": _MAX})
EAGER_DECISION = Object(fields={"types": _NAMED, **_POLL})


async def register_types(request: Request) -> Answer:
    fields = request.fields()
    types = check_types(fields.texts("workflow_types"))
    fields.text("worker_id")
    fields.text("sdk")
    fields.identifier("request_id", "")
    await common.register_types(
        request.node, RegisterTypes(namespace=request.namespace, workflow_types=types)
    )
    return Answer(200, {"status": "registered", "workflow_types": list(types)})


def _poll(request: Request, query: dict[str, str], names: str) -> Poll:
    return Poll(
        namespace=request.namespace,
        task_queue=optional_id(query, "task_queue", DEFAULT_TASK_QUEUE),
        names=names_in(query.get(names, ""), names),
        worker_id=optional_id(query, "worker_id"),
        request_id=check_poll_request(query.get("request_id", "")),
        most=number(query, "max", 1, least=1, most=MAX_TASKS_PER_POLL),
    )


def _wait_ms(query: dict[str, str]) -> int:
    return number(query, "wait", MAX_POLL_MS, least=_MIN_WAIT_MS, most=MAX_POLL_MS)


def _eager(request: Request, fields: Fields, takes: Object, names: str) -> Poll | None:
    """What the caller of a completion takes in its answer."""
    value = fields.values.get("eager")
    if value is None:
        return None
    wanted = Fields(value, takes.names, path=f"{fields.path}eager.")
    return Poll(
        namespace=request.namespace,
        task_queue=wanted.identifier("task_queue", DEFAULT_TASK_QUEUE),
        names=tuple(dict.fromkeys(check_id(names, name) for name in wanted.texts(names))),
        worker_id=wanted.identifier("worker_id", ""),
        request_id=check_poll_request(wanted.text("request_id")),
        most=wanted.integer("max", 1, least=1, most=MAX_TASKS_PER_POLL),
    )


def _handed_out(found: Sequence[Any], poll: Poll, view: Callable[[Any], Any]) -> Answer:
    if not found:
        return NOTHING_CAME
    body = view(found[0]) if poll.most == 1 else {"tasks": Rows(found, view)}
    return Answer(200, body, tasks=tuple(found))


async def poll_decision(request: Request) -> Answer:
    query = request.query()
    poll = _poll(request, query, "types")
    found = await tasks.poll_decision(request.node, poll, timeout_ms=_wait_ms(query))
    return _handed_out(found, poll, views.decision_task)


async def complete_decision(request: Request) -> Answer:
    # What nobody knows is refused once the task is known that has to go back.
    fields = request.fields(strict=False)

    def read(task: CompleteDecision) -> tuple[CompleteDecision, Poll | None]:
        fields.refuse_unknown()
        fields.identifier("request_id", "")
        eager = _eager(request, fields, EAGER_ACTIVITIES, "activities")
        return parse_answer(fields, task, request.node.config), eager

    task = parse_token(fields, request.namespace)
    found = await tasks.complete_decision(request.node, task, read)
    body: dict[str, Any] = {"status": "completed"}
    if fields.values.get("eager") is not None:
        body["activity_tasks"] = Rows(found, views.activity_task)
    return Answer(200, body, tasks=tuple(found))


async def poll_activity(request: Request) -> Answer:
    query = request.query()
    poll = _poll(request, query, "activities")
    found = await tasks.poll_activity(request.node, poll, timeout_ms=_wait_ms(query))
    return _handed_out(found, poll, views.activity_task)


async def complete_activity(request: Request) -> Answer:
    fields = request.fields()
    output = fields.payload("output")
    failed = fields.values.get("error") is not None
    if failed and output is not None:
        raise ApiError("INVALID_FIELD", "output and error exclude each other")
    check_payload("output", output or b"", request.node.config.limits.payload_bytes)
    fields.identifier("request_id", "")
    eager = _eager(request, fields, EAGER_DECISION, "types")
    found = await tasks.complete_activity(
        request.node,
        CompleteActivity(
            namespace=request.namespace,
            workflow_id=fields.identifier("workflow_id"),
            step_name=fields.identifier("step_name", ""),
            sequence=fields.integer("sequence", 0),
            lease_token=fields.token("lease_token"),
            failed=failed,
            output=output or b"",
            error=fields.text("error"),
            error_type=fields.text("error_type"),
            non_retryable=fields.flag("non_retryable"),
            next_retry_delay_ms=fields.integer("next_retry_delay_ms", -1, least=-1),
        ),
        eager,
    )
    body: dict[str, Any] = {"status": "completed"}
    if found:
        body["workflow_task"] = views.decision_task(found[0])
    return Answer(200, body, tasks=tuple(found))


async def heartbeat(request: Request) -> Answer:
    fields = request.fields()
    details = fields.payload("details")
    check_payload("details", details or b"", request.node.config.limits.payload_bytes)
    fields.identifier("request_id", "")
    await tasks.heartbeat(
        request.node,
        namespace=request.namespace,
        workflow_id=fields.identifier("workflow_id"),
        lease_token=fields.token("lease_token"),
        worker_id=fields.identifier("worker_id", ""),
        details=details,
    )
    return Answer(200, {"status": "extended"})


# What they take. The commands of a decision are described where they are read.

_BODY_ID = {"request_id": REQUEST_ID}
_LEASE = {"workflow_id": ID, "lease_token": TOKEN}

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
    summary="Wait for a workflow task; with `max` above 1, for several.",
    query=Object(fields={"types": NAMES, **_POLL, "max": _MAX, "wait": _WAIT}),
    answers={200: {"anyOf": [ref("WorkflowTask"), ref("WorkflowTasks")]}, 204: None},
    polls=True,
)
COMPLETE_DECISION = Route(
    name="CompleteWorkflowTask",
    handler=complete_decision,
    summary="Decide: all commands are applied, or none.",
    body=Object(
        fields={**COMPLETION, "eager": EAGER_ACTIVITIES.schema(), **_BODY_ID},
        required=("workflow_id", "task_token"),
        exclusive=(("command", "commands"),),
    ),
    answers={200: ref("DecisionCompleted")},
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
    query=Object(fields={"activities": NAMES, **_POLL, "max": _MAX, "wait": _WAIT}),
    answers={200: {"anyOf": [ref("ActivityTask"), ref("ActivityTasks")]}, 204: None},
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
            "eager": EAGER_DECISION.schema(),
            **_BODY_ID,
        },
        required=("workflow_id", "lease_token"),
        payloads=("output",),
        exclusive=(("output", "error"), ("output_base64", "error")),
    ),
    answers={200: ref("ActivityCompleted")},
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
