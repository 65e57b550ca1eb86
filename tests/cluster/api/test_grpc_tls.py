"""All that a node serves, over TLS: gRPC, JSON and metrics."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest
from certs import authority_of, issue
from eventually import eventually
from ports import free_ports
from single_node import Served, config_for, serve

from raftflow.cluster.api.auth import Tokens
from raftflow.cluster.cli.authority import Authority
from raftflow.engine.commands import RegisterTypes
from raftflow.proto.workflow.v1 import service_pb2 as pb
from raftflow.proto.workflow.v1 import service_pb2_grpc


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    made = authority_of(tmp_path / "certs")
    issue(made, "n1")
    made.issue("reports", client=True, days=10)
    return made


async def served_with(
    authority: Authority, tmp_path: Path, *, tokens: Tokens | None = None, **settings: str
) -> Served:
    files = {
        "tls_cert_file": str(authority.certificate("n1")),
        "tls_key_file": str(authority.key("n1")),
    }
    return await serve(config_for(free_ports(3), tmp_path, **files, **settings), tokens=tokens)


@pytest.fixture
async def served(authority: Authority, tmp_path: Path) -> AsyncIterator[Served]:
    running = await served_with(authority, tmp_path)
    yield running
    await running.server.stop()


def trusting(authority: Authority, client: str = "") -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority.trusted)
    if client:
        context.load_cert_chain(authority.certificate(client), authority.key(client))
    return context


def channel_to(served: Served, authority: Authority, client: str = "") -> grpc.aio.Channel:
    pair: tuple[bytes, ...] = ()
    if client:
        pair = (authority.key(client).read_bytes(), authority.certificate(client).read_bytes())
    credentials = grpc.ssl_channel_credentials(authority.trusted.read_bytes(), *pair)
    # Else channels with the same credentials would share one connection.
    options = [("grpc.use_local_subchannel_pool", 1)]
    return grpc.aio.secure_channel(served.grpc, credentials, options=options)


async def register(channel: grpc.aio.Channel) -> None:
    stub: Any = service_pb2_grpc.WorkflowServiceStub(channel)
    await stub.RegisterWorkflowTypes(
        pb.RegisterWorkflowTypesRequest(workflow_types=["Order"]), timeout=5
    )


async def get(url: str, context: ssl.SSLContext) -> str:
    """Over a connection of its own."""
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session,
        session.get(url) as response,
    ):
        assert response.status == 200
        return await response.text()


async def test_all_ports_are_served(served: Served, authority: Authority) -> None:
    context = trusting(authority)
    assert '"status":"ok"' in await get(f"{served.http}/api/health", context)
    assert "workflowd_raft_role" in await get(f"{served.metrics}/metrics", context)
    async with channel_to(served, authority) as channel:
        await register(channel)


async def test_nothing_is_served_in_the_clear(served: Served) -> None:
    config = served.services.config
    for address in (config.http_addr, config.metrics_addr):
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(b"GET /api/health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"HTTP/" not in await reader.read()
        writer.close()
    async with grpc.aio.insecure_channel(served.grpc) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await register(channel)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_new_pair_of_a_new_authority_without_an_interruption(
    served: Served, authority: Authority
) -> None:
    tls = served.services.tls
    assert tls is not None
    before = trusting(authority)
    connector = aiohttp.TCPConnector(ssl=before)
    async with (
        channel_to(served, authority) as kept,
        aiohttp.ClientSession(connector=connector) as session,
    ):
        await register(kept)
        async with session.get(f"{served.http}/api/health") as response:
            assert response.status == 200
        authority.succeed(days=30)
        authority.renew("n1", days=10)
        authority.drop_old()
        tls.refresh()
        await register(kept)
        async with session.get(f"{served.http}/api/health") as response:
            assert response.status == 200
        after = trusting(authority)
        assert await get(f"{served.http}/api/health", after)
        assert await get(f"{served.metrics}/metrics", after)
        async with channel_to(served, authority) as channel:
            await register(channel)
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await get(f"{served.http}/api/health", before)


async def test_clients_are_asked_for_a_certificate(authority: Authority, tmp_path: Path) -> None:
    served = await served_with(
        authority, tmp_path / "data", tls_client_ca_file=str(authority.trusted)
    )
    assert await get(f"{served.http}/api/health", trusting(authority, "reports"))
    async with channel_to(served, authority, "reports") as channel:
        await register(channel)
    for url in (f"{served.http}/api/health", f"{served.metrics}/metrics"):
        with pytest.raises((aiohttp.ClientError, OSError)):
            await get(url, trusting(authority))
    async with channel_to(served, authority) as channel:
        with pytest.raises(grpc.aio.AioRpcError):
            await register(channel)
    await served.server.stop()


async def test_a_worker_that_hangs_up_gets_no_task(served: Served, authority: Authority) -> None:
    """As in the clear: a call whose caller has gone ends, and so does its poll."""
    address = served.services.config.http_addr
    _, writer = await asyncio.open_connection(
        address.host, address.port, ssl=trusting(authority), server_hostname="127.0.0.1"
    )
    writer.write(b"GET /api/workflow-tasks?worker_id=w HTTP/1.1\r\nHost: x\r\n\r\n")
    await eventually(lambda: len(served.node.parked) == 1)
    writer.close()
    await eventually(lambda: not served.node.parked)


async def test_pages_of_members_are_allowed_by_https(served: Served, authority: Authority) -> None:
    own = f"https://{served.node.peers()['n1'].http}"
    connector = aiohttp.TCPConnector(ssl=trusting(authority))
    async with aiohttp.ClientSession(connector=connector) as session:
        for origin, allowed in ((own, own), (own.replace("https", "http"), None)):
            async with session.get(
                f"{served.http}/api/health", headers={"Origin": origin}
            ) as response:
                assert response.headers.get("Access-Control-Allow-Origin") == allowed
        async with session.get(f"{served.http}/") as response:
            policy = response.headers["Content-Security-Policy"]
    assert "connect-src 'self'" in policy
    assert "http://" not in policy


@asynccontextmanager
async def polling(served: Served, authority: Authority) -> AsyncIterator[ssl.SSLSocket]:
    """A parked poll of a caller that reads only what the test reads."""
    served.node.apply(RegisterTypes(namespace="default", workflow_types=("Order",)))
    address = served.services.config.http_addr
    plain = socket.create_connection((address.host, address.port))
    with await asyncio.to_thread(
        trusting(authority).wrap_socket, plain, server_hostname="127.0.0.1"
    ) as caller:
        caller.sendall(b"GET /api/workflow-tasks HTTP/1.1\r\nHost: n\r\n\r\n")
        await eventually(lambda: served.node.parked, "the poll is parked")
        yield caller


async def start(served: Served, authority: Authority) -> None:
    async with aiohttp.ClientSession() as session:
        body = {"type": "Order", "workflow_id": "w"}
        url, context = f"{served.http}/api/workflows", trusting(authority)
        async with session.post(url, json=body, ssl=context) as response:
            assert response.status == 201


async def test_an_answer_left_unread_gives_the_task_back(
    served: Served, authority: Authority
) -> None:
    async with polling(served, authority) as caller:
        await start(served, authority)
        await eventually(lambda: not served.node.parked)
        caller.close()
        await eventually(lambda: served.node.returned, "the task is given back")


@pytest.mark.parametrize("polite", [True, False])
async def test_who_reads_and_closes_keeps_the_task(
    served: Served, authority: Authority, polite: bool
) -> None:
    """With the farewell of TLS, and without, as most libraries do."""
    async with polling(served, authority) as caller:
        await start(served, authority)
        assert b"task_token" in await asyncio.to_thread(caller.recv, 65_536)
        if polite:
            await asyncio.to_thread(caller.unwrap)
    web = served.server.http._web
    assert web is not None
    await eventually(lambda: not web.connections, "the connection is closed")
    await asyncio.sleep(0.05)  # what the end of the connection might still bring about
    assert served.node.returned == []


async def test_the_cookie_of_a_session_is_for_tls_alone(
    authority: Authority, tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("the-operators-own-token name=root\n")
    served = await served_with(authority, tmp_path / "data", tokens=Tokens.load(str(tokens)))
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
        url, body = f"{served.http}/api/session", {"token": "the-operators-own-token"}
        headers = {"Origin": served.http}
        context = trusting(authority)
        async with session.post(url, json=body, headers=headers, ssl=context) as response:
            assert response.status == 201
            assert "; Secure" in response.headers["Set-Cookie"]
    await served.server.stop()
