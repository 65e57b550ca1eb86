"""The JSON API: which path and method means which call.

Paths are matched undecoded, so that an id may hold slashes (`%2F`) or be `..` (`%2E%2E`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any
from urllib.parse import unquote

from raftflow.cluster.api import openapi
from raftflow.cluster.api.limits import check_id
from raftflow.cluster.api.routes import (
    access,
    cluster,
    node,
    queues,
    runs,
    steering,
    tasks,
    why,
)
from raftflow.cluster.api.routes.request import Answer, Methods, Request, Route
from raftflow.cluster.api.status import ApiError


async def describe_api(request: Request) -> Answer:
    """This document, for whoever has any token."""
    request.query()
    return Answer(200, _document())


@cache
def _document() -> dict[str, Any]:
    return openapi.document(templates())


PATHS: Mapping[str, Methods] = {
    "/api/workflows": {"GET": runs.LIST, "POST": runs.START},
    "/api/workflow-types": {"POST": tasks.REGISTER_TYPES},
    "/api/workflow-tasks": {"GET": tasks.POLL_DECISION},
    "/api/workflow-tasks/complete": {"POST": tasks.COMPLETE_DECISION},
    "/api/activity-tasks": {"GET": tasks.POLL_ACTIVITY},
    "/api/activity-tasks/complete": {"POST": tasks.COMPLETE_ACTIVITY},
    "/api/activity-tasks/heartbeat": {"POST": tasks.HEARTBEAT},
    "/api/queues": {"GET": queues.QUEUES},
    "/api/workers": {"GET": queues.WORKERS},
    "/api/namespaces": {"GET": node.LIST_NAMESPACES, "POST": node.CREATE_NAMESPACE},
    "/api/tokens": {"GET": access.LIST, "POST": access.MINT},
    "/api/session": {
        "GET": access.DESCRIBE_SESSION,
        "POST": access.CREATE_SESSION,
        "DELETE": access.END_SESSION,
    },
    "/api/audit": {"GET": access.LIST_AUDIT},
    "/api/health": {"GET": node.HEALTH},
    "/api/ready": {"GET": node.READY},
    "/api/cluster": {"GET": cluster.DESCRIBE},
    "/api/cluster/history": {"GET": cluster.HISTORY},
    "/api/cluster/events": {"GET": cluster.EVENTS},
    "/api/cluster/transfer": {"POST": cluster.TRANSFER},
    "/api/cluster/nodes": {"POST": node.ADD_NODE},
    "/api/cluster/backup": {"GET": node.TAKE_BACKUP},
    "/api/why/log": {"GET": why.LOG},
    "/api/why/leader": {"GET": why.LEADER},
    "/api/openapi.json": {
        "GET": Route(
            name="DescribeApi",
            handler=describe_api,
            summary="This document.",
            answers={200: {"type": "object"}},
            namespaced=False,
        )
    },
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
    "/api/namespaces": {
        "": {"PUT": node.UPDATE_NAMESPACE},
        "quota": {"PUT": node.SET_QUOTA},
    },
    "/api/tokens": {"": {"DELETE": access.REVOKE}},
    "/api/cluster/nodes": {
        "": {"DELETE": node.REMOVE_NODE},
        "snapshot": {"POST": cluster.SNAPSHOT},
    },
    "/api/why/run": {"": {"GET": why.RUN}},
    "/api/why/task": {"": {"GET": why.TASK}},
    "/api/why/queue": {"": {"GET": why.QUEUE}},
    "/api/why/node": {"": {"GET": why.NODE}},
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
