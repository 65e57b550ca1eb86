"""Parked polls: announced to whoever leads, served by grants, and no task is kept by a dead one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from raftflow.cluster.consensus.channel import PeerUnavailable
from raftflow.cluster.consensus.types import Role
from raftflow.cluster.dispatch import DEMAND_METHOD, HEARTBEAT_METHOD, MOST_BEHIND, Dispatch
from raftflow.cluster.errors import LeaseLost, Unavailable
from raftflow.cluster.forwarding import LeaderWatch
from raftflow.engine.apply import Applied
from raftflow.engine.commands import Batch, Command, RecordHeartbeat, ReturnTask
from raftflow.engine.describe import DecisionTask
from raftflow.engine.effects import DeliverTask
from raftflow.engine.ids import RunKey
from raftflow.engine.limits import DEFAULT_LIMITS
from raftflow.engine.rejections import Answer, Done
from raftflow.engine.state import Changes, Run, RunStatus, Task, TaskState
from raftflow.proto.raftflow.internal.v1 import node_pb2

RUN = RunKey("default", "w", "r")
BATCH = Batch(index=1, term=1, time_ms=1, commands=(), limits=DEFAULT_LIMITS)


class FakeNode:
    """Everything around the dispatch of node n1."""

    def __init__(self) -> None:
        self.role, self.leader = Role.FOLLOWER, "n2"
        self.channel = self
        self.connected = True
        self.heard_commit_index = self.applied_index = 5
        self.demands: list[tuple[str, node_pb2.Demand]] = []  # (to whom, what)
        self.returned: list[Command] = []
        self.run: Run | None = None
        self.beats: list[Any] = []
        self.watch = LeaderWatch()
        self.dispatch = Dispatch(
            consensus=self,  # type: ignore[arg-type]
            replica=self,  # type: ignore[arg-type]
            forwarder=self,  # type: ignore[arg-type]
            watch=self.watch,
            sink=self,
            node_id="n1",
            limits=DEFAULT_LIMITS,
            leader_wait_ms=300,
        )

    def elect(self, leader: str) -> None:
        self.leader = leader
        self.role = Role.LEADER if leader == "n1" else Role.FOLLOWER
        self.watch.on_role(self.role, 2, leader)
        self.dispatch.on_role(self.role, 2, leader)

    # channel
    def notify(self, peer: str, method: str, payload: bytes) -> bool:
        assert method == DEMAND_METHOD
        if self.connected:
            self.demands.append((peer, node_pb2.Demand.FromString(payload)))
        return self.connected

    async def call(self, peer: str, method: str, payload: bytes, *, timeout_ms: int) -> bytes:
        assert method == HEARTBEAT_METHOD
        reply = self.beats.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return bytes(reply.SerializeToString())

    # sink
    def on_demand(self, node: str, demand: node_pb2.Demand) -> None:
        self.demands.append((node, demand))

    async def on_heartbeat(self, request: node_pb2.HeartbeatRequest) -> node_pb2.HeartbeatReply:
        reply: node_pb2.HeartbeatReply = self.beats.pop(0)
        return reply

    # replica and forwarder
    def hot_run(self, key: RunKey) -> Run | None:
        return self.run

    async def execute(self, command: Command) -> Answer:
        self.returned.append(command)
        return Done()

    def grant(self, poll_id: str, token: str = "token", held: str = "token") -> None:
        """Apply a grant of the run's decision; ``held`` is the token after the whole entry."""
        task = Task(state=TaskState.LEASED, token=held)
        self.run = Run(
            key=RUN,
            workflow_type="Order",
            task_queue="default",
            status=RunStatus.RUNNING,
            started_ms=1,
            updated_ms=1,
            decision=task,
        )
        effect = DeliverTask(RUN, 0, token, "n1", poll_id)
        self.dispatch.on_applied(Applied((), (effect,), Changes()), BATCH)

    def poll(self, timeout_ms: int = 5_000) -> asyncio.Task[DecisionTask | None]:
        return asyncio.create_task(
            self.dispatch.poll_decision(
                "default", "default", ("Order",), "w1", timeout_ms=timeout_ms
            )
        )

    async def announced(self) -> node_pb2.Poll:
        await until(lambda: any(demand.parked for _, demand in self.demands))
        return next(demand.parked[0] for _, demand in reversed(self.demands) if demand.parked)


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0)


async def test_a_poll_is_announced_and_its_grant_hands_over_the_task() -> None:
    node = FakeNode()
    poll = node.poll()
    announced = await node.announced()
    assert (announced.namespace, list(announced.names)) == ("default", ["Order"])
    assert node.demands[0][0] == "n2"
    node.grant(announced.poll_id)
    task = await poll
    assert task is not None
    assert (task.workflow_id, task.token) == ("w", "token")
    assert node.returned == []


async def test_the_leader_announces_to_itself() -> None:
    node = FakeNode()
    node.elect("n1")
    poll = node.poll()
    await node.announced()
    assert node.demands[-1][0] == "n1"
    poll.cancel()


