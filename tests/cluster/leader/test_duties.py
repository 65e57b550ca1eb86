"""The leader's duties against a real store: derived at takeover, followed by effects, forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import pytest

from raftflow.cluster.clock import LogClock
from raftflow.cluster.consensus.types import Role
from raftflow.cluster.errors import Unavailable
from raftflow.cluster.leader.duties import Duties
from raftflow.cluster.leader.grants import DutyTimes
from raftflow.cluster.metrics import Metrics
from raftflow.cluster.nonces import nonce_for
from raftflow.cluster.store.views import MessagePage, OpenTask, TaskPage
from raftflow.engine.apply import Applied
from raftflow.engine.commands import (
    FEATURE_LEVEL,
    Batch,
    ExpireLease,
    FireTimer,
    ForgetRequests,
    GrantActivity,
    GrantDecision,
    ReturnTask,
    TimerKind,
)
from raftflow.engine.effects import (
    ArmTimer,
    DeliverTask,
    DropLease,
    Effect,
    HoldLease,
    OfferActivity,
    OfferDecision,
    WithdrawTask,
)
from raftflow.engine.ids import RunKey, TokenParts, format_token
from raftflow.engine.limits import DEFAULT_LIMITS
from raftflow.engine.rejections import Answer, Granted, Reason, Rejection
from raftflow.engine.state import Catalog, Changes, TimerRow
from raftflow.proto.raftflow.internal.v1 import node_pb2

NOW_MS = 1_700_000_000_000
RUN = RunKey("default", "w", "r")
TOKEN = "rf1.ZGVmYXVsdA.r.1.n"


class World:
    """Duties of node n1, with time, store and log in the test's hands."""

    def __init__(self) -> None:
        self.mono_us = 0
        self.proposed: list[Any] = []
        self.answers: list[Callable[[Answer | None], None] | None] = []
        self.tasks: list[OpenTask] = []
        self.rows: list[TimerRow] = []
        self.oldest_request: int | None = None
        self.time_ms = NOW_MS
        self.applied_index = 1
        self.deposed = False
        self.commit_index = 0
        self.gone: set[str] = set()
        self.duties = Duties(
            node_id="n1",
            proposer=self,  # type: ignore[arg-type]
            reads=self,  # type: ignore[arg-type]
            replica=self,  # type: ignore[arg-type]
            store=self,  # type: ignore[arg-type]
            clock=LogClock(
                voters=1,
                monotonic_us=lambda: self.mono_us,
                wall_us=lambda: NOW_MS * 1_000 + self.mono_us,
            ),
            metrics=Metrics(),
            times=DutyTimes(lease_ms=30_000, decision_timeout_ms=10_000),
            network=self,
            fatal=self.fatal,
        )

    def fatal(self, error: BaseException) -> NoReturn:
        raise error

    def connected(self, node: str) -> bool:
        return node not in self.gone

    def hot_run(self, key: RunKey) -> None:
        return None

    # proposer
    feature_level = FEATURE_LEVEL

    def propose_duty(
        self, command: Any, done: Callable[[Answer | None], None] | None = None
    ) -> None:
        self.proposed.append(command)
        self.answers.append(done)

    # reads
    async def linearizable(self) -> int:
        if self.deposed:
            raise Unavailable("no leader confirmed this read", maybe_applied=False)
        return self.applied_index

    # replica and store
    async def written(self, index: int) -> None:
        pass

    async def run_view(self, namespace: str, workflow_id: str, run_id: str = "") -> None:
        return None

    async def open_tasks(self, *, after: Any, limit: int) -> TaskPage:
        return TaskPage(self.tasks, None)

    async def timers_due(self, horizon_ms: int, *, after: Any, limit: int) -> list[TimerRow]:
        return [row for row in self.rows if row.fire_at_ms <= horizon_ms]

    async def oldest_request_ms(self) -> int | None:
        return self.oldest_request

    async def outbox(self, *, after: int, limit: int) -> MessagePage:
        return MessagePage((), None)

    @property
    def catalog(self) -> Catalog:
        return Catalog()

    # what happens
    def lead(self, term: int = 2) -> None:
        self.duties.on_role(Role.LEADER, term, "n1")
        self.apply((), term=term)

    def apply(self, effects: Sequence[Effect], *, term: int = 2) -> None:
        batch = Batch(index=1, term=term, time_ms=NOW_MS, commands=(), limits=DEFAULT_LIMITS)
        self.duties.on_applied(Applied((), tuple(effects), Changes()), batch)

    def park(self, poll_id: str, *names: str, activity: bool = True) -> None:
        kind = node_pb2.Poll.KIND_ACTIVITY if activity else node_pb2.Poll.KIND_DECISION
        poll = node_pb2.Poll(
            poll_id=poll_id, kind=kind, namespace="default", task_queue="default", names=names
        )
        self.duties.on_demand("n2", node_pb2.Demand(parked=[poll]))

    async def until_proposed(self, kind: type, count: int = 1) -> list[Any]:
        def found() -> list[Any]:
            return [command for command in self.proposed if isinstance(command, kind)]

        async with asyncio.timeout(5):
            while len(found()) < count:
                await asyncio.sleep(0.005)
        return found()


