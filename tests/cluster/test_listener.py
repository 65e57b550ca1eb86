from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from certs import authority_of, issue, peer_tls
from eventually import eventually
from structlog.testing import capture_logs

from raftflow.cluster.cli.authority import Authority
from raftflow.cluster.listener import TlsListener, bound
from raftflow.cluster.tls import Credentials


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)  # type: ignore[attr-defined]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    made = authority_of(tmp_path / "certs")
    issue(made, "n1", "n2")
    return made


@pytest.fixture
def tls(authority: Authority) -> Credentials:
    return peer_tls(authority, "n1")


@pytest.fixture
async def port(tls: Credentials) -> AsyncIterator[int]:
    listener = await listening(tls)
    yield port_of(listener)
    listener.close()
    await listener.wait_closed()


async def listening(
    tls: Credentials, *, timeout_s: float = 5.0, most: int = 64, clear_too: bool = False
) -> TlsListener:
    listener = TlsListener(
        await bound("127.0.0.1", 0),
        Echo,
        tls.accepting,
        what="raft",
        timeout_s=timeout_s,
        most=most,
        clear_too=clear_too,
    )
    await listener.start_serving()
    return listener


def port_of(listener: TlsListener) -> int:
    found: int = listener.sockets[0].getsockname()[1]
    return found


async def echoed(port: int, context: ssl.SSLContext, text: bytes = b"hello") -> bytes:
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=context, server_hostname="127.0.0.1"
    )
    try:
        writer.write(text)
        return await reader.readexactly(len(text))
    finally:
        writer.close()


async def test_who_shakes_hands_is_served(port: int, tls: Credentials) -> None:
    text = b"x" * 300_000
    found = await asyncio.gather(*(echoed(port, tls.dialling(), text) for _ in range(5)))
    assert found == [text] * 5


async def test_each_connection_begins_with_the_certificates_of_its_moment(
    port: int, tls: Credentials, authority: Authority
) -> None:
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=tls.dialling(), server_hostname="127.0.0.1"
    )
    before = writer.get_extra_info("peercert")["serialNumber"]
    authority.succeed(days=30)
    authority.renew("n1", days=10)
    authority.renew("n2", days=10)
    authority.drop_old()
    old = tls.dialling()
    tls.refresh()
    _, later = await asyncio.open_connection(
        "127.0.0.1", port, ssl=tls.dialling(), server_hostname="127.0.0.1"
    )
    assert later.get_extra_info("peercert")["serialNumber"] != before
    with pytest.raises((OSError, asyncio.IncompleteReadError)):
        await echoed(port, old)
    writer.write(b"still here")
    assert await reader.readexactly(10) == b"still here"
    later.close()
    writer.close()


async def test_who_fails_is_told_with_address_and_reason_and_not_again_and_again(
    port: int, tmp_path: Path
) -> None:
    foreign = authority_of(tmp_path / "foreign")
    issue(foreign, "n1")
    stranger = peer_tls(foreign, "n1").dialling()
    stranger.verify_mode = ssl.CERT_NONE  # or it would be the one that refuses
    with capture_logs() as logs:
        for _ in range(3):
            with pytest.raises((OSError, asyncio.IncompleteReadError)):
                await echoed(port, stranger)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        assert await reader.read() == b""
        await eventually(lambda: len([x for x in logs if x["event"] == "tls_refused"]) == 2)
    refused = [log for log in logs if log["event"] == "tls_refused"]
    reasons = [str(log["reason"]) for log in refused]
    assert reasons[0].startswith("certificate not trusted: ")
    assert reasons[1:] == ["HTTP_REQUEST"]
    assert all(str(log["address"]).startswith("127.0.0.1:") for log in refused)


@pytest.mark.parametrize("clear_too", [False, True])
async def test_who_says_nothing_is_let_go(tls: Credentials, clear_too: bool) -> None:
    listener = await listening(tls, timeout_s=0.1, clear_too=clear_too)
    with capture_logs() as logs:
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(listener))
        async with asyncio.timeout(5):
            assert await reader.read() == b""
        await eventually(lambda: [log for log in logs if log["event"] == "tls_refused"])
    assert [log["reason"] for log in logs] == ["the handshake took too long"]
    writer.close()
    listener.close()
    await listener.wait_closed()


async def test_the_clear_may_be_taken_for_a_time(tls: Credentials) -> None:
    listener = await listening(tls, clear_too=True)
    assert await echoed(port_of(listener), tls.dialling()) == b"hello"
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(listener))
    writer.write(b"hello")
    assert await reader.readexactly(5) == b"hello"
    writer.close()
    listener.close()
    await listener.wait_closed()


async def test_handshakes_under_way_are_bounded(tls: Credentials) -> None:
    listener = await listening(tls, most=3)
    silent = []
    for _ in range(4):
        silent.append(await asyncio.open_connection("127.0.0.1", port_of(listener)))
        await asyncio.sleep(0.01)
    async with asyncio.timeout(5):
        assert await silent[0][0].read() == b"", "the oldest goes"
        assert await echoed(port_of(listener), tls.dialling()) == b"hello"
        assert await silent[1][0].read() == b""
    for _, writer in silent:
        writer.close()
    listener.close()
    await listener.wait_closed()


async def test_a_port_that_is_taken_leaves_nothing_open() -> None:
    (taken,) = await bound("127.0.0.1", 0)
    taken.listen()
    with pytest.raises(OSError, match="in use"):
        await bound("127.0.0.1", taken.getsockname()[1])
    taken.close()


async def test_closing_frees_the_port(tls: Credentials) -> None:
    listener = await listening(tls)
    port = port_of(listener)
    listener.close()
    await listener.wait_closed()
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", port))
