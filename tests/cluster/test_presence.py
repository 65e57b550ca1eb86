"""Who falls silent is known within two heartbeats, while somebody looks."""

from __future__ import annotations

import asyncio
from typing import Any, NoReturn

from eventually import eventually

from raftflow.cluster.consensus.channel import Handler, PeerError, PeerTimeout, PeerUnavailable
from raftflow.cluster.presence import METHOD, Presence


class Node:
    """n1 looks at n2 and n3; an error is what asking one of them brings."""

    def __init__(self) -> None:
        self.errors: dict[str, Exception] = {}
        self.members = ["n1", "n2", "n3"]
        self.asked: list[tuple[str, int]] = []
        self.changes = 0
        self.handler: Handler | None = None
        self.presence = Presence(consensus=self, node_id="n1", heartbeat_ms=4, fatal=self.fatal)
        self.presence.changed = self.count

    def count(self) -> None:
        self.changes += 1

    def fatal(self, error: BaseException) -> NoReturn:
        raise error

    @property
    def channel(self) -> Node:
        return self

    def peers(self) -> dict[str, Any]:
        return dict.fromkeys(self.members)

    def register(self, method: str, handler: Handler) -> None:
        assert method == METHOD
        self.handler = handler

    async def call(self, peer: str, method: str, payload: bytes, *, timeout_ms: int) -> bytes:
        self.asked.append((peer, timeout_ms))
        if peer in self.errors:
            raise self.errors[peer]
        return b""


async def test_one_that_falls_silent_and_comes_back() -> None:
    node = Node()
    with node.presence.watched():
        await eventually(lambda: len(node.asked) >= 4)
        assert node.presence.silent == frozenset()
        node.errors["n3"] = PeerTimeout()
        await eventually(lambda: node.presence.silent == {"n3"})
        assert node.changes == 1
        node.errors["n3"] = PeerError("UNKNOWN_METHOD", "")  # an older release, and alive
        await eventually(lambda: node.presence.silent == frozenset())
        assert node.changes == 2
        node.errors["n2"] = PeerUnavailable("n2", sent=True)
        await eventually(lambda: node.presence.silent == {"n2"})
    # One question is not waited for longer than lets it show within two heartbeats.
    assert {timeout_ms for _, timeout_ms in node.asked} == {6}


async def test_nobody_is_asked_while_nobody_looks() -> None:
    node = Node()
    await asyncio.sleep(0.01)
    assert node.asked == []
    with node.presence.watched(), node.presence.watched():
        await eventually(lambda: node.asked)
    await asyncio.sleep(0)
    node.asked.clear()
    await asyncio.sleep(0.01)
    assert node.asked == []
    assert node.presence.silent == frozenset()


async def test_those_who_are_members_now_are_watched() -> None:
    node = Node()
    node.errors["n3"] = PeerTimeout()
    with node.presence.watched():
        await eventually(lambda: node.presence.silent == {"n3"})
        node.members = ["n1", "n2", "n4"]
        node.presence.follow()
        assert node.presence.silent == frozenset()
        await eventually(lambda: ("n4", 6) in node.asked)


async def test_a_sign_of_life_is_nothing_more() -> None:
    node = Node()
    assert node.handler is not None
    assert await node.handler("n2", b"") == b""
