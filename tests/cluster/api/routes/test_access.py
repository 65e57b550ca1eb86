"""Tokens and the audit log over both APIs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest
from grpc import aio
from json_client import Client
from ports import free_ports
from single_node import Served, config_for, serve
from token_kinds import id_of, mint

from raftflow.cluster.api.auth import Tokens
from raftflow.engine.commands import RegisterTypes, Role
from raftflow.proto.workflow.v1 import service_pb2 as pb
from raftflow.proto.workflow.v1 import service_pb2_grpc


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Served]:
    running = await serve(config_for(free_ports(3), tmp_path), tokens=Tokens(on=True))
    running.node.apply(RegisterTypes(namespace="default", workflow_types=("Order",)))
    yield running
    await running.server.stop()


class Admin:
    def __init__(self, client: Client, token: str) -> None:
        self.client = client
        self.id = id_of(token)
        self._headers = {"Authorization": f"Bearer {token}"}

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        reply = await self.client.call(method, path, body, **self._headers)
        return reply.json


@pytest.fixture
async def admin(guarded: Served) -> AsyncIterator[Admin]:
    async with aiohttp.ClientSession() as session:
        yield Admin(Client(session, guarded.http), mint(guarded.node))


async def test_a_token_is_minted_used_and_revoked(admin: Admin, guarded: Served) -> None:
    asked = {
        "name": "ci",
        "role": "user",
        "namespaces": ["default"],
        "lifetime_ms": 60_000,
        "request_id": "q",
    }
    minted = await admin.call("POST", "/api/tokens", asked)
    text, token_id = minted.pop("token"), minted["id"]
    assert text.startswith(f"rf_{token_id}_")
    assert minted | {"created_at": "", "expires_at": ""} == {
        "id": token_id,
        "name": "ci",
        "role": "user",
        "namespaces": ["default"],
        "sees_payloads": False,
        "status": "good",
        "created_at": "",
        "expires_at": "",
        "not_yet": [],
    }
    # Again: not another one, and never the secret.
    again = await admin.call("POST", "/api/tokens", asked)
    assert again["reason"] == "REQUEST_ID_REUSED"
    assert token_id in again["error"]
    assert text not in str(again)
    user = {"Authorization": f"Bearer {text}"}
    started = await admin.client.post("/api/workflows", {"type": "Order"}, **user)
    assert started.status == 201
    listed = (await admin.call("GET", "/api/tokens"))["tokens"]
    assert [(each["id"], each["status"]) for each in listed if each["name"] == "ci"] == [
        (token_id, "good")
    ]
    record = guarded.node.catalog.tokens[token_id]
    for secret in (text.split("_")[2], record.salt.hex(), record.digest.hex()):
        assert secret not in str(listed)
    done = await admin.call("DELETE", f"/api/tokens/{token_id}")
    assert done == {"id": token_id, "status": "revoked", "applied_by": ["n1"], "not_yet": []}
    assert (await admin.client.post("/api/workflows", {"type": "Order"}, **user)).status == 401
    (mine,) = [
        each
        for each in (await admin.call("GET", "/api/tokens"))["tokens"]
        if each["id"] == token_id
    ]
    assert (mine["status"], "revoked_at" in mine) == ("revoked", True)
    missing = await admin.call("DELETE", "/api/tokens/aaaaaaaaaaaa")
    assert missing["reason"] == "TOKEN_NOT_FOUND"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"name": "a", "role": "root"}, "INVALID_FIELD"),
        ({"name": "a"}, "INVALID_FIELD"),
        ({"role": "user"}, "INVALID_FIELD"),
        ({"name": "a", "role": "user", "namespaces": ["nowhere"]}, "NAMESPACE_NOT_FOUND"),
        ({"name": "a", "role": "user", "lifetime_ms": -1}, "INVALID_FIELD"),
    ],
)
async def test_tokens_that_cannot_be(admin: Admin, body: dict[str, Any], reason: str) -> None:
    assert (await admin.call("POST", "/api/tokens", body))["reason"] == reason


async def test_who_does_not_see_payloads_mints_no_token_that_does(guarded: Served) -> None:
    blind = mint(guarded.node, sees_payloads=False)
    async with aiohttp.ClientSession() as session:
        admin = Admin(Client(session, guarded.http), blind)
        asked = {"name": "seer", "role": "viewer", "sees_payloads": True}
        assert (await admin.call("POST", "/api/tokens", asked))["reason"] == "PERMISSION_DENIED"
        minted = await admin.call("POST", "/api/tokens", asked | {"sees_payloads": False})
        assert minted["status"] == "good"
    async with aio.insecure_channel(guarded.grpc) as channel:
        stub: Any = service_pb2_grpc.WorkflowServiceStub(channel)  # type: ignore[no-untyped-call]
        with pytest.raises(aio.AioRpcError) as refused:
            await stub.MintToken(
                pb.MintTokenRequest(name="seer", role="ROLE_VIEWER", sees_payloads=True),
                metadata=(("authorization", f"Bearer {blind}"),),
            )
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED


async def test_what_was_done_is_in_the_audit_log(admin: Admin) -> None:
    await admin.call("POST", "/api/workflows", {"type": "Order", "workflow_id": "w", "input": "x"})
    await admin.call("POST", "/api/workflows/w/signal", {"name": "go", "payload": "hush"})
    await admin.call("POST", "/api/workflows/w/terminate", {"reason": "hush"})
    await admin.call("POST", "/api/workflows/w/terminate", {"reason": "hush"})
    await admin.call("POST", "/api/workflows/w/signal", {"name": "go"})
    await admin.call("GET", "/api/workflows/w")
    await admin.call("POST", "/api/cluster/nodes", {"id": "n4", "raft": "127.0.0.1:9236"})
    page = await admin.call("GET", "/api/audit?order=oldest")
    said = [(each["call"], each.get("target"), each["outcome"]) for each in page["entries"]]
    assert said == [
        ("StartWorkflow", "w", "OK"),
        ("SignalWorkflow", "w", "OK"),
        ("TerminateWorkflow", "w", "OK"),
        ("TerminateWorkflow", "w", "OK"),
        ("SignalWorkflow", "w", "RUN_CLOSED"),
        ("AddNode", "n4", "ASKED"),
        ("AddNode", "n4", "OK"),
    ]
    first = page["entries"][0]
    assert first | {"id": "", "at": "", "run_id": ""} == {
        "id": "",
        "at": "",
        "actor": admin.id,
        "token_id": admin.id,
        "role": "admin",
        "node": "n1",
        "address": "127.0.0.1",
        "call": "StartWorkflow",
        "namespace": "default",
        "target": "w",
        "run_id": "",
        "detail": "Order",
        "outcome": "OK",
    }
    assert "hush" not in str(page)
    newest = await admin.call("GET", "/api/audit?call=SignalWorkflow&outcome=OK&limit=1")
    assert [each["detail"] for each in newest["entries"]] == ["go"]
    assert (await admin.call("GET", "/api/audit?order=up"))["reason"] == "INVALID_FIELD"
    for name, hint in (
        ("terminateworkflow", "near it are TerminateWorkflow"),
        ("MintTokken", "near it are MintToken"),
        ("zzz", "there are EndSession"),
        ("ListWorkflows", "changes nothing"),
    ):
        refused = await admin.call("GET", f"/api/audit?call={name}")
        assert refused["reason"] == "INVALID_FIELD"
        assert hint in refused["error"]
    for cursor in ("x", "9" * 19, "9" * 5_000):
        page = await admin.call("GET", f"/api/audit?cursor={cursor}")
        assert page["reason"] == "INVALID_FIELD", cursor


async def test_without_auth_everybody_is_anonymous(client: Client, served: Served) -> None:
    await client.post("/api/namespaces", {"name": "shop"})
    (row,) = served.node.harness.rows.audit
    assert (row.actor, row.role, row.token_id) == ("anonymous", Role.ADMIN, "")
    assert (await client.get("/api/session")).json["auth"] == "off"


async def test_work_is_not_noted_but_signed(guarded: Served) -> None:
    worker = mint(guarded.node, Role.WORKER)
    guarded.node.origins.clear()
    async with aiohttp.ClientSession() as session:
        client = Client(session, guarded.http)
        header = {"Authorization": f"Bearer {worker}"}
        body = {"workflow_id": "w", "task_token": "rf1.ZGVmYXVsdA.r.1.n"}
        assert (await client.post("/api/workflow-tasks/complete", body, **header)).status == 409
    (origin,) = guarded.node.origins
    assert origin.token_id == id_of(worker)
    assert guarded.node.harness.rows.audit == []


async def test_over_grpc(guarded: Served) -> None:
    metadata = (("authorization", f"Bearer {mint(guarded.node)}"),)
    async with aio.insecure_channel(guarded.grpc) as channel:
        stub: Any = service_pb2_grpc.WorkflowServiceStub(channel)  # type: ignore[no-untyped-call]
        minted = await stub.MintToken(
            pb.MintTokenRequest(name="w", role="ROLE_WORKER", namespaces=["default"]),
            metadata=metadata,
        )
        assert minted.text.startswith(f"rf_{minted.token.id}_")
        listed = await stub.ListTokens(pb.ListTokensRequest(), metadata=metadata)
        assert minted.token.id in [each.id for each in listed.tokens]
        await stub.RevokeToken(pb.RevokeTokenRequest(id=minted.token.id), metadata=metadata)
        with pytest.raises(aio.AioRpcError) as refused:
            await stub.RevokeToken(pb.RevokeTokenRequest(id="a" * 12), metadata=metadata)
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND
        audit = await stub.ListAudit(pb.ListAuditRequest(oldest_first=True), metadata=metadata)
        assert [(each.call, each.outcome) for each in audit.entries] == [
            ("MintToken", "OK"),
            ("RevokeToken", "OK"),
            ("RevokeToken", "TOKEN_NOT_FOUND"),
        ]
        assert {each.address for each in audit.entries} == {"127.0.0.1"}
        with pytest.raises(aio.AioRpcError) as refused:
            await stub.ListAudit(pb.ListAuditRequest(cursor="9" * 5_000), metadata=metadata)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        with pytest.raises(aio.AioRpcError) as refused:
            await stub.MintToken(pb.MintTokenRequest(name="w"), metadata=metadata)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