async def test_a_new_leader_hears_of_all_parked_polls() -> None:
    node = FakeNode()
    polls = [node.poll() for _ in range(3)]
    await node.announced()
    node.demands.clear()
    node.elect("n3")
    await until(lambda: node.demands)
    peer, demand = node.demands[0]
    assert (peer, demand.reset, len(demand.parked)) == ("n3", True, 3)
    for poll in polls:
        poll.cancel()


async def test_a_leader_that_begins_another_term_hears_of_them_again() -> None:
    """It has forgotten them, and the moment without a leader may have gone unnoticed here."""
    node = FakeNode()
    poll = node.poll()
    await node.announced()
    node.demands.clear()
    node.elect("n2")
    await until(lambda: node.demands)
    assert (node.demands[0][1].reset, len(node.demands[0][1].parked)) == (True, 1)
    poll.cancel()


async def test_a_node_that_is_far_behind_asks_for_no_work() -> None:
    node = FakeNode()
    node.heard_commit_index = node.applied_index + MOST_BEHIND + 1
    polls = [node.poll() for _ in range(2)]
    await asyncio.sleep(0.01)
    node.elect("n3")
    await asyncio.sleep(0.15)
    assert node.demands == []
    node.applied_index += 1
    await until(lambda: node.demands)
    assert len(node.demands[0][1].parked) == 2
    for poll in polls:
        poll.cancel()


async def test_what_could_not_be_announced_is_announced_when_the_peer_is_up() -> None:
    node = FakeNode()
    node.connected = False
    poll = node.poll()
    await asyncio.sleep(0.01)
    assert node.demands == []
    node.connected = True
    node.dispatch.on_peer_up("n2")
    announced = await node.announced()
    node.grant(announced.poll_id)
    assert await poll is not None


async def test_a_poll_that_ends_is_withdrawn() -> None:
    node = FakeNode()
    poll = node.poll(timeout_ms=30)
    announced = await node.announced()
    assert await poll is None
    await until(lambda: any(demand.withdrawn for _, demand in node.demands))
    assert list(node.demands[-1][1].withdrawn) == [announced.poll_id]


async def test_a_grant_to_a_poll_that_has_gone_gives_the_task_back() -> None:
    node = FakeNode()
    poll = node.poll(timeout_ms=30)
    announced = await node.announced()
    assert await poll is None
    node.grant(announced.poll_id)
    await until(lambda: node.returned)
    assert node.returned == [ReturnTask(namespace="default", workflow_id="w", token="token")]


async def test_a_poll_cancelled_with_its_task_in_hand_gives_it_back() -> None:
    node = FakeNode()
    poll = node.poll()
    announced = await node.announced()
    node.grant(announced.poll_id)
    poll.cancel()  # the client hung up in the same moment
    with pytest.raises(asyncio.CancelledError):
        await poll
    await until(lambda: node.returned)


async def test_a_grant_of_a_former_life_is_left_alone() -> None:
    """At start the log is replayed: the worker of such a grant may be at work."""
    node = FakeNode()
    node.grant("0123456789ab.1")
    await asyncio.sleep(0.01)
    assert node.returned == []


async def test_a_grant_overtaken_in_its_own_entry_leaves_the_poll_waiting() -> None:
    node = FakeNode()
    poll = node.poll()
    announced = await node.announced()
    node.demands.clear()
    node.grant(announced.poll_id, held="")  # terminated by a later command of the entry
    again = await node.announced()
    assert again.poll_id == announced.poll_id
    node.grant(again.poll_id)
    assert await poll is not None
    assert node.returned == []


async def beat(node: FakeNode, details: bytes | None = None) -> None:
    await node.dispatch.heartbeat("default", "w", "t", "w1", details)


async def test_a_heartbeat_reaches_the_leader_and_its_details_the_log() -> None:
    node = FakeNode()
    node.beats = [node_pb2.HeartbeatReply(held=True)]
    await beat(node, b"half")
    (recorded,) = node.returned
    assert isinstance(recorded, RecordHeartbeat)
    assert recorded.details == b"half"


async def test_a_heartbeat_without_details_writes_nothing() -> None:
    node = FakeNode()
    node.elect("n1")
    node.beats = [node_pb2.HeartbeatReply(held=True)]
    await beat(node)
    assert node.returned == []


async def test_a_lost_lease_is_told_with_its_reason() -> None:
    node = FakeNode()
    node.beats = [node_pb2.HeartbeatReply(held=False, cancelled=True, message="ended")]
    with pytest.raises(LeaseLost, match="ended") as lost:
        await beat(node)
    assert lost.value.cancelled


async def test_a_heartbeat_is_tried_again_while_there_is_time() -> None:
    node = FakeNode()
    node.beats = [PeerUnavailable("n2", sent=True), node_pb2.HeartbeatReply(held=True)]
    await beat(node)
    node.beats = [PeerUnavailable("n2", sent=True)] * 50
    with pytest.raises(Unavailable):
        await beat(node)
