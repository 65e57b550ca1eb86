"""A node waits for its callers only so long, and has only so many of them."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from eventually import eventually
from ports import free_ports
from single_node import Served, SingleNode, config_for, serve

from raftflow.cluster.api.http_connection import ConnectionServer
from raftflow.cluster.api.server import affordable
from raftflow.cluster.config import Limits
from raftflow.cluster.errors import Unavailable
from raftflow.engine.commands import RegisterTypes

GET = b"GET /api/health HTTP/1.1\r\nHost: n\r\n"
POLL = b"GET /api/workflow-tasks HTTP/1.1\r\nHost: n\r\n\r\n"
LIST = b"GET /api/workflows HTTP/1.1\r\nHost: n\r\n\r\n"
POST = b"POST /api/workflows HTTP/1.1\r\nHost: n\r\nContent-Type: application/json\r\n"
LIMITS = Limits(connections=3, header_bytes=4_096, head_timeout_ms=300, body_timeout_ms=400)

Caller = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
async def narrow(tmp_path: Path) -> AsyncIterator[Served]:
    running = await serve(config_for(free_ports(3), tmp_path, limits=LIMITS))
    running.node.apply(RegisterTypes(namespace="default", workflow_types=("Order",)))
    yield running
    await running.server.stop()


async def connected(served: Served, sent: bytes = b"") -> Caller:
    address = served.services.config.http_addr
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(sent)
    return reader, writer


async def answer(served: Served, sent: bytes) -> bytes:
    """All that comes until the other side hangs up."""
    reader, writer = await connected(served, sent)
    try:
        return await asyncio.wait_for(reader.read(), 5)
    finally:
        writer.close()


async def healthy(served: Served) -> bool:
    found = await answer(served, GET + b"Connection: close\r\n\r\n")
    return found.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "head",
    [
        GET + b"x: " + b"y" * 5_000 + b"\r\n\r\n",
        GET + b"".join([b"x%d: y\r\n" % n for n in range(150)]) + b"\r\n",
        GET + b"".join([b"x%d: %s\r\n" % (n, b"y" * 500) for n in range(20)]) + b"\r\n",
        GET + b"".join([b"x%d: %s\r\n" % (n, b"y" * 500) for n in range(20)]),
        b"GET /api/" + b"z" * 5_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /api/" + b"z" * 5_000,
    ],
    ids=["one", "many", "all", "unfinished", "line", "unfinished line"],
)
async def test_heads_are_bounded(narrow: Served, head: bytes) -> None:
    found = await answer(narrow, head)
    assert b" 431 " in found[:20], found
    assert b'"reason":"HEADERS_TOO_LARGE"' in found
    assert b'"limit":"limits.header_bytes","value":4096' in found
    assert b"--limits-header-bytes" in found
    assert await healthy(narrow)


async def test_a_head_just_below_the_bound(narrow: Served) -> None:
    found = await answer(narrow, GET + b"Connection: close\r\nx: " + b"y" * 3_900 + b"\r\n\r\n")
    assert found.startswith(b"HTTP/1.1 200 ")


@pytest.mark.slow
async def test_a_head_that_takes_too_long(narrow: Served) -> None:
    reader, writer = await connected(narrow, GET)
    for _ in range(4):
        await asyncio.sleep(0.05)
        writer.write(b"x: y\r\n")  # it is the whole that counts
    found = await asyncio.wait_for(reader.read(), 5)
    assert found.startswith(b"HTTP/1.1 408 ")
    assert b'"limit":"limits.head_timeout_ms"' in found
    writer.close()
    assert await answer(narrow, b"") == b""  # who never says a word gets none


@pytest.mark.slow
async def test_a_body_that_takes_too_long(narrow: Served) -> None:
    found = await answer(narrow, POST + b"Content-Length: 10\r\n\r\n{")
    assert found.startswith(b"HTTP/1.1 408 ")
    assert b'"limit":"limits.body_timeout_ms"' in found


async def test_a_body_that_is_mostly_frames(tmp_path: Path) -> None:
    """In chunks of single bytes; below its limit, and yet too much."""
    limits = Limits(payload_bytes=99, request_body_bytes=100_000)
    served = await serve(config_for(free_ports(3), tmp_path, limits=limits))
    head = POST + b"Transfer-Encoding: chunked\r\n\r\n"
    found = await answer(served, head + b"1\r\n0\r\n" * 95_000)
    assert b" 413 " in found[:20], found
    assert b'"reason":"BODY_TOO_LARGE"' in found
    few = head + b"8\r\n{      }\r\n" + b"1\r\n \r\n" * 1_000 + b"0\r\n\r\n"
    found = await answer(served, few.replace(b"Host", b"Connection: close\r\nHost", 1))
    assert b" 400 " in found[:20], found  # it was read: a start without a type
    await served.server.stop()


@pytest.mark.slow
async def test_the_next_head_may_begin_while_a_call_is_at_work(narrow: Served) -> None:
    reader, writer = await connected(narrow, POLL + b"GET /api/hea")
    await eventually(lambda: narrow.node.parked, "the poll is parked")
    writer.write(b"lth")
    await asyncio.sleep(0.7)  # more than a head may take
    assert narrow.node.parked
    writer.write(b" HTTP/1.1\r\nHost: n\r\n\r\n")
    start = b'{"type":"Order","workflow_id":"w"}'
    await answer(
        narrow,
        POST + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(start) + start,
    )
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
    assert head.startswith(b"HTTP/1.1 200 ")
    writer.close()


async def test_who_is_waited_for_longest_makes_room(narrow: Served) -> None:
    silent = await connected(narrow)
    dripping = await connected(narrow, GET)
    held = await connected(narrow, POLL)
    await eventually(lambda: narrow.node.parked, "the poll is parked")
    assert await healthy(narrow)  # a fourth
    assert await asyncio.wait_for(silent[0].read(), 5) == b""
    dripping[1].write(b"Connection: close\r\n\r\n")
    assert b" 200 " in await asyncio.wait_for(dripping[0].read(), 5)
    assert len(narrow.node.parked) == 1  # who is served is left alone
    held[1].close()


async def test_when_all_are_at_work_the_next_one_is_told(
    narrow: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = asyncio.Event()

    async def slowly(*_: object) -> None:
        await gate.wait()
        raise Unavailable("at last")

    monkeypatch.setattr(SingleNode, "list_runs", slowly)
    asked = [await connected(narrow, LIST) for _ in range(3)]
    web = narrow.server.http._web
    assert isinstance(web, ConnectionServer)
    await eventually(lambda: not web._waited_for, "all are at work")
    found = await answer(narrow, GET + b"Connection: close\r\n\r\n")
    assert found.startswith(b"HTTP/1.1 503 ")
    assert b'"limit":"limits.connections","value":3' in found
    gate.set()
    for reader, writer in asked:
        assert b" 503 " in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
        writer.close()
    assert await healthy(narrow)


async def test_polls_leave_connections_for_others(narrow: Served) -> None:
    polls = [await connected(narrow, POLL) for _ in range(2)]
    await eventually(lambda: len(narrow.node.parked) == 2, "two of three may")
    found = await answer(narrow, POLL.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    assert found.startswith(b"HTTP/1.1 429 ")
    assert b'"reason":"TOO_MANY_POLLS"' in found
    assert b'"limit":"limits.connections","value":3' in found
    assert await healthy(narrow)
    for _, writer in polls:
        writer.close()


@pytest.mark.parametrize(
    ("soft", "hard", "raised", "connections"),
    [
        (1_024, 1_048_576, 8_704, 4_096),  # as systems set out
        (1_024, 4_096, 4_096, 1_792),  # no more than the system allows
        (256, 256, 256, 16),
        (65_536, 65_536, None, 4_096),
        (1_024, resource.RLIM_INFINITY, 8_704, 4_096),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, None, 4_096),
    ],
)
def test_connections_fit_into_what_may_be_open(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, raised: int | None, connections: int
) -> None:
    set_to: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _which, both: set_to.append(both))
    assert affordable(Limits()).connections == connections
    assert set_to == ([] if raised is None else [(raised, hard)])


async def test_idle_connections_are_used_again(narrow: Served) -> None:
    reader, writer = await connected(narrow)
    for _ in range(3):
        writer.write(GET + b"\r\n")
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        await reader.readexactly(length)
    writer.close()


@pytest.mark.slow
async def test_an_answer_that_nobody_reads_ends(narrow: Served) -> None:
    """More than the systems between them hold."""
    address = narrow.services.config.http_addr
    path = next(iter(narrow.server.http._page._files))
    many = b"GET %s HTTP/1.1\r\nHost: n\r\n\r\n" % path.encode() * 100
    web = narrow.server.http._web
    assert web is not None
    loop = asyncio.get_running_loop()
    with socket.create_connection((address.host, address.port)) as caller:
        caller.setblocking(False)

        async def ask() -> None:
            while True:
                await loop.sock_sendall(caller, many)

        with pytest.raises(ConnectionError):
            await asyncio.wait_for(ask(), 20)
    await eventually(lambda: not web.connections, "it is gone")
    assert await healthy(narrow)
