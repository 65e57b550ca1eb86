"""Tokens, sessions of the page, and the audit log."""

from __future__ import annotations

from typing import Any

from raftflow.cluster.api import views
from raftflow.cluster.api.encoding import Rows
from raftflow.cluster.api.handlers import access
from raftflow.cluster.api.handlers.common import new_request_id
from raftflow.cluster.api.limits import DEFAULT_LIST_LIMIT, MAX_LIST_LIMIT, audit_cursor
from raftflow.cluster.api.payloads import parse_time
from raftflow.cluster.api.permissions import KEPT
from raftflow.cluster.api.routes.request import (
    Answer,
    Request,
    Route,
    number,
    optional_id,
    request_id,
)
from raftflow.cluster.api.schema import (
    FLAG,
    ID,
    OPTIONAL_ID,
    OPTIONAL_TIME,
    REQUEST_ID,
    TEXT,
    Object,
    array,
    integer,
    ref,
)
from raftflow.cluster.api.sessions import cookie, no_cookie
from raftflow.cluster.api.status import ApiError
from raftflow.cluster.store.views import AuditFilter
from raftflow.engine.commands import Role
from raftflow.engine.tokens import MAX_NAMESPACES

_ROLES = [role.name.lower() for role in Role]


def role_of(text: str) -> Role:
    role = Role.__members__.get(text.upper()) if text in _ROLES else None
    if role is None:
        raise ApiError("INVALID_FIELD", f"role must be one of {', '.join(_ROLES)}")
    return role


# ---- tokens -------------------------------------------------------------------------------------


async def mint(request: Request) -> Answer:
    fields = request.fields()
    namespaces = fields.texts("namespaces", most=MAX_NAMESPACES)
    sees_payloads = fields.flag("sees_payloads")
    request.caller.may_mint(sees_payloads=sees_payloads)
    minted = await access.mint(
        request.node,
        name=fields.identifier("name"),
        role=role_of(fields.text("role")),
        namespaces=tuple(dict.fromkeys(namespaces)),
        sees_payloads=sees_payloads,
        lifetime_ms=fields.integer("lifetime_ms", 0),
        request_id=request_id(fields),
    )
    shown = views.token(minted.record, "good")
    return Answer(201, {"token": minted.text, **shown, "not_yet": list(minted.reached.not_yet)})


MINT = Route(
    name="MintToken",
    handler=mint,
    summary="Mint a token. Its text is in this answer and nowhere else.",
    body=Object(
        fields={
            "name": ID,
            "role": {"type": "string", "enum": _ROLES},
            "namespaces": array(ID, MAX_NAMESPACES),
            "sees_payloads": FLAG,
            "lifetime_ms": integer(description="How long it is good; 0: until it is revoked."),
            "request_id": REQUEST_ID,
        },
        required=("name", "role"),
    ),
    answers={201: ref("MintedToken")},
    refusals=("NAMESPACE_NOT_FOUND", "REQUEST_ID_REUSED", "LIMIT_EXCEEDED", "INVALID_COMMAND"),
    namespaced=False,
)


async def list_tokens(request: Request) -> Answer:
    request.query()
    found, status = await access.tokens(request.node), request.node.tokens.status
    return Answer(200, {"tokens": Rows(found, lambda each: views.token(each, status(each)))})


LIST = Route(
    name="ListTokens",
    handler=list_tokens,
    summary="All tokens and sessions, without their secrets.",
    answers={200: ref("Tokens")},
    namespaced=False,
)


async def revoke(request: Request) -> Answer:
    query = request.query()
    asked = optional_id(query, "request_id") or new_request_id()
    token_id = access.id_of(request.path_id)
    reached = await access.revoke(request.node, token_id, asked)
    return Answer(200, views.revoked(token_id, reached))


REVOKE = Route(
    name="RevokeToken",
    handler=revoke,
    summary="Revoke a token, and with it its sessions, its streams and its parked polls.",
    query=Object(fields={"request_id": REQUEST_ID}),
    answers={200: ref("TokenRevoked")},
    refusals=("TOKEN_NOT_FOUND", "REQUEST_ID_REUSED"),
    namespaced=False,
)


