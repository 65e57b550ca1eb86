"""Every call of both APIs with every kind of token, against the table of docs/security.md."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest
from google.protobuf import message_factory
from grpc import aio
from json_client import Client, Reply
from ports import free_ports
from single_node import Served, config_for, serve
from token_kinds import kinds

from raftflow.cluster.api.auth import Tokens
from raftflow.cluster.api.json_routes import templates
from raftflow.cluster.api.permissions import OPEN, OPERATIONS, WORK, Permission
from raftflow.engine.commands import Role
from raftflow.proto.workflow.v1 import service_pb2 as pb

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "security.md"
NOBODY = ("none", "garbage", "unknown", "wrong secret", "revoked", "expired")
METHODS = pb.DESCRIPTOR.services_by_name["WorkflowService"].methods


def table() -> str:
    """As the guide has it. To write it anew: print(table())."""
    rest: dict[str, list[str]] = {}
    for path, methods in templates():
        for method, route in methods.items():
            rest.setdefault(route.name, []).append(f"`{method} {path}`")
    rest |= {"Page": ["`GET /`"], "Metrics": ["`GET /metrics`, on its own port"]}
    rpcs = {method.name for method in METHODS}
    lines = ["| call | least role | all namespaces | JSON | gRPC |", "|---|---|---|---|---|"]
    for name, permission in OPERATIONS.items():
        scope = "only" if permission.whole_cluster else ""
        call = "yes" if name in rpcs else "`grpc.reflection`" if name == "Reflect" else ""
        cells = [name, permission.least, scope, ", ".join(rest.get(name, [])), call]
        lines.append("| " + " | ".join(cells) + " |")
    return re.sub(" +", " ", "\n".join(lines)) + "\n"


def test_the_guide_shows_this_table() -> None:
    assert table() in GUIDE.read_text(), table()


def test_every_call_is_in_the_table() -> None:
    rest = {route.name for _, methods in templates() for route in methods.values()}
    beside = {"Page", "Metrics", "Reflect"}
    assert rest | beside | {method.name for method in METHODS} == set(OPERATIONS)


def expected(kind: str, permission: Permission) -> str:
    """What the table says: served, 401 or 403."""
    if permission is OPEN:
        return "served"
    if kind in NOBODY:
        return "UNAUTHENTICATED"
    role, _, namespace = kind.partition(" of ")
    if Role[role.upper()] not in permission.roles:
        return "PERMISSION_DENIED"
    return "PERMISSION_DENIED" if namespace and permission.whole_cluster else "served"


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Served]:
    running = await serve(config_for(free_ports(3), tmp_path), tokens=Tokens(on=True))
    yield running
    await running.server.stop()


# A poll that is served must not wait: this is refused behind the question who calls.
QUERIES = {"PollTask": "?wait=0", "PollWorkflowTask": "?wait=0"}


@pytest.mark.slow
async def test_every_route(guarded: Served) -> None:
    tokens = kinds(guarded.node)
    async with aiohttp.ClientSession() as session:
        client = Client(session, guarded.http)
        for path, methods in templates():
            for method, route in methods.items():
                target = path.replace("{id}", "nothing") + QUERIES.get(route.name, "")
                for kind, token in tokens.items():
                    headers = {"Authorization": f"Bearer {token}"} if token else {}
                    body = {} if route.body else None
                    reply = await client.call(method, target, body, **headers)
                    seen = outcome(reply)
                    wanted = expected(kind, OPERATIONS[route.name])
                    assert seen == wanted, (method, target, kind, reply.content)


def outcome(reply: Reply) -> str:
    return str(reply.json["reason"]) if reply.status in (401, 403) else "served"


@pytest.mark.slow
async def test_every_rpc(guarded: Served) -> None:
    tokens = kinds(guarded.node)
    async with aio.insecure_channel(guarded.grpc) as channel:
        for method in METHODS:
            for kind, token in tokens.items():
                seen = await called(channel, method, token)
                assert seen == expected(kind, OPERATIONS[method.name]), (method.name, kind)


async def called(channel: aio.Channel, method: Any, token: str) -> str:
    takes, gives = map(message_factory.GetMessageClass, (method.input_type, method.output_type))
    name = f"/{method.containing_service.full_name}/{method.name}"
    made: Any = channel.stream_stream if method.client_streaming else channel.unary_unary
    stub = made(
        name, request_serializer=takes.SerializeToString, response_deserializer=gives.FromString
    )
    metadata = (("authorization", f"Bearer {token}"),) if token else ()
    try:
        if method.client_streaming:
            await stub(iter(()), metadata=metadata, timeout=5).read()
        else:
            polls = OPERATIONS[method.name] is WORK and method.name.startswith("Poll")
            await stub(takes(), metadata=metadata, timeout=0.25 if polls else 5)
    except aio.AioRpcError as error:
        if error.code() in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
            return str(error.code().name)
    return "served"


@pytest.mark.slow
async def test_another_namespace_is_out_of_reach(guarded: Served) -> None:
    """Whatever the role, by header and by field."""
    tokens = kinds(guarded.node)
    async with aiohttp.ClientSession() as session:
        client = Client(session, guarded.http)
        for path, methods in templates():
            for method, route in methods.items():
                if not route.namespaced:
                    continue
                for role in ("viewer", "user", "worker", "admin"):
                    if expected(role, OPERATIONS[route.name]) != "served":
                        continue
                    target = path.replace("{id}", "nothing") + QUERIES.get(route.name, "")
                    headers = {
                        "Authorization": f"Bearer {tokens[f'{role} of shop']}",
                        "X-Workflowd-Namespace": "default",
                    }
                    body = {} if route.body else None
                    reply = await client.call(method, target, body, **headers)
                    assert (reply.status, reply.json["reason"]) == (403, "PERMISSION_DENIED"), path
    admin = (("authorization", f"Bearer {tokens['admin of shop']}"),)
    async with aio.insecure_channel(guarded.grpc) as channel:
        for method in METHODS:
            if "namespace" not in method.input_type.fields_by_name:
                continue
            takes = message_factory.GetMessageClass(method.input_type)
            stub: Any = channel.unary_unary(
                f"/{method.containing_service.full_name}/{method.name}",
                request_serializer=takes.SerializeToString,
            )
            with pytest.raises(aio.AioRpcError) as refused:
                await stub(takes(namespace="default", **needs(method)), metadata=admin, timeout=5)
            code = refused.value.code()
            assert code is grpc.StatusCode.PERMISSION_DENIED, (method.name, refused.value.details())


def needs(method: Any) -> dict[str, Any]:
    """What is read before the namespace is."""
    return {
        field.name: "w"
        for field in method.input_type.fields
        if field.type == field.TYPE_STRING and not field.is_repeated and field.name != "namespace"
    }


@pytest.mark.slow
async def test_the_ports_beside(guarded: Served) -> None:
    """Metrics and reflection are for whoever has a token; health and the page are for all."""
    tokens = kinds(guarded.node)
    async with aiohttp.ClientSession() as session:
        for kind, token in tokens.items():
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            async with session.get(f"{guarded.metrics}/metrics", headers=headers) as answer:
                wanted = {"served": 200, "UNAUTHENTICATED": 401, "PERMISSION_DENIED": 403}
                assert answer.status == wanted[expected(kind, OPERATIONS["Metrics"])], kind
            async with session.get(guarded.http + "/", headers=headers) as answer:
                assert answer.status == 200
    async with aio.insecure_channel(guarded.grpc) as channel:
        stub: Any = channel.stream_stream(
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
        )
        for kind, token in tokens.items():
            metadata = (("authorization", f"Bearer {token}"),) if token else ()
            call = stub(iter([b"\x3a\x00"]), metadata=metadata, timeout=5)
            try:
                await call.read()
                seen = "served"
            except aio.AioRpcError:
                # What it raises may be that its message could not be written any more.
                seen = (await call.code()).name
            assert seen == expected(kind, OPERATIONS["Reflect"]), kind