OFFERED = OfferActivity(RUN, 1, 1, "charge", "default")


async def test_an_offered_task_is_granted_to_a_parked_poll() -> None:
    world = World()
    world.lead()
    world.park("p1", "charge")
    world.apply([OFFERED])
    (grant,) = await world.until_proposed(GrantActivity)
    assert (grant.node, grant.poll_id, grant.attempt, grant.duration_ms) == ("n2", "p1", 1, 30_000)
    world.duties.stop()


async def test_a_decision_is_granted_with_its_deadline() -> None:
    world = World()
    world.lead()
    world.apply([OfferDecision(RUN, "Order", "default")])
    world.park("p1", "Order", activity=False)
    (grant,) = await world.until_proposed(GrantDecision)
    assert (grant.run_id, grant.timeout_ms) == ("r", 10_000)
    world.duties.stop()


async def test_who_does_not_lead_grants_nothing() -> None:
    world = World()
    world.park("p1", "charge")
    world.apply([OFFERED])
    world.lead()
    world.duties.on_role(Role.FOLLOWER, 3, "n3")
    world.park("p2", "charge")
    world.apply([OFFERED], term=3)
    assert world.proposed == []
    assert world.duties.matching.polls_waiting == 0


async def test_entries_of_earlier_terms_are_not_followed() -> None:
    world = World()
    world.duties.on_role(Role.LEADER, 5, "n1")
    world.apply([OFFERED], term=4)
    assert world.duties.matching.depth(activities=True) == 0
    world.apply([OFFERED], term=5)
    assert world.duties.matching.depth(activities=True) == 1
    world.duties.stop()


async def test_a_new_leader_derives_its_duties_from_the_store() -> None:
    world = World()
    queued = OpenTask(
        run=RUN,
        sequence=1,
        attempt=2,
        name="charge",
        task_queue="default",
        leased=False,
        token="",
        duration_ms=0,
    )
    leased = OpenTask(
        run=RunKey("default", "w2", "r2"),
        sequence=1,
        attempt=1,
        name="ship",
        task_queue="default",
        leased=True,
        token=TOKEN,
        duration_ms=1_000,
    )
    world.tasks = [queued, leased]
    world.rows = [TimerRow(RUN, TimerKind.STEP, 3, NOW_MS - 5)]
    world.lead()
    world.park("p1", "charge")
    (grant,) = await world.until_proposed(GrantActivity)
    assert grant.attempt == 2
    (fired,) = await world.until_proposed(FireTimer)
    assert (fired.sequence, fired.fire_at_ms) == (3, NOW_MS - 5)
    # The lease has its full duration from the takeover, not a moment less.
    world.mono_us += 999_000
    await asyncio.sleep(0.15)
    assert not [c for c in world.proposed if isinstance(c, ExpireLease)]
    world.mono_us += 2_000
    (expired,) = await world.until_proposed(ExpireLease)
    assert expired.token == TOKEN
    world.duties.stop()


async def test_a_timer_fires_once_when_log_time_reaches_it() -> None:
    world = World()
    world.lead()
    await asyncio.sleep(0.02)  # the horizon is loaded
    world.apply([ArmTimer(RUN, TimerKind.STEP, 1, NOW_MS + 500)])
    await asyncio.sleep(0.05)
    assert world.proposed == []
    world.mono_us += 501_000
    await world.until_proposed(FireTimer)
    await asyncio.sleep(0.15)
    assert len(world.proposed) == 1
    world.duties.stop()


async def test_a_dropped_grant_leaves_the_poll_for_the_next_task() -> None:
    world = World()
    world.lead()
    world.park("p1", "charge")
    world.apply([OFFERED])
    done = world.answers[0]
    assert done is not None
    done(Rejection(reason=Reason.GRANT_DROPPED, message="overtaken"))
    world.apply([OfferActivity(RUN, 2, 1, "charge", "default")])
    first, second = await world.until_proposed(GrantActivity, 2)
    assert (first.sequence, second.sequence) == (1, 2)
    assert first.poll_id == second.poll_id == "p1"
    second_done = world.answers[1]
    assert second_done is not None
    second_done(Granted("t"))
    assert world.duties.matching.polls_waiting == 0
    world.duties.stop()


async def test_a_withdrawn_task_and_a_lost_node_are_forgotten() -> None:
    world = World()
    world.lead()
    world.apply([OFFERED, WithdrawTask(RUN, 1)])
    world.park("p1", "charge")
    world.duties.on_peer_down("n2")
    world.apply([OFFERED])
    assert world.proposed == []
    world.duties.stop()


