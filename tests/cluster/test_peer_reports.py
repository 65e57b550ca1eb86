"""What the others say of themselves; a silent one costs two heartbeats, once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from raftflow.cluster.consensus.channel import Handler, PeerError, PeerTimeout, PeerUnavailable
from raftflow.cluster.peer_reports import METHOD, PeerReports, Report

Answer = Callable[[], Awaitable[bytes]]


class Node:
    """n1, and n2 as the test has it."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.calls = 0
        self.members = ["n1", "n2"]
        self.handler: Handler | None = None
        self.reports = PeerReports(consensus=self, node_id="n1", patience_ms=30)
        self.reports.serve(lambda: {"role": "leader"})

    @property
    def channel(self) -> Node:
        return self

    def peers(self) -> dict[str, Any]:
        return dict.fromkeys(self.members)

    def register(self, method: str, handler: Handler) -> None:
        assert method == METHOD
        self.handler = handler

    async def call(self, peer: str, method: str, payload: bytes, *, timeout_ms: int) -> bytes:
        self.calls += 1
        return await self.answer()


async def says() -> bytes:
    return b'{"role": "follower"}'


async def test_all_members_and_this_node() -> None:
    node = Node(says)
    assert await node.reports.all() == {
        "n1": Report({"role": "leader"}, True),
        "n2": Report({"role": "follower"}, True),
    }
    assert node.handler is not None
    assert json.loads(await node.handler("n2", b"")) == {"role": "leader"}


@pytest.mark.parametrize(
    ("error", "reachable"),
    [
        (PeerUnavailable("n2", sent=False), False),
        (PeerTimeout(), False),
        (PeerError("OVERLOADED", ""), True),
    ],
)
async def test_one_that_refuses_is_there_all_the_same(error: Exception, reachable: bool) -> None:
    async def fails() -> bytes:
        raise error

    assert (await Node(fails).reports.all())["n2"] == Report({}, reachable)


async def test_a_silent_one_is_waited_for_once() -> None:
    silence = asyncio.Event()

    async def is_silent() -> bytes:
        await silence.wait()
        return await says()

    node = Node(is_silent)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    assert (await node.reports.all())["n2"] == Report({}, False)
    assert loop.time() - begun < 1
    assert (await node.reports.all())["n2"] == Report({}, False)
    assert node.calls == 1
    silence.set()
    assert (await node.reports.all(silent={"n2"}))["n2"].reachable is False
    assert (await node.reports.all())["n2"] == Report({"role": "follower"}, True)


async def test_what_one_said_lately_stands_beside_its_silence() -> None:
    node = Node(says)
    await node.reports.all()
    node.answer = asyncio.get_running_loop().create_future  # type: ignore[assignment]
    assert (await node.reports.all())["n2"] == Report({"role": "follower"}, False)


async def test_one_that_left_is_forgotten() -> None:
    node = Node(says)
    await node.reports.all()
    node.members.remove("n2")
    assert list(await node.reports.all()) == ["n1"]
    assert list(node.reports._peers) == ["n1"]
