"""Parked polls: announced to whoever leads, served by grants, and no task is kept by a dead one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from raftflow.cluster.consensus.channel import PeerUnavailable
from raftflow.cluster.consensus.types import Role
from raftflow.cluster.dispatch import (
    DEMAND_METHOD,
    HEARTBEAT_METHOD,
    MOST_BEHIND,
    Dispatch,
    Poll,
    Task,
)
from raftflow.cluster.errors import LeaseLost, Unavailable
from raftflow.cluster.forwarding import LeaderWatch
from raftflow.cluster.nonces import granted_poll
from raftflow.engine.apply import Applied
from raftflow.engine.commands import Batch, Command, EagerPoll, RecordHeartbeat, ReturnTask
from raftflow.engine.effects import DeliverTask
from raftflow.engine.ids import RunKey, TokenParts, format_token
from raftflow.engine.limits import DEFAULT_LIMITS
from raftflow.engine.rejections import Answer, Done
from raftflow.engine.state import (
    Changes,
    Run,
    RunStatus,
    Step,
    StepKind,
    StepStatus,
    TaskState,
)
from raftflow.engine.state import Task as Work
from raftflow.proto.raftflow.internal.v1 import node_pb2

RUN = RunKey("default", "w", "r")
ORDERS = Poll(namespace="default", task_queue="default", names=("Order",), worker_id="w1")
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
        self.patience_ms: int | None = None
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
            lease_ms=30_000,
            decision_timeout_ms=10_000,
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
    async def wait_applied(self, index: int, *, timeout_ms: int) -> None:
        async with asyncio.timeout(timeout_ms / 1_000):
            while self.applied_index < index:
                await asyncio.sleep(0)

    def hot_run(self, key: RunKey) -> Run | None:
        return self.run

    async def execute(self, command: Command, *, deadline_ms: int | None = None) -> Answer:
        self.returned.append(command)
        self.patience_ms = deadline_ms
        return Done()

    def grant(self, poll_id: str, token: str = "token", held: str = "token") -> None:
        """Apply a grant of the run's decision; ``held`` is the token after the whole entry."""
        task = Work(state=TaskState.LEASED, token=held)
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

    def poll(self, timeout_ms: int = 5_000) -> asyncio.Task[list[Task]]:
        return asyncio.create_task(self.dispatch.poll_decision(ORDERS, timeout_ms=timeout_ms))

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
    (task,) = await poll
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


async def test_a_node_that_catches_up_hands_over_what_is_granted_in_the_end() -> None:
    """It was silent, so the leader took the first grant back: that entry is known, not applied."""
    node = FakeNode()
    first, second = node.poll(), node.poll()
    await until(lambda: sum(len(demand.parked) for _, demand in node.demands) == 2)
    polls = [poll.poll_id for _, demand in node.demands for poll in demand.parked]
    node.heard_commit_index = node.applied_index + 2
    node.grant(polls[0], token="taken back")
    node.applied_index += 1
    node.grant(polls[1])
    await asyncio.sleep(0.01)
    assert not first.done()
    assert not second.done()
    node.applied_index += 1
    assert [task.token for task in await second] == ["token"]
    assert not first.done()
    first.cancel()


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
    assert await poll


async def test_a_poll_that_ends_is_withdrawn() -> None:
    node = FakeNode()
    poll = node.poll(timeout_ms=30)
    announced = await node.announced()
    assert await poll == []
    await until(lambda: any(demand.withdrawn for _, demand in node.demands))
    assert list(node.demands[-1][1].withdrawn) == [announced.poll_id]


async def test_a_grant_to_a_poll_that_has_gone_gives_the_task_back() -> None:
    node = FakeNode()
    poll = node.poll(timeout_ms=30)
    announced = await node.announced()
    assert await poll == []
    node.grant(announced.poll_id)
    await until(lambda: node.returned)
    assert node.returned == [ReturnTask(namespace="default", workflow_id="w", token="token")]
    assert node.patience_ms == 30_000  # as long as the lease: an outage costs no attempt


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
    assert await poll
    assert node.returned == []


async def test_a_poll_for_several_gets_all_that_one_entry_brings_and_no_more() -> None:
    node = FakeNode()
    poll = asyncio.create_task(
        node.dispatch.poll_decision(replace(ORDERS, most=3), timeout_ms=5_000)
    )
    announced = await node.announced()
    assert announced.max == 3
    node.grant(announced.poll_id)
    node.grant(announced.poll_id)  # another entry, before the caller has its answer
    assert len(await poll) == 1
    await until(lambda: node.returned)


async def test_tasks_of_one_entry_come_together() -> None:
    node = FakeNode()
    poll = asyncio.create_task(
        node.dispatch.poll_activity(replace(ORDERS, most=3, names=()), timeout_ms=5_000)
    )
    announced = await node.announced()
    effects = tuple(DeliverTask(RUN, n, f"t{n}", "n1", announced.poll_id) for n in (1, 2, 3))
    node.run = run_with(activities(leased=("t1", "", "t3")))
    node.dispatch.on_applied(Applied((), effects, Changes()), BATCH)
    assert [task.token for task in await poll] == ["t1", "t3"]  # the second was overtaken
    assert node.returned == []


