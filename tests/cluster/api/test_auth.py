"""Tokens: which a node takes, and what they open, over both APIs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest
from engine_harness import start as start_command
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from json_client import Client
from ports import free_ports
from single_node import Served, SingleNode, config_for, serve
from token_kinds import id_of, mint, revoke

from raftflow.cluster.api.auth import ANYBODY, Caller, Tokens
from raftflow.cluster.api.handlers import runs
from raftflow.cluster.api.signing import signed
from raftflow.cluster.api.status import ApiError
from raftflow.engine.commands import CreateNamespace, RegisterTypes, Role
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


def refusal(call: Any) -> str:
    with pytest.raises(ApiError) as refused:
        call()
    return f"{refused.value.reason}: {refused.value.message}"


# ---- who has a token --------------------------------------------------------------------------


def test_without_a_file_nobody_needs_a_token() -> None:
    assert Tokens.load("").bearer("") is ANYBODY
    assert Tokens.load("").bearer("nonsense") is ANYBODY


def test_lines_of_the_file(tmp_path: Path) -> None:
    tokens = Tokens.load(usual(tmp_path))
    assert tokens.bearer(f"Bearer {ADMIN}") == Caller(actor="file:2", role=Role.ADMIN)
    shop = tokens.bearer(f"bearer  {SHOP} ")
    assert (shop.actor, shop.namespaces) == ("file:4", frozenset({"shop"}))
    assert SHOP not in repr(vars(tokens))


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", f"Basic {ADMIN}", ADMIN, f"Bearer {ADMIN}x", "Bearer \udc80"],
)
def test_what_is_not_known_is_refused(tmp_path: Path, header: str) -> None:
    tokens = Tokens.load(usual(tmp_path))
    said = refusal(lambda: tokens.bearer(header))
    assert said.startswith("UNAUTHENTICATED")
    assert ADMIN not in said


def following(node: SingleNode, tokens: Tokens) -> Tokens:
    tokens.follow(node, node)
    return tokens


def test_tokens_of_the_log() -> None:
    node = SingleNode()
    tokens = following(node, Tokens(on=True))
    text = mint(node, Role.VIEWER, sees_payloads=False, lifetime_ms=100)
    caller = tokens.holder(text)
    assert caller == Caller(
        actor=id_of(text), role=Role.VIEWER, sees_payloads=False, token_id=id_of(text)
    )
    other = mint(node)
    swapped = f"rf_{id_of(text)}_{other.split('_', 2)[2]}"
    assert "does not know" in refusal(lambda: tokens.holder(swapped))
    node.harness.time_ms += 100
    assert "has expired" in refusal(lambda: tokens.holder(text))
    assert "has expired" in refusal(lambda: tokens.check(caller))
    # Who does not have the secret does not hear what became of it.
    assert "does not know" in refusal(lambda: tokens.holder(swapped))
    revoke(node, other)
    assert "was revoked" in refusal(lambda: tokens.holder(other))
    # The log says whose token it was.
    with pytest.raises(ApiError) as refused:
        tokens.holder(other)
    assert refused.value.actor == id_of(other)


def test_a_session_is_as_good_as_its_parent(tmp_path: Path) -> None:
    node = SingleNode()
    tokens = following(node, Tokens.load(usual(tmp_path)))
    parent = mint(node, Role.USER)
    session = mint(node, Role.USER, parent=id_of(parent))
    caller = tokens.holder(session)
    assert (caller.actor, caller.token_id) == (id_of(parent), id_of(session))
    assert tokens.parent_of(caller) == ""  # it opens no other
    revoke(node, parent)
    assert "of this session" in refusal(lambda: tokens.check(caller))
    line = tokens.parent_of(tokens.holder(ADMIN))
    of_file = tokens.holder(mint(node, parent=line))
    assert of_file.actor == "file:2"
    # With another token in that line it is over.
    changed = Tokens.load(token_file(tmp_path, f"#\n{ADMIN}-new\n"))
    following(node, changed)
    assert "token file" in refusal(lambda: changed.check(of_file))


def test_where_a_caller_is(tmp_path: Path) -> None:
    everywhere = Caller(actor="a", role=Role.USER)
    assert (everywhere.within(""), everywhere.within("shop")) == ("default", "shop")
    shop = Caller(actor="a", role=Role.USER, namespaces=frozenset({"shop"}))
    assert (shop.within(""), shop.within("shop")) == ("shop", "shop")
    assert refusal(lambda: shop.within("bank")).endswith("the namespace 'shop' alone")
    two = Caller(actor="a", role=Role.USER, namespaces=frozenset({"shop", "bank"}))
    assert refusal(lambda: two.within("")).startswith("INVALID_FIELD")
    assert two.within("bank") == "bank"
    with_default = Caller(actor="a", role=Role.USER, namespaces=frozenset({"shop", "default"}))
    assert with_default.within("") == "default"


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


def test_what_a_page_may_offer() -> None:
    everything = set(Caller(actor="root", role=Role.ADMIN).operations())
    in_shop = set(
        Caller(actor="root", role=Role.ADMIN, namespaces=frozenset({"shop"})).operations()
    )
    # Members, tokens, namespaces: what concerns all namespaces needs a token without any.
    assert {"AddNode", "MintToken", "ListNamespaces"} <= everything - in_shop
    assert {"StartWorkflow", "DescribeCluster"} <= in_shop
    looking = set(Caller(actor="eye", role=Role.VIEWER).operations())
    assert {"ListWorkflows", "ListNamespaces"} <= looking
    assert not {"StartWorkflow", "RemoveNode", "PollTask"} & looking
    assert "PollTask" in Caller(actor="hand", role=Role.WORKER).operations()


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


# ---- revoked under way ------------------------------------------------------------------------


@pytest.fixture
async def closed(tmp_path: Path) -> AsyncIterator[Served]:
    running = await serve(config_for(free_ports(3), tmp_path), tokens=Tokens(on=True))
    running.node.apply(RegisterTypes(namespace="default", workflow_types=("Order",)))
    yield running
    await running.server.stop()


async def parked(served: Served, polls: int = 1) -> None:
    async with asyncio.timeout(5):
        while len(served.services.tokens.calls) < polls:
            await asyncio.sleep(0.005)


async def test_a_parked_poll_ends_with_its_token(closed: Served) -> None:
    worker, other = mint(closed.node, Role.WORKER), mint(closed.node, Role.WORKER)
    async with aiohttp.ClientSession() as session:
        client = Client(session, closed.http)
        polls = [
            asyncio.create_task(
                client.get("/api/workflow-tasks?wait=3000", Authorization=f"Bearer {token}")
            )
            for token in (worker, other)
        ]
        await parked(closed, 2)
        revoke(closed.node, worker)
        reply = await asyncio.wait_for(polls[0], 2)
        assert (reply.status, reply.json["reason"]) == (401, "UNAUTHENTICATED")
        assert not polls[1].done()
        assert len(closed.node.parked) == 1
        polls[1].cancel()


async def test_polls_and_streams_over_grpc_end_with_their_token(closed: Served) -> None:
    worker = mint(closed.node, Role.WORKER)
    metadata = (("authorization", f"Bearer {worker}"),)
    never: asyncio.Queue[pb.WorkerMessage] = asyncio.Queue()

    async def silent() -> AsyncIterator[pb.WorkerMessage]:
        while True:
            yield await never.get()

    async with aio.insecure_channel(closed.grpc) as channel:
        stub: Any = service_pb2_grpc.WorkflowServiceStub(channel)  # type: ignore[no-untyped-call]
        stream = stub.WorkerStream(silent(), metadata=metadata)
        read = asyncio.ensure_future(stream.read())
        poll = asyncio.ensure_future(
            stub.PollTask(pb.PollTaskRequest(worker_id="w"), metadata=metadata, timeout=10)
        )
        await parked(closed, 2)
        revoke(closed.node, worker)
        for call in (read, poll):
            with pytest.raises(aio.AioRpcError) as refused:
                await asyncio.wait_for(call, 2)
            assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_a_token_that_expires_ends_what_waits(closed: Served) -> None:
    """No entry says so: the node looks by itself."""
    worker = mint(closed.node, Role.WORKER, lifetime_ms=1_000)
    async with aiohttp.ClientSession() as session:
        client = Client(session, closed.http)
        poll = asyncio.create_task(
            client.get("/api/activity-tasks?wait=20000", Authorization=f"Bearer {worker}")
        )
        await parked(closed)
        closed.node.harness.time_ms += 1_000
        closed.services.tokens.look()
        assert (await asyncio.wait_for(poll, 2)).status == 401


async def test_an_answer_is_withheld_from_who_lost_the_token_meanwhile(
    closed: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    viewer = mint(closed.node, Role.VIEWER)
    arrived, release = asyncio.Event(), asyncio.Event()
    listed = SingleNode.list_runs

    async def slow(node: SingleNode, wanted: Any) -> Any:
        arrived.set()
        await release.wait()
        return await listed(node, wanted)

    monkeypatch.setattr(SingleNode, "list_runs", slow)
    async with aiohttp.ClientSession() as session:
        client = Client(session, closed.http)
        asked = asyncio.create_task(client.get("/api/workflows", Authorization=f"Bearer {viewer}"))
        await arrived.wait()
        revoke(closed.node, viewer)
        release.set()
        assert (await asked).status == 401


async def test_a_command_of_a_revoked_token_is_refused_at_apply(closed: Served) -> None:
    """The node that took it had not heard of it; the log had."""
    user = mint(closed.node, Role.USER)
    tokens = closed.services.tokens
    caller = tokens.holder(user)
    node = signed(closed.services, caller, "10.0.0.9")
    revoke(closed.node, user)
    with pytest.raises(ApiError) as refused:
        await runs.start(node, start_command("w"))
    assert refused.value.reason == "UNAUTHENTICATED"
    (row,) = [row for row in closed.node.harness.rows.audit if row.call == "StartWorkflow"]
    assert (row.actor, row.outcome) == (id_of(user), "UNAUTHENTICATED")


# ---- payloads ---------------------------------------------------------------------------------


async def test_payloads_are_hidden_from_who_has_no_right_to_them(closed: Served) -> None:
    admin, blind = mint(closed.node), mint(closed.node, Role.VIEWER, sees_payloads=False)
    async with aiohttp.ClientSession() as session:
        client = Client(session, closed.http)
        body = {
            "type": "Order",
            "workflow_id": "w",
            "input": "the secret",
            "memo": {"input": "shown"},
            "signal": {"name": "go", "payload": "the secret"},
        }
        seeing, blinded = ({"Authorization": f"Bearer {token}"} for token in (admin, blind))
        assert (await client.post("/api/workflows", body, **seeing)).status == 201
        for path in ("/api/workflows/w", "/api/workflows/w/history"):
            assert b"the secret" in (await client.get(path, **seeing)).content
            hidden = await client.get(path, **blinded)
            assert b"the secret" not in hidden.content
            assert b'"payload_hidden":true' in hidden.content
        run = (await client.get("/api/workflows/w", **blinded)).json
        assert (run["input"], run["payload_hidden"]) == (None, True)
        assert run["signals"][0] | {"received_at": ""} == {
            "name": "go",
            "payload": None,
            "payload_hidden": True,
            "event_id": 2,
            "received_at": "",
        }
        assert run["memo"] == {"input": "shown"}  # what people named is no payload
        searched = "/api/workflows/w/history?q=the+secret"  # nor is it found out by asking for it
        assert len((await client.get(searched, **seeing)).json["events"]) == 2
        assert (await client.get(searched, **blinded)).json["events"] == []
        file = await client.get("/api/workflows/w/history?format=binary", **blinded)
        assert (file.status, file.json["reason"]) == (403, "PERMISSION_DENIED")
    async with aio.insecure_channel(closed.grpc) as channel:
        stub: Any = service_pb2_grpc.WorkflowServiceStub(channel)  # type: ignore[no-untyped-call]
        metadata = (("authorization", f"Bearer {blind}"),)
        request = pb.DescribeWorkflowRequest(workflow_id="w")
        described = await stub.DescribeWorkflow(request, metadata=metadata)
        assert (described.input, described.signals[0].payload) == (b"", b"")
        assert described.payload_hidden
        with pytest.raises(aio.AioRpcError) as refused:
            await stub.GetHistory(pb.GetHistoryRequest(workflow_id="w"), metadata=metadata)
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED


async def test_what_names_runs_of_other_namespaces_is_not_shown(
    closed: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [
        {"invariant": "wakeup", "namespace": each, "workflow_id": f"of-{each}"} for each in "ab"
    ]
    report = {"checked": 2, "walks": 1, "violated": 2, "violations": found}
    monkeypatch.setattr(SingleNode, "report", lambda _: report)
    for name in "ab":
        closed.node.apply(CreateNamespace(namespace=name, retention_ms=0, request_id=""))
    some, everything = mint(closed.node, Role.VIEWER, namespaces=("a",)), mint(closed.node)
    async with aiohttp.ClientSession() as session:
        client = Client(session, closed.http)
        for token, shown in ((some, ["of-a"]), (everything, ["of-a", "of-b"])):
            answer = (await client.get("/api/cluster", Authorization=f"Bearer {token}")).json
            checks = answer["nodes"][0]["invariants"]
            assert [each["workflow_id"] for each in checks["violations"]] == shown
            assert checks["violated"] == 2
