"""The node and the cluster: namespaces, health, readiness, who leads, backups."""

from __future__ import annotations

import json
from dataclasses import asdict

from raftflow.cluster.api import views
from raftflow.cluster.api.handlers import admin
from raftflow.cluster.api.routes.request import Answer, Request, Route, request_id
from raftflow.cluster.api.schema import (
    ID,
    NODE_ADDRESS,
    NODE_ID,
    REQUEST_ID,
    Object,
    Schema,
    integer,
    ref,
)
from raftflow.cluster.api.status import ApiError
from raftflow.engine.commands import CreateNamespace, SetQuota, UpdateNamespace

_RETENTION = integer(description="How long closed runs are kept; 0: for ever.")


async def create_namespace(request: Request) -> Answer:
    fields = request.fields()
    name = fields.identifier("name")
    retention_ms = fields.integer("retention_ms", 0)
    await admin.change_namespace(
        request.node,
        CreateNamespace(namespace=name, retention_ms=retention_ms, request_id=request_id(fields)),
    )
    return Answer(201, {"name": name, "retention_ms": retention_ms})


CREATE_NAMESPACE = Route(
    name="CreateNamespace",
    handler=create_namespace,
    summary="Create a namespace.",
    body=Object(
        fields={"name": ID, "retention_ms": _RETENTION, "request_id": REQUEST_ID},
        required=("name",),
    ),
    answers={201: ref("Namespace")},
    refusals=("NAMESPACE_EXISTS", "REQUEST_ID_REUSED"),
    namespaced=False,
)


async def update_namespace(request: Request) -> Answer:
    fields = request.fields()
    retention_ms = fields.integer("retention_ms")
    await admin.change_namespace(
        request.node,
        UpdateNamespace(
            namespace=request.path_id, retention_ms=retention_ms, request_id=request_id(fields)
        ),
    )
    return Answer(200, {"name": request.path_id, "retention_ms": retention_ms})


UPDATE_NAMESPACE = Route(
    name="UpdateNamespace",
    handler=update_namespace,
    summary="Change how long a namespace keeps closed runs.",
    body=Object(
        fields={"retention_ms": _RETENTION, "request_id": REQUEST_ID}, required=("retention_ms",)
    ),
    answers={200: ref("Namespace")},
    refusals=("NAMESPACE_NOT_FOUND", "REQUEST_ID_REUSED"),
    namespaced=False,
)


async def set_quota(request: Request) -> Answer:
    fields = request.fields()
    max_open_runs = fields.integer("max_open_runs", 0)
    starts_per_second = fields.integer("starts_per_second", 0)
    await admin.change_namespace(
        request.node,
        SetQuota(
            namespace=request.path_id,
            max_open_runs=max_open_runs,
            starts_per_second=starts_per_second,
            request_id=request_id(fields),
        ),
    )
    return Answer(
        200,
        {
            "name": request.path_id,
            "max_open_runs": max_open_runs,
            "starts_per_second": starts_per_second,
        },
    )


SET_QUOTA = Route(
    name="SetNamespaceQuota",
    handler=set_quota,
    summary="Say how many runs of a namespace may be open, and be started in a second. Takes the"
    " place of what was said before.",
    body=Object(
        fields={
            "max_open_runs": integer(description="0: no bound.", default=0),
            "starts_per_second": integer(description="0: no bound.", default=0),
            "request_id": REQUEST_ID,
        }
    ),
    answers={200: ref("Quota")},
    refusals=("NAMESPACE_NOT_FOUND", "REQUEST_ID_REUSED"),
    namespaced=False,
)


async def list_namespaces(request: Request) -> Answer:
    request.query()
    found = await admin.namespaces(request.node)
    return Answer(200, {"namespaces": [views.namespace(record) for record in found]})


LIST_NAMESPACES = Route(
    name="ListNamespaces",
    handler=list_namespaces,
    summary="All namespaces.",
    answers={200: ref("Namespaces")},
    namespaced=False,
)


async def health(request: Request) -> Answer:
    return Answer(200, await admin.health(request.node))


HEALTH = Route(
    name="Health",
    handler=health,
    summary="How this node is, without asking anybody.",
    answers={200: ref("Health")},
    namespaced=False,
)


async def ready(request: Request) -> Answer:
    state = admin.readiness(request.node)
    return Answer(200 if state["ready"] else 503, state)


READY = Route(
    name="Ready",
    handler=ready,
    summary="Whether this node knows a leader and has caught up.",
    answers={200: ref("Readiness"), 503: ref("Readiness")},
    namespaced=False,
)


_KINDS = ("voter", "api")
_KIND: Schema = {
    "type": "string",
    "enum": list(_KINDS),
    "description": "A node that will vote, or one that serves and never votes.",
}


async def add_node(request: Request) -> Answer:
    fields = request.fields()
    node_id = fields.identifier("id")
    role = fields.text("as", "voter")
    if role not in _KINDS:
        raise ApiError("INVALID_FIELD", f"as: {' or '.join(_KINDS)}")
    raft = fields.text("raft")
    added = await admin.add_node(request.node, node_id, raft, api=role == "api")
    return Answer(201, added)


ADD_NODE = Route(
    name="AddNode",
    handler=add_node,
    summary="Add a node to the cluster: it gets the log, and votes once it has caught up.",
    body=Object(fields={"id": NODE_ID, "raft": NODE_ADDRESS, "as": _KIND}, required=("id", "raft")),
    answers={201: ref("MemberChanged")},
    refusals=("NODE_EXISTS", "MEMBERSHIP_REFUSED"),
    namespaced=False,
)


async def remove_node(request: Request) -> Answer:
    request.query()
    return Answer(200, await admin.remove_node(request.node, request.path_id))


REMOVE_NODE = Route(
    name="RemoveNode",
    handler=remove_node,
    summary="Take a node out of the cluster. It may be the leader.",
    answers={200: ref("MemberChanged")},
    refusals=("NODE_NOT_FOUND", "MEMBERSHIP_REFUSED"),
    namespaced=False,
)


# What the body is, as JSON: the manifest of the backup.
BACKUP_HEADER = "X-Raftflow-Backup"


async def take_backup(request: Request) -> Answer:
    request.query()
    request.caller.may_see_payloads()  # it holds them all
    taken = await admin.take_backup(request.node, caller=request.caller.actor)
    return Answer(
        200,
        headers={
            "Content-Type": "application/octet-stream",
            BACKUP_HEADER: json.dumps(asdict(taken.manifest)),
        },
        stream=taken.pieces(),
    )


TAKE_BACKUP = Route(
    name="TakeBackup",
    handler=take_backup,
    summary="The whole state at one entry, as `raftflow backup create` keeps it.",
    answers={200: None},
    refusals=("OVERLOADED",),
    namespaced=False,
)
