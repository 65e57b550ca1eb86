"""The JSON API as an OpenAPI 3.1 document, made of the routes themselves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Any

from raftflow.cluster.api.auth import NAMESPACE_HEADER
from raftflow.cluster.api.permissions import OPEN, OPERATIONS
from raftflow.cluster.api.routes.node import BACKUP_HEADER
from raftflow.cluster.api.routes.request import ATTRIBUTE_FILTERS, Methods, Route
from raftflow.cluster.api.schema import OPTIONAL_ID, TEXT, Object, Schema, ref
from raftflow.cluster.api.sessions import COOKIE
from raftflow.cluster.api.shapes import SHAPES
from raftflow.cluster.api.status import TABLE

# What any call may hear, whichever it is.
_ALWAYS = ("MALFORMED", "UNKNOWN_FIELD", "INVALID_FIELD", "UNAVAILABLE", "INTERNAL")
_WITH_BODY = ("NOT_JSON", "BODY_TOO_LARGE", "PAYLOAD_TOO_LARGE", "REQUEST_TIMEOUT")
_CHANGING = ("OVERLOADED", "MAYBE_APPLIED", "FEATURE_UNAVAILABLE")
_STATUS_TEXTS = {200: "Done.", 201: "Made.", 204: "Nothing came in time.", 503: "Not now."}
# These look at this node alone.
_LOCAL = frozenset(
    {
        *("Health", "Ready", "DescribeCluster", "WatchCluster", "CheckPorts"),
        *("DescribeApi", "DescribeSession"),
    }
)
_RETRY_AFTER = {
    "description": "Seconds to wait before asking again.",
    "schema": {"type": "integer", "minimum": 1},
}


def document(paths: Iterable[tuple[str, Methods]]) -> dict[str, Any]:
    described = {path: _path(path, methods) for path, methods in paths}
    started = described["/api/workflows"]["post"]["responses"]["201"]
    started["links"] = _links(described)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "raftflow",
            "version": version("raftflow"),
            "description": "A durable workflow engine. docs/protocol.md tells the same in prose.",
        },
        "paths": described,
        "components": {
            "schemas": dict(SHAPES),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": COOKIE},
            },
        },
        # Any, as the node is set up: who calls is asked where auth is on.
        "security": [{}, {"token": []}, {"session": []}],
    }


def _links(paths: Mapping[str, Any]) -> dict[str, Any]:
    """What can be asked of a run that was started."""
    names = [
        operation["operationId"]
        for path, operations in paths.items()
        if path.startswith("/api/workflows/{id}")
        for method, operation in operations.items()
        if method != "parameters"
    ]
    id_of_it = {"id": "$response.body#/workflow_id"}
    return {name: {"operationId": name, "parameters": id_of_it} for name in names}


def _path(path: str, methods: Methods) -> dict[str, Any]:
    shown: dict[str, Any] = {
        method.lower(): _operation(method, path, route) for method, route in methods.items()
    }
    if "{id}" in path:
        shown["parameters"] = [
            {
                "name": "id",
                "in": "path",
                "required": True,
                "schema": {**OPTIONAL_ID, "minLength": 1},
                "description": "Percent-encoded, slashes too; `.` and `..` as `%2E` and `%2E%2E`.",
                "example": "order-42",
            }
        ]
    return shown


def _operation(method: str, path: str, route: Route) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "tags": [path.split("/")[2].removesuffix(".json")],
        "parameters": [*_query(route.query), *_headers(route)],
        "responses": _responses(route, changing=method != "GET"),
    }
    if OPERATIONS[route.name] is OPEN:
        shown["security"] = []
    if route.body is not None:
        shown["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": route.body.schema()}},
        }
    return shown


def _query(query: Object) -> list[dict[str, Any]]:
    return [
        # The names themselves stand in the query: attr.city=Rome&attr.vip=true.
        {"name": "attributes", "in": "query", "style": "form", "explode": True, "schema": schema}
        if name == ATTRIBUTE_FILTERS
        else {"name": name, "in": "query", "schema": schema, "required": name in query.required}
        for name, schema in query.properties.items()
    ]


def _headers(route: Route) -> list[dict[str, Any]]:
    if not route.namespaced:
        return []
    namespace = {**OPTIONAL_ID, "default": "default", "example": "default"}
    shown = [{"name": NAMESPACE_HEADER, "in": "header", "schema": namespace}]
    if route.name == "StartWorkflow":
        shown += [
            {"name": name, "in": "header", "schema": TEXT} for name in ("traceparent", "tracestate")
        ]
    return shown


def _responses(route: Route, *, changing: bool) -> dict[str, Any]:
    shown = {str(status): _answer(route, status, shape) for status, shape in route.answers.items()}
    for status, reasons in sorted(_refusals(route, changing).items()):
        refused = {
            "description": ", ".join(sorted(reasons)),
            "content": {"application/json": {"schema": ref("Error")}},
        }
        if status in (429, 503):
            refused["headers"] = {"Retry-After": _RETRY_AFTER}
        shown.setdefault(str(status), refused)
    return shown


def _answer(route: Route, status: int, shape: Schema | None) -> dict[str, Any]:
    shown: dict[str, Any] = {"description": _STATUS_TEXTS[status]}
    if shape is not None:
        shown["content"] = {"application/json": {"schema": shape}}
    if route.name == "TakeBackup" and status == 200:
        shown["content"] = {"application/octet-stream": {}}
        shown["headers"] = {
            BACKUP_HEADER: {"description": "Its manifest, as JSON.", "schema": {"type": "string"}}
        }
    if route.streams:
        shown["content"] = {"text/event-stream": {}}
    if route.name == "GetHistory" and status == 200:
        shown["content"]["application/octet-stream"] = {}
    if route.name == "ListWorkflows":
        shown["headers"] = {
            "X-Workflowd-Applied-Index": {
                "description": "How far the store of this node was.",
                "schema": {"type": "integer"},
            }
        }
    return shown


def _refusals(route: Route, changing: bool) -> Mapping[int, set[str]]:
    reasons = {*route.refusals}
    if route.name not in _LOCAL:
        reasons |= {*_ALWAYS}
    if route.namespaced:
        reasons.add("NAMESPACE_NOT_FOUND")
    if OPERATIONS[route.name] is not OPEN:
        reasons |= {"UNAUTHENTICATED", "PERMISSION_DENIED"}
    if changing:
        reasons |= {*_CHANGING}
    if route.body is not None:
        reasons |= {*_WITH_BODY}
    by_status: dict[int, set[str]] = defaultdict(set)
    for reason in reasons:
        by_status[TABLE[reason].http].add(reason)
    return by_status
