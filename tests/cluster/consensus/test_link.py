from __future__ import annotations

import asyncio
import struct
import time
from typing import cast

import pytest
from eventually import eventually
from peers import FAST, hello_of, meshed, start_peer
from ports import free_ports
from structlog.testing import capture_logs

from raftflow.cluster.consensus import handshake
from raftflow.cluster.consensus.framing import header
from raftflow.cluster.consensus.handshake import Purpose
from raftflow.cluster.consensus.link import LinkLimits


def framed(payload: bytes) -> bytes:
    return header(payload) + payload


async def test_a_frame_over_the_limit_after_the_handshake() -> None:
    async with meshed("n2", "n3", limits=LinkLimits(max_frame_bytes=1_000)) as peers:
        call = hello_of("n2").to("n3", Purpose.RAFT)
        reader, writer = await asyncio.open_connection("127.0.0.1", peers["n3"].port)
        writer.write(framed(handshake.encode(call)) + framed(b"x" * 1_000))
        await eventually(lambda: ("n2", b"x" * 1_000) in peers["n3"].raft.frames)
        with capture_logs() as logs:
            writer.write(struct.pack("<II", 1_001, 0))
            await reader.read()
        assert ("link_closed", "bad_frame") in [(e["event"], e.get("reason")) for e in logs]
        writer.close()


async def test_a_large_frame_right_behind_the_greeting() -> None:
    large = bytes(handshake.MAX_HELLO_BYTES + 1)
    async with meshed("n2", "n3") as peers:
        call = hello_of("n2").to("n3", Purpose.RAFT)
        _, writer = await asyncio.open_connection("127.0.0.1", peers["n3"].port)
        writer.write(framed(handshake.encode(call)) + framed(large))
        await eventually(lambda: ("n2", large) in peers["n3"].raft.frames)
        writer.close()


async def test_a_truncated_frame_says_so() -> None:
    async with meshed("n2", "n3") as peers:
        call = hello_of("n2").to("n3", Purpose.RAFT)
        _, writer = await asyncio.open_connection("127.0.0.1", peers["n3"].port)
        with capture_logs() as logs:
            writer.write(framed(handshake.encode(call)) + framed(b"payload")[:-1])
            writer.write_eof()
            await eventually(lambda: any(e.get("detail") == "inside a frame" for e in logs))
        writer.close()


@pytest.mark.slow
async def test_a_peer_that_does_not_read_cannot_keep_a_link_that_was_closed() -> None:
    """It would keep a node from stopping. Two that hang up on each other do not read either."""
    ports = dict(zip(("n2", "n3"), free_ports(2), strict=True))
    node = await start_peer("n3", ports, limits=LinkLimits(silence_ms=60_000))
    reader, writer = await asyncio.open_connection("127.0.0.1", node.port)
    writer.write(framed(handshake.encode(hello_of("n2").to("n3", Purpose.RAFT))))
    await reader.readexactly(8)
    await eventually(lambda: node.link("n2"))
    link = node.link("n2")
    assert link is not None
    cast(asyncio.Transport, writer.transport).pause_reading()
    transport = link._transport
    assert transport is not None
    while transport.get_write_buffer_size() == 0:
        assert link.send(bytes(10_000))
        await asyncio.sleep(0)
    link.close("replaced")
    assert not link.ended.done()
    await asyncio.wait_for(node.mesh.stop(), 10)
    writer.close()


async def test_a_full_buffer_drops_and_recovers() -> None:
    async with meshed("n2", "n3", limits=LinkLimits(send_buffer_bytes=256 << 10)) as peers:
        await eventually(lambda: peers["n2"].link("n3"))
        link = peers["n2"].link("n3")
        # The loop does not turn here, so nothing is written meanwhile.
        accepted = sum(link.send(bytes(100_000)) for _ in range(500))
        assert accepted < 60
        assert link.frames_dropped == 500 - accepted
        await eventually(lambda: len(peers["n3"].raft.frames) == accepted)
        assert link.send(b"again")


@pytest.mark.slow
async def test_a_silent_peer_is_given_up() -> None:
    async with meshed("n2", "n3") as peers:
        await peers["n2"].mesh.stop()
        call = hello_of("n2").to("n3", Purpose.RAFT)
        reader, writer = await asyncio.open_connection("127.0.0.1", peers["n3"].port)
        writer.write(framed(handshake.encode(call)))
        await eventually(lambda: peers["n3"].link("n2"))
        began = time.monotonic()
        await eventually(lambda: peers["n3"].link("n2") is None)
        assert 0.2 < time.monotonic() - began < 1.5
        writer.close()
        del reader


@pytest.mark.slow
async def test_idle_peers_stay_connected() -> None:
    async with meshed("n1", "n2") as peers:
        await eventually(lambda: peers["n1"].link("n2"))
        link = peers["n1"].link("n2")
        await asyncio.sleep(4 * FAST.silence_ms / 1000)
        assert peers["n1"].link("n2") is link
