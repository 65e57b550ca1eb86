from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from eventually import eventually
from peers import Peer, hello_of, meshed, start_peer
from ports import free_ports
from structlog.testing import capture_logs

from raftflow.cluster.consensus.channel import PeerError, PeerTimeout, PeerUnavailable
from raftflow.cluster.consensus.handshake import Purpose
from raftflow.cluster.consensus.link import LinkLimits


async def connected(peers: dict[str, Peer]) -> tuple[Peer, Peer]:
    one, two = peers["n1"], peers["n2"]
    await eventually(lambda: one.channel.connected("n2") and two.channel.connected("n1"))
    return one, two


async def echo(peer: str, payload: bytes) -> bytes:
    return peer.encode() + b":" + payload


async def test_calls_go_both_ways_and_do_not_mix_up() -> None:
    async with meshed("n1", "n2") as peers:
        one, two = await connected(peers)
        one.channel.register("echo", echo)
        two.channel.register("echo", echo)
        calls = [one.channel.call("n2", "echo", b"%d" % i, timeout_ms=2_000) for i in range(200)]
        calls += [two.channel.call("n1", "echo", b"%d" % i, timeout_ms=2_000) for i in range(200)]
        answers = await asyncio.gather(*calls)
        assert answers[:200] == [b"n1:%d" % i for i in range(200)]
        assert answers[200:] == [b"n2:%d" % i for i in range(200)]


async def test_a_slow_call_does_not_hold_up_others_and_large_ones_travel() -> None:
    async with meshed("n1", "n2") as peers:
        one, two = await connected(peers)
        gate = asyncio.Event()

        async def slow(peer: str, payload: bytes) -> bytes:
            await gate.wait()
            return b"slow"

        two.channel.register("slow", slow)
        two.channel.register("echo", echo)
        waiting = asyncio.create_task(one.channel.call("n2", "slow", b"", timeout_ms=5_000))
        body = bytes(3 << 20)
        assert await one.channel.call("n2", "echo", body, timeout_ms=5_000) == b"n1:" + body
        gate.set()
        assert await waiting == b"slow"


async def test_errors_travel_back() -> None:
    async with meshed("n1", "n2") as peers:
        one, two = await connected(peers)

        async def refuse(peer: str, payload: bytes) -> bytes:
            raise PeerError("NOT_LEADER", "ask n3, é")

        async def broken(peer: str, payload: bytes) -> bytes:
            raise RuntimeError("secret")

        two.channel.register("refuse", refuse)
        two.channel.register("broken", broken)
        with pytest.raises(PeerError) as caught:
            await one.channel.call("n2", "refuse", b"", timeout_ms=2_000)
        assert (caught.value.code, caught.value.text) == ("NOT_LEADER", "ask n3, é")
        with capture_logs() as logs, pytest.raises(PeerError, match="INTERNAL: RuntimeError"):
            await one.channel.call("n2", "broken", b"", timeout_ms=2_000)
        assert [log["event"] for log in logs] == ["peer_handler_failed"]
        with pytest.raises(PeerError, match="UNKNOWN_METHOD"):
            await one.channel.call("n2", "nothing", b"", timeout_ms=2_000)


async def test_nobody_there() -> None:
    async with meshed("n1", "n2") as peers:
        one, two = await connected(peers)
        with pytest.raises(PeerUnavailable) as caught:
            await one.channel.call("n7", "echo", b"", timeout_ms=2_000)
        assert not caught.value.sent
        assert not one.channel.notify("n7", "echo", b"")

        async def never(peer: str, payload: bytes) -> bytes:
            await asyncio.Event().wait()
            return b""

        two.channel.register("never", never)
        waiting = asyncio.create_task(one.channel.call("n2", "never", b"", timeout_ms=5_000))
        await asyncio.sleep(0)
        await two.mesh.stop()
        with pytest.raises(PeerUnavailable) as caught:
            await waiting
        assert caught.value.sent


