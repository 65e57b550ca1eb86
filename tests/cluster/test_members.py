"""The way of a change to the leader: waiting, forwarding, trying again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from raftflow.cluster import members
from raftflow.cluster.consensus.channel import PeerError, PeerUnavailable
from raftflow.cluster.consensus.membership import Configuration, Member
from raftflow.cluster.consensus.types import ChangeRefused, NotLeader, Proposed, Role
from raftflow.cluster.errors import MembershipRefused, Unavailable
from raftflow.cluster.forwarding import LeaderWatch
from raftflow.cluster.members import Members

Handler = Callable[[str, bytes], Awaitable[bytes]]


@dataclass
class World:
    """One log that every node sees, and who leads."""

    leader: str | None = "n1"
    term: int = 1
    configuration: Configuration = field(
        default_factory=lambda: Configuration(
            tuple(Member(each, f"{each}:1", True, "d") for each in ("n1", "n2", "n3")), 3
        )
    )
    index: int = 5
    committed: int = 5
    handlers: dict[str, Handler] = field(default_factory=dict)
    nodes: dict[str, FakeConsensus] = field(default_factory=dict)
    commits: bool = True  # whether what is proposed is committed at once
    refusals: int = 0
    calls: int = 0
    answer: Callable[[], None] = lambda: None  # asked after each forwarded call

    def elect(self, node: str | None) -> None:
        self.leader, self.term = node, self.term + 1
        for each in self.nodes.values():
            each.watch.on_role(each.role, self.term, node)


@dataclass
class FakeConsensus:
    world: World
    id: str
    watch: LeaderWatch = field(default_factory=LeaderWatch)

    def __post_init__(self) -> None:
        self.world.nodes[self.id] = self
        self.channel = self
        self.config = SimpleNamespace(node_id=self.id)

    role = property(lambda self: Role.LEADER if self.leads else Role.FOLLOWER)
    leads = property(lambda self: self.world.leader == self.id)
    leader = property(lambda self: self.world.leader)
    term = property(lambda self: self.world.term)
    configuration = property(lambda self: self.world.configuration)

    def status(self) -> Any:
        return SimpleNamespace(
            configuration_index=self.world.index,
            committed_configuration_index=self.world.committed,
            flushed_index=9,
            peers={},
        )

    def peers(self) -> dict[str, Any]:
        return {
            each.id: SimpleNamespace(
                id=each.id, connected=True, incarnation="d", feature_level=3, version="0.3.0"
            )
            for each in self.world.configuration.members
        }

    def change_membership(self, configuration: Configuration) -> Proposed:
        if not self.leads:
            raise NotLeader(self.world.leader)
        if self.world.refusals:
            self.world.refusals -= 1
            raise ChangeRefused("not now")
        self.world.configuration = configuration
        self.world.index += 1
        if self.world.commits:
            self.world.committed = self.world.index
        return Proposed(self.world.index, self.world.term)

    def register(self, method: str, handler: Handler) -> None:
        self.world.handlers[self.id] = handler

    async def call(self, peer: str, method: str, payload: bytes, *, timeout_ms: int) -> bytes:
        assert method == members.METHOD
        self.world.calls += 1
        answer = await self.world.handlers[peer](self.id, payload)
        self.world.answer()
        return answer


def nodes_of(world: World) -> dict[str, Members]:
    found = {}
    for each in ("n1", "n2"):
        consensus: Any = FakeConsensus(world, each)
        found[each] = Members(consensus=consensus, watch=consensus.watch, node_id=each)
    return found


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("at", ["n1", "n2"])
async def test_any_node_takes_a_change(at: str) -> None:
    world = World()
    node = nodes_of(world)[at]
    assert await node.add("n4", "n4:1") == 6
    assert world.configuration.find("n4") == Member("n4", "n4:1", voter=False)
    assert await node.remove("n3") == 7
    assert world.configuration.voters == ("n1", "n2")


@pytest.mark.parametrize("at", ["n1", "n2"])
async def test_a_refusal_comes_back_as_it_was(at: str) -> None:
    node = nodes_of(World())[at]
    with pytest.raises(MembershipRefused, match="n9 is no member") as caught:
        await node.remove("n9")
    assert caught.value.reason == "NODE_NOT_FOUND"


async def test_a_change_waits_for_the_one_before_and_is_judged_by_it() -> None:
    world = World(commits=False)
    node = nodes_of(world)["n1"]
    first = asyncio.create_task(node.add("n4", "n4:1"))
    second = asyncio.create_task(node.add("n4", "n4:1"))
    await eventually(lambda: world.index == 6)
    await asyncio.sleep(0.05)
    assert (first.done(), second.done(), world.index) == (False, False, 6)
    world.committed = 6
    assert await first == 6
    with pytest.raises(MembershipRefused, match="member already"):
        await second


async def test_what_the_core_refuses_for_now_is_proposed_again() -> None:
    world = World(refusals=3)
    assert await nodes_of(world)["n1"].add("n4", "n4:1") == 6


@pytest.mark.parametrize("survives", [True, False])
async def test_a_leader_lost_in_the_middle_is_cured_by_the_next(survives: bool) -> None:
    """Whether or not what the old one proposed came through: one effect, and success."""
    world = World(commits=False)
    nodes = nodes_of(world)
    before = world.configuration
    change = asyncio.create_task(nodes["n2"].add("n4", "n4:1"))
    await eventually(lambda: world.index == 6)
    if not survives:
        world.configuration, world.index = before, 5
    world.commits, world.committed = True, world.index
    world.elect("n2")
    await change
    assert world.configuration.find("n4") is not None
    assert world.index == 6


async def test_an_answer_that_is_lost_is_asked_for_again() -> None:
    world = World()
    lost = [PeerUnavailable("n1", sent=True)]

    def answer() -> None:
        if lost:
            raise lost.pop()

    world.answer = answer
    assert await nodes_of(world)["n2"].remove("n3") == 6
    assert world.calls == 2


async def test_who_never_belonged_was_not_removed_by_a_call_that_got_lost() -> None:
    world = World()
    node = nodes_of(world)["n2"]
    at_leader, lost = world.handlers["n1"], [PeerUnavailable("n1", sent=True)]

    async def deaf_at_first(peer: str, payload: bytes) -> bytes:
        if lost:
            raise lost.pop()
        return await at_leader(peer, payload)

    world.handlers["n1"] = deaf_at_first
    with pytest.raises(MembershipRefused, match="n9 is no member"):
        await node.remove("n9")


async def test_a_leader_of_an_earlier_release_is_named() -> None:
    world = World()
    node = nodes_of(world)["n2"]

    async def unknown(_peer: str, _payload: bytes) -> bytes:
        raise PeerError("UNKNOWN_METHOD", "no handler")

    world.handlers["n1"] = unknown
    with pytest.raises(MembershipRefused, match=r"the leader, n1, is of a release before 0\.3"):
        await node.add("n4", "n4:1")


@pytest.mark.parametrize("asked", ["n1", "n2"])
async def test_a_change_that_is_not_committed_in_time_may_still_be_made(
    monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    monkeypatch.setattr(members, "WAIT_S", 0.1)
    world = World(commits=False)
    nodes = nodes_of(world)
    with pytest.raises(Unavailable, match="may still be made") as caught:
        await nodes[asked].add("n4", "n4:1")
    assert caught.value.maybe_applied
    assert world.configuration.find("n4") is not None


async def test_without_a_leader_it_says_so_and_nothing_is_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(members, "WAIT_S", 0.1)
    node = nodes_of(World(leader=None))["n1"]
    with pytest.raises(Unavailable, match="nothing was changed") as caught:
        await node.add("n4", "n4:1")
    assert not caught.value.maybe_applied