def activities(leased: tuple[str, ...]) -> list[Step]:
    return [
        Step(
            sequence=number,
            kind=StepKind.ACTIVITY,
            name="charge",
            status=StepStatus.SCHEDULED,
            scheduled_event_id=number,
            scheduled_ms=1,
            task=Work(state=TaskState.LEASED if token else TaskState.NONE, token=token),
        )
        for number, token in enumerate(leased, start=1)
    ]


def run_with(steps: list[Step]) -> Run:
    return Run(
        key=RUN,
        workflow_type="Order",
        task_queue="default",
        status=RunStatus.RUNNING,
        started_ms=1,
        updated_ms=1,
        steps=steps,
    )


class Completion:
    """A completion whose entry the test applies when it likes."""

    def __init__(self, node: FakeNode, request_id: str = "") -> None:
        self.asked: asyncio.Future[EagerPoll] = asyncio.get_running_loop().create_future()
        self.answer: asyncio.Future[tuple[str, ...]] = asyncio.get_running_loop().create_future()
        poll = replace(ORDERS, names=("charge",), most=2, request_id=request_id)
        self.call = asyncio.create_task(node.dispatch.eager_activity(poll, self.complete))

    async def complete(self, eager: EagerPoll) -> tuple[str, ...]:
        self.asked.set_result(eager)
        return await self.answer


async def test_an_eager_poll_takes_what_its_completion_queued() -> None:
    node = FakeNode()
    completion = Completion(node, request_id="q7")
    eager = await completion.asked
    assert (eager.node, eager.names, eager.limit, eager.duration_ms) == (
        "n1",
        ("charge",),
        2,
        30_000,
    )
    token = format_token(TokenParts("default", "r", 1, eager.nonce))
    assert granted_poll(token) == ("q7", eager.poll_id)
    completion.answer.set_result((token,))
    await asyncio.sleep(0.01)
    assert node.demands == []  # no leader hears of it
    assert node.dispatch.parked(node_pb2.Poll.KIND_ACTIVITY) == 0
    node.run = run_with(activities(leased=(token,)))
    effect = DeliverTask(RUN, 1, token, "n1", eager.poll_id)
    node.dispatch.on_applied(Applied((), (effect,), Changes()), BATCH)  # we follow a bit later
    assert [task.token for task in await completion.call] == [token]


async def test_an_eager_poll_that_got_nothing_does_not_wait() -> None:
    node = FakeNode()
    completion = Completion(node)
    await completion.asked
    completion.answer.set_result(())
    assert await completion.call == []


async def test_a_node_that_is_far_behind_takes_no_eager_work() -> None:
    node = FakeNode()
    node.heard_commit_index = node.applied_index + MOST_BEHIND + 1
    completion = Completion(node)
    assert (await completion.asked).limit == 0
    completion.answer.set_result(())
    await completion.call


async def test_a_caller_that_goes_gives_its_eager_tasks_back() -> None:
    for late in (False, True):
        node = FakeNode()
        completion = Completion(node)
        eager = await completion.asked
        node.run = run_with(activities(leased=("t1",)))
        applied = Applied((), (DeliverTask(RUN, 1, "t1", "n1", eager.poll_id),), Changes())
        if not late:
            node.dispatch.on_applied(applied, BATCH)
        completion.call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await completion.call
        if late:
            node.dispatch.on_applied(applied, BATCH)
        await until(lambda node=node: node.returned)
        assert node.returned == [ReturnTask(namespace="default", workflow_id="w", token="t1")]


async def test_an_eager_grant_overtaken_in_its_own_entry_hands_over_nothing() -> None:
    node = FakeNode()
    completion = Completion(node)
    eager = await completion.asked
    node.run = run_with(activities(leased=("",)))
    effect = DeliverTask(RUN, 1, "t1", "n1", eager.poll_id)
    node.dispatch.on_applied(Applied((), (effect,), Changes()), BATCH)
    completion.answer.set_result(("t1",))
    assert await completion.call == []
    assert node.demands == []


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


async def test_a_node_that_stops_gives_back_what_its_polls_had() -> None:
    node = FakeNode()
    answered = asyncio.Event()

    async def execute(command: Command, *, deadline_ms: int | None = None) -> Answer:
        await answered.wait()
        node.returned.append(command)
        return Done()

    node.execute = execute  # type: ignore[method-assign]
    poll = node.poll()
    named = await node.announced()
    poll.cancel()
    await asyncio.gather(poll, return_exceptions=True)
    node.grant(named.poll_id)
    draining = asyncio.create_task(node.dispatch.drain())
    await asyncio.sleep(0)
    assert not draining.done(), "it waits for the leader's answer"
    answered.set()
    await draining
    assert [type(command) for command in node.returned] == [ReturnTask]