async def test_a_timeout_and_a_cancelled_caller_cancel_the_work() -> None:
    async with meshed("n1", "n2") as peers:
        one, two = await connected(peers)
        cancelled: list[bytes] = []

        async def never(peer: str, payload: bytes) -> bytes:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(payload)
                raise
            return b""

        two.channel.register("never", never)
        with pytest.raises(PeerTimeout):
            await one.channel.call("n2", "never", b"timeout", timeout_ms=20)
        await eventually(lambda: cancelled == [b"timeout"])
        call = asyncio.create_task(one.channel.call("n2", "never", b"caller", timeout_ms=5_000))
        await asyncio.sleep(0.02)
        call.cancel()
        await eventually(lambda: cancelled == [b"timeout", b"caller"])
        assert one.channel.connected("n2")


async def test_pushes_keep_their_order() -> None:
    async with meshed("n1", "n2") as peers:
        one, two = await connected(peers)
        received: list[bytes] = []

        async def push(peer: str, payload: bytes) -> bytes:
            received.append(payload)
            return b""

        two.channel.register("push", push)
        sent = [b"%d" % i for i in range(500)]
        for payload in sent:
            assert one.channel.notify("n2", "push", payload)
        await eventually(lambda: len(received) == len(sent))
        assert received == sent


async def test_a_peer_that_does_not_read_is_refused_not_buffered() -> None:
    async with meshed("n1", "n2", limits=LinkLimits(send_buffer_bytes=256 << 10)) as peers:
        one, two = await connected(peers)

        async def push(peer: str, payload: bytes) -> bytes:
            return b""

        two.channel.register("push", push)
        sent = sum(one.channel.notify("n2", "push", bytes(100_000)) for _ in range(500))
        assert sent < 60
        with pytest.raises(PeerUnavailable) as caught:
            await one.channel.call("n2", "push", b"", timeout_ms=2_000)
        assert not caught.value.sent


async def test_the_owner_learns_who_comes_and_goes() -> None:
    async with meshed("n1", "n2") as peers:
        events: list[tuple[str, str]] = []
        one, two = await connected(peers)
        one.channel.on_up(lambda peer: events.append(("up", peer)))
        one.channel.on_down(lambda peer: events.append(("down", peer)))
        two.mesh.link("n1", Purpose.CHANNEL).close("test")
        await eventually(lambda: events == [("down", "n2"), ("up", "n2")])


@pytest.mark.parametrize(
    "frame", [b"", b"\x01", bytes(11), b"\x09" + bytes(10), b"\x01" + bytes(8) + b"\xff\xff"]
)
async def test_garbage_closes_the_channel(frame: bytes) -> None:
    async with meshed("n1", "n2") as peers:
        one, two = await connected(peers)
        link = two.mesh.link("n1", Purpose.CHANNEL)
        one.mesh.link("n2", Purpose.CHANNEL).send(frame or b"\x00")
        await eventually(lambda: link.reason == "bad_message")
        await eventually(lambda: two.channel.connected("n1"))


async def test_who_only_claims_to_be_a_member_is_not_served() -> None:
    """A node that was removed may say that it knows of newer members, and is let in."""
    ports = dict(zip(("n1", "n9"), free_ports(2), strict=True))
    member = await start_peer("n9", {"n9": ports["n9"]})
    removed = await start_peer("n1", ports, hello=replace(hello_of("n1"), configuration=1_000))
    asked: list[str] = []

    async def propose(peer: str, _payload: bytes) -> bytes:
        asked.append(peer)
        return b"done"

    member.channel.register("propose", propose)
    removed.channel.register("state", echo)  # a leader that we do not know yet
    try:
        await eventually(lambda: removed.channel.connected("n9") and member.channel.connected("n1"))
        with pytest.raises(PeerError) as refused:
            await removed.channel.call("n9", "propose", b"", timeout_ms=2_000)
        assert refused.value.code == "not_a_member"
        assert removed.channel.notify("n9", "propose", b"")
        answer = await member.channel.call("n1", "state", b"x", timeout_ms=2_000)
        assert (answer, asked) == (b"n9:x", [])
        member.mesh.follow({"n1": f"127.0.0.1:{ports['n1']}"}, configuration=1_001)
        assert await removed.channel.call("n9", "propose", b"", timeout_ms=2_000) == b"done"
    finally:
        await removed.mesh.stop()
        await member.mesh.stop()