# ---- sessions -----------------------------------------------------------------------------------


async def create_session(request: Request) -> Answer:
    """Its caller is whoever holds the token in the body."""
    opened = await access.open_session(request.node, request.caller)
    body = _who(request, opened.record.expires_ms)
    return Answer(201, body, {"Set-Cookie": cookie(opened.text, secure=request.secure)})


CREATE_SESSION = Route(
    name="CreateSession",
    handler=create_session,
    summary="Log in: a token for a cookie, which its page cannot read.",
    body=Object(fields={"token": {**TEXT, "minLength": 1}}, required=("token",)),
    answers={201: ref("Session")},
    refusals=("UNAUTHENTICATED", "PERMISSION_DENIED", "LIMIT_EXCEEDED"),
    namespaced=False,
)


async def describe_session(request: Request) -> Answer:
    request.query()
    record = request.node.replica.catalog.tokens.get(request.caller.token_id)
    return Answer(200, _who(request, record.expires_ms if record else 0))


DESCRIBE_SESSION = Route(
    name="DescribeSession",
    handler=describe_session,
    summary="Who the caller is, and what it may.",
    answers={200: ref("Session")},
    namespaced=False,
)


async def end_session(request: Request) -> Answer:
    request.query()
    reached = await access.end_session(request.node, request.caller)
    shown = views.revoked(request.caller.token_id, reached)
    return Answer(200, shown, {"Set-Cookie": no_cookie(secure=request.secure)})


END_SESSION = Route(
    name="EndSession",
    handler=end_session,
    summary="Log out, on all nodes.",
    answers={200: ref("TokenRevoked")},
    namespaced=False,
)


def _who(request: Request, expires_ms: int) -> dict[str, Any]:
    return views.caller(request.caller, expires_ms, on=request.node.tokens.on)


# ---- the audit log ------------------------------------------------------------------------------


async def list_audit(request: Request) -> Answer:
    query = request.query()
    after, before = query.get("after"), query.get("before")
    order = query.get("order") or "newest"
    if order not in ("newest", "oldest"):
        raise ApiError("INVALID_FIELD", "order must be newest or oldest")
    wanted = AuditFilter(
        actor=optional_id(query, "actor"),
        call=optional_id(query, "call"),
        namespace=optional_id(query, "namespace"),
        target=optional_id(query, "target"),
        outcome=optional_id(query, "outcome"),
        after_ms=parse_time(after, "after") if after else None,
        before_ms=parse_time(before, "before") if before else None,
        oldest_first=order == "oldest",
        limit=number(query, "limit", DEFAULT_LIST_LIMIT, least=1, most=MAX_LIST_LIMIT),
        cursor=audit_cursor(query.get("cursor", "")),
    )
    page = await access.audit_log(request.node, wanted)
    body: dict[str, Any] = {"entries": Rows(page.records, views.audit_entry)}
    if page.cursor:
        body["next_cursor"] = str(page.cursor)
    return Answer(200, body)


LIST_AUDIT = Route(
    name="ListAudit",
    handler=list_audit,
    summary="Who changed what. A page may be short, and yet not the last one.",
    query=Object(
        fields={
            "actor": OPTIONAL_ID,
            "call": {"type": "string", "enum": ["", *KEPT]},
            "namespace": OPTIONAL_ID,
            "target": OPTIONAL_ID,
            "outcome": OPTIONAL_ID,
            "after": OPTIONAL_TIME,
            "before": OPTIONAL_TIME,
            "order": {"type": "string", "enum": ["newest", "oldest"], "default": "newest"},
            "limit": integer(1, MAX_LIST_LIMIT, default=DEFAULT_LIST_LIMIT),
            "cursor": TEXT,
        }
    ),
    answers={200: ref("AuditPage")},
    namespaced=False,
)