async def test_heartbeats_extend_and_a_dropped_lease_has_none() -> None:
    world = World()
    world.lead()
    world.apply([HoldLease(RUN, 1, TOKEN, 1_000)])
    request = node_pb2.HeartbeatRequest(
        namespace="default", workflow_id="w", lease_token=TOKEN, worker_id="w1"
    )
    assert (await world.duties.on_heartbeat(request)).held
    world.apply([DropLease(RUN, 1, TOKEN, cancelled=True, expired=False)])
    reply = await world.duties.on_heartbeat(request)
    assert (reply.held, reply.cancelled) == (False, True)  # the run is gone
    request.lease_token = "nonsense"
    assert not (await world.duties.on_heartbeat(request)).held
    world.duties.stop()


async def test_a_heartbeat_that_comes_after_the_deadline_is_not_confirmed() -> None:
    """Its expiry is in the log already, although it is not applied yet."""
    world = World()
    world.lead()
    world.apply([HoldLease(RUN, 1, TOKEN, 1_000)])
    assert world.duties.leases.missed(2**62)
    request = node_pb2.HeartbeatRequest(
        namespace="default", workflow_id="w", lease_token=TOKEN, worker_id="w1"
    )
    reply = await world.duties.on_heartbeat(request)
    assert (reply.held, reply.cancelled) == (False, False)
    world.duties.stop()


async def test_a_leader_deposed_in_its_sleep_confirms_no_lease() -> None:
    world = World()
    world.lead()
    world.apply([HoldLease(RUN, 1, TOKEN, 1_000)])
    world.deposed = True
    request = node_pb2.HeartbeatRequest(
        namespace="default", workflow_id="w", lease_token=TOKEN, worker_id="w1"
    )
    with pytest.raises(Unavailable):
        await world.duties.on_heartbeat(request)
    world.duties.stop()


async def test_expired_request_ids_are_forgotten_in_slices() -> None:
    world = World()
    world.oldest_request = NOW_MS - 1
    world.lead()
    (forget, *_) = await world.until_proposed(ForgetRequests)
    assert forget.before_ms >= NOW_MS - 1
    world.duties.stop()


def asked(poll_id: str, request_id: str = "q") -> node_pb2.Demand:
    poll = node_pb2.Poll(
        poll_id=poll_id,
        kind=node_pb2.Poll.KIND_ACTIVITY,
        namespace="default",
        task_queue="default",
        names=["charge"],
        request_id=request_id,
    )
    return node_pb2.Demand(parked=[poll])


async def test_a_poll_asked_again_gives_back_what_never_reached_its_caller() -> None:
    world = World()
    world.lead()
    world.duties.on_demand("n2", asked("aaaa.1"))
    world.apply([OFFERED])
    (grant,) = await world.until_proposed(GrantActivity)
    token = format_token(TokenParts("default", "r", 1, grant.nonce))
    world.apply([HoldLease(RUN, 1, token, 30_000)])
    # Its node announces it once more before it has applied the grant: nothing is lost.
    world.duties.on_demand("n2", asked("aaaa.1"))
    assert not [c for c in world.proposed if isinstance(c, ReturnTask)]
    world.duties.on_demand("n3", asked("bbbb.1"))
    (returned,) = await world.until_proposed(ReturnTask)
    assert returned.token == token
    world.duties.stop()


async def test_the_next_leader_knows_to_whom_a_task_went() -> None:
    world = World()
    nonce = nonce_for(asked("aaaa.1").parked[0])
    token = format_token(TokenParts("default", "r", 1, nonce))
    world.tasks = [
        OpenTask(
            run=RUN,
            sequence=1,
            attempt=1,
            name="charge",
            task_queue="default",
            leased=True,
            token=token,
            duration_ms=30_000,
        )
    ]
    world.duties.on_role(Role.LEADER, 2, "n1")
    world.duties.on_demand("n3", asked("bbbb.1"))  # comes before the duties are derived
    world.apply([])
    (returned,) = await world.until_proposed(ReturnTask)
    assert returned.token == token
    world.duties.stop()


DELIVERED = DeliverTask(RUN, 1, TOKEN, "n2", "aaaa.1")


async def test_what_a_dead_leader_granted_and_told_nobody_goes_back() -> None:
    world = World()
    world.gone = {"n2"}
    world.duties.on_role(Role.LEADER, 2, "n1")
    world.apply([DELIVERED], term=1)
    (returned,) = await world.until_proposed(ReturnTask)
    assert returned.token == TOKEN


async def test_a_grant_that_was_told_may_be_at_work_and_stays() -> None:
    for told, born in ((1, 0), (0, 1)):  # told by the old leader; or replayed after a restart
        world = World()
        world.gone = {"n2"}
        world.commit_index, world.duties.returns.born_index = told, born
        world.duties.on_role(Role.LEADER, 2, "n1")
        world.apply([DELIVERED], term=1)
        assert world.proposed == []


async def test_a_node_that_is_there_hands_over_itself() -> None:
    world = World()
    world.duties.on_role(Role.LEADER, 2, "n1")
    world.apply([DELIVERED], term=1)
    world.lead()
    world.apply([DELIVERED])
    assert world.proposed == []
    world.gone = {"n2"}
    world.apply([DELIVERED])
    await world.until_proposed(ReturnTask)
    world.duties.stop()
