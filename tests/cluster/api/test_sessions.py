"""Sessions of the page: cookies that no script reads, and no other page can use."""

from __future__ import annotations

from collections.abc import AsyncIterator
from http.cookies import SimpleCookie
from pathlib import Path

import aiohttp
import pytest
from json_client import Client, Reply
from ports import free_ports
from single_node import Served, config_for, serve
from token_kinds import id_of, mint, revoke

from raftflow.cluster.api.auth import Tokens
from raftflow.cluster.api.permissions import OPERATIONS, WORK
from raftflow.cluster.api.sessions import cookie
from raftflow.cluster.api.status import ApiError
from raftflow.engine.commands import RegisterTypes, Role

LINE = "the-operators-own-token"


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Served]:
    file = tmp_path / "tokens"
    file.write_text(f"{LINE} name=root\n")
    running = await serve(config_for(free_ports(3), tmp_path), tokens=Tokens.load(str(file)))
    running.node.apply(RegisterTypes(namespace="default", workflow_types=("Order",)))
    yield running
    await running.server.stop()


@pytest.fixture
async def client(guarded: Served) -> AsyncIterator[Client]:
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
        yield Client(session, guarded.http)


async def log_in(client: Client, token: str) -> str:
    reply = await client.post("/api/session", {"token": f" {token}\n"}, Origin=client.base)
    assert reply.status == 201, reply.content
    assert token not in reply.content.decode()
    morsel = SimpleCookie(reply.headers["Set-Cookie"])["rf_session"]
    assert (morsel["httponly"], morsel["samesite"], morsel["path"]) == (True, "Strict", "/")
    assert not morsel["secure"]
    return f"rf_session={morsel.value}"


def own(client: Client) -> dict[str, str]:
    return {"Origin": client.base, "X_Raftflow_Session": "1"}


async def test_over_tls_the_cookie_is_for_tls_alone() -> None:
    assert cookie("x", secure=True).endswith("; Secure")


async def test_a_page_logs_in_works_and_logs_out(client: Client, guarded: Served) -> None:
    session = await log_in(client, LINE)
    who = (await client.get("/api/session", Cookie=session)).json
    assert (who["actor"], who["role"], who["session"]) == ("file:root", "admin", True)
    assert "expires_at" in who
    # Everything but work, which no page does.
    assert set(OPERATIONS) - set(who["operations"]) == {
        name for name, permission in OPERATIONS.items() if permission is WORK
    }
    body = {"type": "Order", "workflow_id": "w"}
    started = await client.post("/api/workflows", body, Cookie=session, **own(client))
    assert started.status == 201
    (row,) = [each for each in guarded.node.harness.rows.audit if each.call == "StartWorkflow"]
    assert (row.actor, row.token_id) == ("file:root", session.split("_")[2])
    ended = await client.call("DELETE", "/api/session", Cookie=session, **own(client))
    assert ended.status == 200
    assert "Max-Age=0" in ended.headers["Set-Cookie"]
    assert (await client.get("/api/workflows", Cookie=session)).status == 401
    calls = [each.call for each in guarded.node.harness.rows.audit]
    assert calls == ["CreateSession", "StartWorkflow", "EndSession"]


async def test_it_has_the_rights_of_its_token_and_ends_with_it(
    client: Client, guarded: Served
) -> None:
    token = mint(guarded.node, Role.VIEWER, sees_payloads=False)
    session = await log_in(client, token)
    who = (await client.get("/api/session", Cookie=session)).json
    assert (who["actor"], who["role"], who["sees_payloads"]) == (id_of(token), "viewer", False)
    assert {"ListWorkflows", "DescribeCluster"} < set(who["operations"])
    assert not {"StartWorkflow", "AddNode", "MintToken"} & set(who["operations"])
    assert (await client.get("/api/workflows", Cookie=session)).status == 200
    refused = await client.post("/api/workflows", {"type": "A"}, Cookie=session, **own(client))
    assert refused.status == 403
    revoke(guarded.node, token)
    assert (await client.get("/api/workflows", Cookie=session)).status == 401


def is_refused(reply: Reply) -> bool:
    return reply.status == 403 and "comes from a page of this cluster" in reply.json["error"]


async def test_no_other_page_can_use_it(client: Client) -> None:
    session, body = await log_in(client, LINE), {"type": "Order"}
    for forged in (
        {},
        {"Origin": client.base},
        {"X_Raftflow_Session": "1"},
        {"X_Raftflow_Session": "1", "Origin": "http://evil.example"},
        {"X_Raftflow_Session": "1", "Origin": "null"},
        {"X_Raftflow_Session": "1", "Origin": client.base.replace("http://", "ftp://")},
        {"X_Raftflow_Session": "2", "Origin": client.base},
    ):
        for method, path in (("POST", "/api/workflows"), ("DELETE", "/api/workflows/w")):
            sent = body if method == "POST" else None
            reply = await client.call(method, path, sent, Cookie=session, **forged)
            assert is_refused(reply), forged
        reply = await client.call("DELETE", "/api/session", Cookie=session, **forged)
        assert is_refused(reply), forged
    behind_a_proxy = own(client) | {"Origin": client.base.replace("http://", "https://")}
    signal = {"name": "go"}
    path = "/api/workflows/w/signal"
    reply = await client.post(path, signal, Cookie=session, **behind_a_proxy)
    assert reply.status == 404
    member = {"X_Raftflow_Session": "1", "Origin": "http://127.0.0.1:8233"}  # another node's page
    assert (await client.post("/api/workflows", body, Cookie=session, **member)).status == 201


async def test_nobody_is_logged_in_by_another_page(client: Client) -> None:
    reply = await client.post("/api/session", {"token": LINE}, Origin="http://evil.example")
    assert reply.status == 403
    assert (await client.post("/api/session", {"token": LINE})).status == 201  # no browser


async def test_what_is_no_session(client: Client, guarded: Served) -> None:
    token = mint(guarded.node)
    for value in (token, LINE, "x", ""):
        assert (await client.get("/api/workflows", Cookie=f"rf_session={value}")).status == 401
    session = await log_in(client, token)
    value = session.partition("=")[2]
    bearer = {"Authorization": f"Bearer {value}"}
    nested = await client.post("/api/session", {"token": value})
    assert (nested.status, nested.json["reason"]) == (403, "PERMISSION_DENIED")
    assert (await client.get("/api/workflow-tasks", **bearer)).status == 403  # it takes no tasks
    assert (await client.post("/api/session", {"token": "x"})).status == 401
    assert (await client.post("/api/session", {})).status == 400
    plain = await client.call("DELETE", "/api/session", Authorization=f"Bearer {token}")
    assert plain.status == 400


async def test_a_header_counts_before_a_cookie(client: Client) -> None:
    session = await log_in(client, LINE)
    wrong = await client.get("/api/workflows", Cookie=session, Authorization="Bearer nonsense")
    assert wrong.status == 401


async def test_a_line_that_gives_less_ends_the_sessions_opened_with_it(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"{LINE} name=root\n")
    running = await serve(config_for(free_ports(3), tmp_path), tokens=Tokens.load(str(file)))
    try:
        async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
            opened = (await log_in(Client(session, running.http), LINE)).partition("=")[2]
        assert running.services.tokens.holder(opened).role is Role.ADMIN
        for less in ("role=viewer", "namespace=default"):
            file.write_text(f"{LINE} name=root {less}\n")
            restarted = Tokens.load(str(file))
            restarted.follow(running.services.replica, running.services.clock)
            with pytest.raises(ApiError, match="token file"):
                restarted.holder(opened)
    finally:
        await running.server.stop()
