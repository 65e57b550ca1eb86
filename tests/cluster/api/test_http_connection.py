"""A task whose answer nobody read goes back; one that was read stays with its worker. What is no
HTTP is refused in the words of the API."""

from __future__ import annotations

import asyncio
import json
import select
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from eventually import eventually
from json_client import Client
from single_node import Served

from raftflow.cluster.api import http_server
from raftflow.engine.commands import RegisterTypes

POLL = b"GET /api/workflow-tasks HTTP/1.1\r\nHost: n\r\n\r\n"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="how Linux tells of a reset")


@asynccontextmanager
async def polling(served: Served) -> AsyncIterator[socket.socket]:
    """A parked poll of a caller that reads only what the test reads."""
    served.node.apply(RegisterTypes(namespace="default", workflow_types=("Order",)))
    address = served.services.config.http_addr
    with socket.create_connection((address.host, address.port)) as caller:
        caller.sendall(POLL)
        await eventually(lambda: served.node.parked, "the poll is parked")
        yield caller


async def start(client: Client) -> None:
    await client.post("/api/workflows", {"type": "Order", "workflow_id": "w"})


async def answered(caller: socket.socket) -> None:
    """The whole answer, which is small, is in the caller's system."""
    await eventually(lambda: select.select([caller], [], [], 0)[0], "the answer has arrived")


async def settled(served: Served) -> None:
    """The server has seen how the connection ended."""
    web = served.server.http._web
    assert web is not None
    await eventually(lambda: len(web.connections) <= 1, "the connection is closed")


async def test_an_answer_left_unread_gives_the_task_back(served: Served, client: Client) -> None:
    async with polling(served) as caller:
        await start(client)
        await answered(caller)
        caller.close()
        await eventually(lambda: served.node.returned, "the task is given back")
    assert (await client.get("/api/workflow-tasks")).json["workflow_id"] == "w"


async def test_a_caller_that_left_a_moment_before_gives_the_task_back(
    served: Served, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = http_server.encode_answer
    async with polling(served) as caller:

        async def leave_first(body: Any) -> bytes:
            if "task_token" in body:
                caller.close()
            return await encode(body)

        monkeypatch.setattr(http_server, "encode_answer", leave_first)
        await start(client)
        await eventually(lambda: served.node.returned, "the task is given back")


async def test_who_reads_and_closes_keeps_the_task(served: Served, client: Client) -> None:
    async with polling(served) as caller:
        await start(client)
        await answered(caller)
        assert b"task_token" in caller.recv(65_536)
    await settled(served)
    assert served.node.returned == []


async def test_who_stops_sending_but_still_listens_keeps_the_task(
    served: Served, client: Client
) -> None:
    async with polling(served) as caller:
        await start(client)
        await answered(caller)
        caller.shutdown(socket.SHUT_WR)
        await settled(served)
        assert b"task_token" in caller.recv(65_536)
    assert served.node.returned == []


async def test_who_asks_again_has_read_the_last_answer(served: Served, client: Client) -> None:
    async with polling(served) as caller:
        await start(client)
        await answered(caller)
        caller.recv(65_536)
        caller.sendall(b"GET /api/health HTTP/1.1\r\nHost: n\r\n\r\n")
        await answered(caller)
    await settled(served)
    await asyncio.sleep(0)
    assert served.node.returned == []


async def told(served: Served, *pieces: bytes) -> bytes:
    """All that comes back, each piece having been read before the next; the server hangs up."""
    address = served.services.config.http_addr
    reader, writer = await asyncio.open_connection(address.host, address.port)
    for piece in pieces:
        writer.write(piece)
        await asyncio.sleep(0.02)
    async with asyncio.timeout(5):
        heard = await reader.read()
    writer.close()
    return heard


async def test_what_is_no_http_is_told_so_as_json(served: Served) -> None:
    head, _, body = (await told(served, b"\x00\xff\r\n\r\n")).partition(b"\r\n\r\n")
    assert b" 400 " in head
    assert b"Content-Type: application/json" in head
    answer = json.loads(body)
    assert (answer["code"], answer["reason"]) == ("INVALID_ARGUMENT", "MALFORMED")
    assert answer["error"].startswith("the request is not HTTP: Invalid method")
    assert "xff" not in answer["error"]


@pytest.mark.parametrize("rest", [b"zz\r\n", b"2\r\n{}xx\r\n", b"0\r\nA: " + bytes(100_000)])
@pytest.mark.parametrize("before", [b"", POLL.replace(b"workflow-tasks", b"ready")])
async def test_a_body_that_breaks_off_ends_the_call_and_the_connection(
    served: Served, before: bytes, rest: bytes
) -> None:
    """Also of a request that waits behind another one."""
    head = b"POST /api/workflows HTTP/1.1\r\nHost: n\r\nContent-Type: application/json\r\n"
    begun = before + head + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"
    heard = await told(served, begun, rest)
    assert heard.count(b"HTTP/1.1 ") == 1 + bool(before)
    assert b"the body breaks off: " in heard
    assert b"Connection: close" in heard


@pytest.mark.parametrize("turns", range(8))
@pytest.mark.parametrize(
    ("rest", "reason"),
    [(b"zz\r\n", "MALFORMED"), (b"0\r\nA: " + b"x" * 100_000, "HEADERS_TOO_LARGE")],
)
async def test_a_body_breaks_off_at_any_moment_of_its_request(
    served: Served, rest: bytes, reason: str, turns: int
) -> None:
    """Also in the turn of the loop in which the request is neither queued nor at work."""
    head = b"POST /api/workflows HTTP/1.1\r\nHost: n\r\nContent-Type: application/json\r\n"
    address = served.services.config.http_addr
    reader, writer = await asyncio.open_connection(address.host, address.port)
    web = served.server.http._web
    assert web is not None
    await eventually(lambda: len(web.connections) == 1, "it is connected")
    [connection] = web.connections
    connection.data_received(head + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n")
    for _ in range(turns):
        await asyncio.sleep(0)
    connection.data_received(rest)
    async with asyncio.timeout(5):
        heard = await reader.read()
    writer.close()
    assert heard.count(b"HTTP/1.1 ") == 1
    assert json.loads(heard.partition(b"\r\n\r\n")[2])["reason"] == reason
