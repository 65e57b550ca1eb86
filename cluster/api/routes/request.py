"""A call as the transport read it, and what a route makes of it.

A route says which fields it takes. Reading goes by that description alone, and the OpenAPI
document is made of it, so that neither can know a field which the other does not.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl

from multidict import MultiMapping

from raftflow.cluster.api.auth import Caller
from raftflow.cluster.api.feed import ClusterFeed
from raftflow.cluster.api.handlers.common import new_request_id
from raftflow.cluster.api.limits import check_id, check_payload
from raftflow.cluster.api.schema import Object, Schema
from raftflow.cluster.api.services import NodeServices
from raftflow.cluster.api.status import ApiError
from raftflow.cluster.api.validation import Fields, parse_object
from raftflow.cluster.api.watch import Watch

# Stands for every name that begins so in a query.
ATTRIBUTE_FILTERS = "attr.*"
_ATTRIBUTE = "attr."


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


@dataclass(slots=True)
class Request:
    """``path_id`` is the id in the path, decoded; "" when it has none."""

    node: NodeServices  # as the caller has it: what it proposes is signed
    watch: Watch
    route: Route
    caller: Caller
    namespace: str
    path_id: str
    query_text: str
    headers: MultiMapping[str]
    body: bytes
    secure: bool = False  # over TLS
    feed: ClusterFeed | None = None
    given: Mapping[str, Any] = field(default_factory=dict)  # the body, once it was read

    def fields(self, *, strict: bool = True) -> Fields:
        assert self.route.body is not None
        self.given = parse_object(self.body)
        return Fields(self.given, self.route.body.names, strict=strict)

    def query(self) -> dict[str, str]:
        if not self.query_text:
            return {}
        values = dict(_pairs(self.query_text))
        known = self.route.query.names
        for name in values:
            filters = name.startswith(_ATTRIBUTE) and ATTRIBUTE_FILTERS in known
            if name == ATTRIBUTE_FILTERS or not (filters or name in known):
                raise ApiError("UNKNOWN_FIELD", f'unknown field "{name}"')
        return values

    def payload(self, fields: Fields, name: str) -> bytes:
        data = fields.payload(name) or b""
        return check_payload(name, data, self.node.config.limits.payload_bytes)


Handler = Callable[[Request], Awaitable[Answer]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """``name`` is the operation, as gRPC and the metrics call it. ``answers`` are what success
    looks like, by status (None: no body); ``refusals`` the reasons beside those of every call."""

    name: str
    handler: Handler
    summary: str
    answers: Mapping[int, Schema | None]
    query: Object = field(default_factory=lambda: Object(fields={}))
    body: Object | None = None
    refusals: tuple[str, ...] = ()
    polls: bool = False  # may wait for long; a stopping node ends it
    streams: bool = False  # so may its answer
    namespaced: bool = True


Methods = Mapping[str, Route]


@lru_cache(maxsize=128)  # workers ask the same again and again
def _pairs(query: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=100)
    except UnicodeDecodeError:
        raise ApiError("MALFORMED", "the query is not valid UTF-8") from None
    except ValueError as error:
        raise ApiError("MALFORMED", f"the query cannot be read: {error}") from None


def request_id(fields: Fields) -> str:
    return fields.identifier("request_id", "") or new_request_id()


def number(query: Mapping[str, str], name: str, default: int, *, least: int, most: int) -> int:
    text = query.get(name, "")
    if text == "":
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise ApiError("INVALID_FIELD", f"{name} must be an integer")
    if not least <= int(text) <= most:
        raise ApiError("INVALID_FIELD", f"{name} must be {least} to {most}")
    return int(text)


def optional_id(query: Mapping[str, str], name: str, default: str = "") -> str:
    value = query.get(name, "")
    return check_id(name, value) if value else default
