"""Tokens: which a node takes, and what they open, over both APIs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest
import structlog
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from json_client import Client
from ports import free_ports
from single_node import Served, config_for, serve

from raftflow.cluster.api.auth import EVERYTHING, Scope, Tokens
from raftflow.cluster.api.status import ApiError
from raftflow.cluster.errors import StartRefused
from raftflow.engine.commands import RegisterTypes
from raftflow.proto.workflow.v1 import service_pb2 as pb
from raftflow.proto.workflow.v1 import service_pb2_grpc

ADMIN = "the-operators-own-token"
SHOP = "the-token-of-the-shop"


def token_file(directory: Path, text: str) -> str:
    file = directory / "tokens"
    file.write_text(text)
    return str(file)


def usual(directory: Path) -> str:
    return token_file(directory, f"# operators\n{ADMIN}\n\n  {SHOP}   namespace=shop\n")


# ---- the file ---------------------------------------------------------------------------------


def test_without_a_file_nobody_needs_a_token() -> None:
    assert Tokens.load("").scope("") is EVERYTHING
    assert Tokens.load("").identify({"Authorization": "nonsense"}) == "default"


def test_each_token_has_its_scope(tmp_path: Path) -> None:
    tokens = Tokens.load(usual(tmp_path))
    assert tokens.scope(f"Bearer {ADMIN}") == EVERYTHING
    assert tokens.scope(f"bearer  {SHOP} ") == Scope("shop")
    assert SHOP not in repr(vars(tokens))


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", f"Basic {ADMIN}", ADMIN, f"Bearer {ADMIN}x", "Bearer \udc80"],
)
def test_what_is_not_known_is_refused(tmp_path: Path, header: str) -> None:
    tokens = Tokens.load(usual(tmp_path))
    with pytest.raises(ApiError) as refused:
        tokens.scope(header)
    assert refused.value.reason == "UNAUTHENTICATED"
    assert ADMIN not in refused.value.message


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("# nothing\n", "it has no token"),
        ("short\n", "line 1: a token is 16 or more"),
        (f"{ADMIN}\n{ADMIN} namespace=a\n", "line 2: stands twice"),
        (f"{ADMIN} role=admin\n", "only namespace=NAME"),
        (f"{ADMIN} namespace=a namespace=b\n", "only namespace=NAME"),
        (f"{ADMIN} namespace=\n", "namespace must not be empty"),
        ("tökens-are-of-ascii-only\n", "ASCII"),
    ],
)
def test_a_bad_file_is_refused_and_not_shown(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(StartRefused, match=problem) as refused:
        Tokens.load(token_file(tmp_path, text))
    for word in text.split():
        assert len(word) < 8 or word not in str(refused.value)


def test_a_file_that_is_missing_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(StartRefused, match="No such file"):
        Tokens.load(str(tmp_path / "none"))
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(StartRefused, match="not UTF-8"):
        Tokens.load(str(tmp_path / "bytes"))


@pytest.mark.parametrize(
    ("mode", "warned"), [(0o600, False), (0o640, False), (0o644, True), (0o602, True)]
)
def test_a_file_that_everybody_can_read_is_told_of(tmp_path: Path, mode: int, warned: bool) -> None:
    file = Path(usual(tmp_path))
    file.chmod(mode)
    with structlog.testing.capture_logs() as logged:
        assert Tokens.load(str(file)).scope(f"Bearer {ADMIN}") is not None
    events = [(each["event"], each["log_level"], each["mode"]) for each in logged]
    assert events == ([("auth_token_file_exposed", "warning", f"{mode:04o}")] if warned else [])


# ---- calls ------------------------------------------------------------------------------------


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Served]:
    config = config_for(free_ports(3), tmp_path)
    running = await serve(config, tokens=Tokens.load(usual(tmp_path)))
    yield running
    await running.server.stop()


@pytest.fixture
async def http(guarded: Served) -> AsyncIterator[Client]:
    async with aiohttp.ClientSession() as session:
        yield Client(session, guarded.http)


async def test_http_asks_for_a_token(http: Client) -> None:
    for open_path in ("/api/health", "/api/ready", "/"):
        assert (await http.get(open_path)).status == 200
    reply = await http.get("/api/workflows")
    assert (reply.status, reply.json["reason"]) == (401, "UNAUTHENTICATED")
    assert "curl -H 'Authorization: Bearer TOKEN'" in reply.json["error"]
    assert reply.headers["WWW-Authenticate"] == "Bearer"
    wrong = await http.post("/api/workflows", {"type": "T"}, Authorization="Bearer " + "x" * 20)
    assert wrong.status == 401
    assert (await http.get("/api/workflows", Authorization=f"Bearer {ADMIN}")).status == 200


async def test_a_scoped_token_stays_in_its_namespace(http: Client, guarded: Served) -> None:
    admin, shop = {"Authorization": f"Bearer {ADMIN}"}, {"Authorization": f"Bearer {SHOP}"}
    made = await http.post("/api/namespaces", {"name": "shop"}, **shop)
    assert (made.status, made.json["reason"]) == (403, "PERMISSION_DENIED")
    assert (await http.get("/api/namespaces", **shop)).status == 403
    assert (await http.post("/api/namespaces", {"name": "shop"}, **admin)).status == 201
    guarded.node.apply(RegisterTypes(namespace="shop", workflow_types=("Order",)))
    started = await http.post("/api/workflows", {"type": "Order", "workflow_id": "w"}, **shop)
    assert started.status == 201
    named = {**shop, "X-Workflowd-Namespace": "shop"}
    assert (await http.get("/api/workflows/w", **named)).status == 200
    other = {**shop, "X-Workflowd-Namespace": "default"}
    assert (await http.get("/api/workflows/w", **other)).status == 403
    assert (await http.get("/api/workflows/w", **admin)).status == 404  # of the default namespace


async def test_grpc_asks_for_a_token(guarded: Served) -> None:
    guarded.node.apply(RegisterTypes(namespace="default", workflow_types=("Order",)))
    async with aio.insecure_channel(guarded.grpc) as channel:
        stub: Any = service_pb2_grpc.WorkflowServiceStub(channel)  # type: ignore[no-untyped-call]
        request = pb.StartWorkflowRequest(type="Order", workflow_id="w")
        for metadata, code in (
            ((), grpc.StatusCode.UNAUTHENTICATED),
            ((("authorization", f"Bearer {ADMIN}x"),), grpc.StatusCode.UNAUTHENTICATED),
            ((("authorization", f"Bearer {SHOP}"),), grpc.StatusCode.NOT_FOUND),
        ):
            with pytest.raises(aio.AioRpcError) as refused:
                await stub.StartWorkflow(request, metadata=metadata)
            assert refused.value.code() is code
        with pytest.raises(aio.AioRpcError) as refused:
            await stub.WorkerStream(iter(())).read()
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        shop = (("authorization", f"Bearer {SHOP}"),)
        with pytest.raises(aio.AioRpcError) as refused:
            await stub.ListWorkflows(pb.ListWorkflowsRequest(namespace="default"), metadata=shop)
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        with pytest.raises(aio.AioRpcError) as refused:
            await stub.CreateNamespace(pb.CreateNamespaceRequest(name="shop"), metadata=shop)
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        admin = (("authorization", f"Bearer {ADMIN}"),)
        assert (await stub.StartWorkflow(request, metadata=admin)).started
        health: Any = health_pb2_grpc.HealthStub(channel)  # type: ignore[no-untyped-call]
        assert (await health.Check(health_pb2.HealthCheckRequest())).status == 1
