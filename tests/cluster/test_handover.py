"""Leadership at an operator's wish: the way to the leader, and what stands in the way."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from raftflow.cluster import handover as module
from raftflow.cluster.consensus.channel import Handler, PeerError, PeerTimeout, PeerUnavailable
from raftflow.cluster.consensus.types import Role
from raftflow.cluster.errors import OperationRefused, Unavailable
from raftflow.cluster.forwarding import LeaderWatch
from raftflow.cluster.handover import Handed, Handover


class World:
    """Three voters and n4, which does not vote; transfers succeed at once unless ``stays``."""

    def __init__(self) -> None:
        self.leader: str | None = "n1"
        self.term = 5
        self.stays = False
        self.voters = ("n1", "n2", "n3")
        self.away: set[str] = set()
        self.errors: list[Exception] = []
        self.handlers: dict[str, Handler] = {}
        self.nodes = {each: Node(self, each) for each in ("n1", "n2", "n3", "n4")}

    def elect(self, node: str | None) -> None:
        self.leader, self.term = node, self.term + 1
        for each in self.nodes.values():
            each.watch.on_role(each.role, self.term, node)


class Node:
    def __init__(self, world: World, node_id: str) -> None:
        self.world, self.id = world, node_id
        self.watch = LeaderWatch()
        self.config = SimpleNamespace(timing=SimpleNamespace(election_max_ms=10))
        self.handover = Handover(
            consensus=self,  # type: ignore[arg-type]
            watch=self.watch,
            node_id=node_id,
        )

    channel = property(lambda self: self)
    leader = property(lambda self: self.world.leader)
    term = property(lambda self: self.world.term)
    configuration = property(lambda self: SimpleNamespace(voters=self.world.voters))

    @property
    def role(self) -> Role:
        return Role.LEADER if self.world.leader == self.id else Role.FOLLOWER

    def peers(self) -> dict[str, Any]:
        return {
            each: SimpleNamespace(connected=each not in self.world.away)
            for each in self.world.nodes
        }

    def register(self, method: str, handler: Handler) -> None:
        self.world.handlers[self.id] = handler

    async def call(self, peer: str, method: str, payload: bytes, *, timeout_ms: int) -> bytes:
        if self.world.errors:
            raise self.world.errors.pop(0)
        return await self.world.handlers[peer](self.id, payload)

    async def transfer_leadership(self, to: str | None) -> bool:
        if not self.world.stays:
            asyncio.get_running_loop().call_soon(self.world.elect, None)
            asyncio.get_running_loop().call_later(0.001, self.world.elect, to or "n3")
        return to != "n3" or not self.world.stays


@pytest.mark.parametrize("through", ["n1", "n2", "n4"])
@pytest.mark.parametrize(("to", "leads"), [("n2", "n2"), ("", "n3")])
async def test_any_node_takes_the_call(through: str, to: str, leads: str) -> None:
    world = World()
    handed = await world.nodes[through].handover.transfer(to)
    assert handed == Handed("n1", leads, 7)
    assert world.leader == leads


async def test_who_leads_already_is_no_error() -> None:
    assert await World().nodes["n2"].handover.transfer("n1") == Handed("n1", "n1", 5)


@pytest.mark.parametrize(
    ("to", "reason", "said"),
    [
        ("n9", "NODE_NOT_FOUND", "n9 is no member"),
        ("n4", "NODE_REFUSED", "n4 does not vote"),
        ("n3", "NODE_REFUSED", "n3 is not connected"),
    ],
)
@pytest.mark.parametrize("through", ["n1", "n2"])
async def test_what_stands_in_the_way_is_said(
    through: str, to: str, reason: str, said: str
) -> None:
    world = World()
    world.away = {"n3"}
    with pytest.raises(OperationRefused, match=said) as refused:
        await world.nodes[through].handover.transfer(to)
    assert refused.value.reason == reason


async def test_one_alone_has_nobody() -> None:
    world = World()
    world.voters = ("n1",)
    with pytest.raises(OperationRefused, match="no other voter"):
        await world.nodes["n1"].handover.transfer("")


async def test_one_that_does_not_take_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_GRACE_S", 0.01)
    world = World()
    world.stays = True
    with pytest.raises(OperationRefused, match="n2 did not take over in time: n1 leads on"):
        await world.nodes["n3"].handover.transfer("n2")
    with pytest.raises(OperationRefused, match="handing over already"):
        await world.nodes["n1"].handover.transfer("n3")


async def test_a_leader_that_has_just_gone_is_not_the_end() -> None:
    world = World()
    world.errors = [PeerUnavailable("n1", sent=False), PeerError("NOT_LEADER", "")]
    assert (await world.nodes["n2"].handover.transfer("n3")).leader == "n3"


async def test_an_older_leader_is_named() -> None:
    world = World()
    world.errors = [PeerError("UNKNOWN_METHOD", "")]
    with pytest.raises(OperationRefused, match="n1, is of a release before"):
        await world.nodes["n2"].handover.transfer("")


@pytest.mark.parametrize("error", [PeerUnavailable("n1", sent=True), PeerTimeout()])
async def test_what_came_of_it_may_be_unknown(error: Exception) -> None:
    world = World()
    world.errors = [error]
    with pytest.raises(Unavailable) as unavailable:
        await world.nodes["n2"].handover.transfer("")
    assert unavailable.value.maybe_applied


async def test_without_a_leader_nobody_hands_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAIT_S", 0.05)
    world = World()
    world.leader = None
    with pytest.raises(Unavailable):
        await world.nodes["n2"].handover.transfer("")


async def test_a_question_that_cannot_be_read_is_refused() -> None:
    world = World()
    with pytest.raises(PeerError, match="BAD_REQUEST"):
        await world.handlers["n1"]("n2", b"[]")
    with pytest.raises(PeerError, match="NOT_LEADER"):
        await world.handlers["n2"]("n3", b'{"to": ""}')
