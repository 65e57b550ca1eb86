"""From any node to the leader: what is retried, what is told, and how much is surely known."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from eventually import eventually

from raftflow.cluster.codec import replies
from raftflow.cluster.consensus.channel import PeerError, PeerTimeout, PeerUnavailable
from raftflow.cluster.consensus.membership import Configuration, Member
from raftflow.cluster.consensus.types import NotLeader, Role
from raftflow.cluster.errors import Indeterminate, Overloaded, Unavailable
from raftflow.cluster.forwarding import METHOD, Forwarder, LeaderWatch
from raftflow.cluster.proposer import overloaded
from raftflow.engine.apply import Applied
from raftflow.engine.commands import Batch, Command, CompleteActivity, ForgetRequests
from raftflow.engine.limits import DEFAULT_LIMITS
from raftflow.engine.rejections import Answer, Done, Reason, Rejection, Reply
from raftflow.engine.state import Changes
from raftflow.proto.raftflow.internal.v1 import node_pb2

COMMAND = ForgetRequests(before_ms=1, limit=1)
COMPLETION = CompleteActivity(
    namespace="default", workflow_id="w", step_name="", sequence=1, lease_token="t", failed=False
)

BATCH = Batch(index=1, term=1, time_ms=1, commands=(), limits=DEFAULT_LIMITS)
Handler = Callable[[str, bytes], Awaitable[bytes]]


class FakeCluster:
    """Consensus, channel and proposer of node n1; the test decides who leads and what happens."""

    def __init__(self) -> None:
        self.role = Role.FOLLOWER
        self.leader: str | None = "n2"
        self.configuration = Configuration(tuple(Member(each, "") for each in ("n1", "n2", "n3")))
        self.term = 1
        self.channel = self
        self.watch = LeaderWatch()
        self.handler: Handler | None = None
        self.calls: list[tuple[str, str]] = []  # (peer, command id)
        self.submitted: list[str] = []
        self.outcomes: list[Any] = []  # of calls and submissions, in order; the last one stays

    def register(self, method: str, handler: Handler) -> None:
        assert method == METHOD
        self.handler = handler

    def elect(self, leader: str | None) -> None:
        self.leader = leader
        self.role = Role.LEADER if leader == "n1" else Role.FOLLOWER
        self.term += 1
        self.watch.on_role(self.role, self.term, leader)

    async def call(self, peer: str, method: str, payload: bytes, *, timeout_ms: int) -> bytes:
        request = node_pb2.ForwardRequest.FromString(payload)
        self.calls.append((peer, request.command_id))
        return replies.encode_answer(await self._outcome())

    async def submit(self, command_id: str, _command: bytes) -> Answer:
        self.submitted.append(command_id)
        return await self._outcome()

    async def _outcome(self) -> Answer:
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if callable(outcome):
            outcome = outcome()
        if isinstance(outcome, asyncio.Future):
            outcome = await outcome
        if isinstance(outcome, Exception):
            raise outcome
        assert isinstance(outcome, Done | Rejection)
        return outcome


def make(
    cluster: FakeCluster,
    leader_wait_ms: int = 2_000,
    check: Callable[[Command], None] = lambda command: None,
) -> Forwarder:
    return Forwarder(
        consensus=cluster,  # type: ignore[arg-type]
        proposer=cluster,  # type: ignore[arg-type]
        watch=cluster.watch,
        node_id="n1",
        leader_wait_ms=leader_wait_ms,
        check=check,
    )


async def test_what_is_refused_here_goes_nowhere() -> None:
    cluster = FakeCluster()

    def check(command: Command) -> None:
        raise ValueError(type(command).__name__)

    forwarder = make(cluster, check=check)
    with pytest.raises(ValueError, match="ForgetRequests"):
        await forwarder.execute(COMMAND)
    assert (cluster.calls, cluster.submitted) == ([], [])


async def test_a_follower_sends_the_command_to_the_leader() -> None:
    cluster = FakeCluster()
    cluster.outcomes = [Done()]
    assert await make(cluster).execute(COMMAND, command_id="c1") == Done()
    assert cluster.calls == [("n2", "c1")]


async def test_the_leader_proposes_itself() -> None:
    cluster = FakeCluster()
    cluster.elect("n1")
    cluster.outcomes = [Done()]
    assert await make(cluster).execute(COMMAND, command_id="c1") == Done()
    assert (cluster.calls, cluster.submitted) == ([], ["c1"])


@pytest.mark.parametrize(
    "failure",
    [
        PeerUnavailable("n2", sent=False),
        PeerUnavailable("n2", sent=True),
        PeerError("NOT_LEADER", ""),
        PeerError("INDETERMINATE", ""),
        PeerTimeout(),
    ],
    ids=lambda failure: f"{type(failure).__name__}-{failure}",
)
async def test_the_same_id_is_sent_again_until_it_is_answered(failure: Exception) -> None:
    cluster = FakeCluster()
    cluster.outcomes = [failure, failure, Done()]
    assert await make(cluster).execute(COMMAND, command_id="c1") == Done()
    assert cluster.calls == [("n2", "c1")] * 3


STALE = Rejection(reason=Reason.DECISION_STALE, message="the task token is not the one that is out")


def applied_with(command_id: str, answer: Answer) -> Applied:
    return Applied((Reply("another", Done()), Reply(command_id, answer)), (), Changes())


@pytest.mark.parametrize("leader", ["n1", "n2"])
@pytest.mark.parametrize("first", [Done(), STALE])
async def test_what_the_first_try_came_to_counts_and_not_what_is_said_to_its_repeat(
    leader: str, first: Answer
) -> None:
    """A decision was applied, and the next one as well, before it came again: it is history."""
    cluster = FakeCluster()
    cluster.elect(leader)
    lost = Indeterminate("lost") if leader == "n1" else PeerError("INDETERMINATE", "")
    cluster.outcomes = [lost, STALE]
    forwarder = make(cluster)
    call = asyncio.create_task(forwarder.execute(COMPLETION, command_id="c1"))
    await eventually(lambda: len(cluster.calls + cluster.submitted) == 2)
    assert not call.done()
    forwarder.on_applied(applied_with("c1", first), BATCH)
    forwarder.on_applied(applied_with("c1", STALE), BATCH)
    assert await call == first


async def test_a_refusal_of_the_only_try_is_the_answer() -> None:
    cluster = FakeCluster()
    cluster.outcomes = [PeerUnavailable("n2", sent=False), STALE]
    assert await make(cluster).execute(COMPLETION) == STALE


async def test_what_became_known_here_needs_no_other_try() -> None:
    cluster = FakeCluster()
    forwarder = make(cluster)

    def lost() -> Exception:
        forwarder.on_applied(applied_with("c1", Done()), BATCH)
        return PeerTimeout("applied, and then silence")

    cluster.outcomes = [lost]
    assert await forwarder.execute(COMMAND, command_id="c1") == Done()
    assert cluster.calls == [("n2", "c1")]


async def test_who_does_not_hear_of_the_first_try_says_that_it_may_be_applied() -> None:
    cluster = FakeCluster()
    cluster.outcomes = [PeerTimeout("sent, and then silence"), STALE]
    with pytest.raises(Unavailable) as refused:
        await make(cluster, leader_wait_ms=100).execute(COMPLETION)
    assert refused.value.maybe_applied is True


async def test_a_frozen_leader_is_left_when_another_is_elected() -> None:
    cluster = FakeCluster()
    silence: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    cluster.outcomes = [silence, Done()]
    call = asyncio.create_task(make(cluster).execute(COMMAND, command_id="c1"))
    while not cluster.calls:
        await asyncio.sleep(0)
    cluster.elect("n3")
    assert await call == Done()
    assert cluster.calls == [("n2", "c1"), ("n3", "c1")]


async def test_a_call_waits_out_an_election() -> None:
    cluster = FakeCluster()
    cluster.elect(None)
    cluster.outcomes = [Done()]
    call = asyncio.create_task(make(cluster).execute(COMMAND, command_id="c1"))
    await asyncio.sleep(0)
    assert not cluster.calls
    cluster.elect("n1")
    assert await call == Done()


@pytest.mark.parametrize(
    ("failures", "maybe_applied"),
    [
        ([PeerUnavailable("n2", sent=False)], False),
        ([PeerError("NOT_LEADER", "")], False),
        ([PeerUnavailable("n2", sent=True)], True),
        ([PeerError("INDETERMINATE", "")], True),
        ([PeerTimeout()], True),
        # Once it may have been applied, no later refusal takes that back.
        ([PeerError("INDETERMINATE", ""), PeerError("NOT_LEADER", "")], True),
        ([PeerUnavailable("n2", sent=True), PeerUnavailable("n2", sent=False)], True),
    ],
)
async def test_after_the_wait_the_caller_learns_what_is_known(
    failures: list[Exception], maybe_applied: bool
) -> None:
    cluster = FakeCluster()
    cluster.outcomes = failures
    with pytest.raises(Unavailable) as refused:
        await make(cluster, leader_wait_ms=150).execute(COMMAND)
    assert refused.value.maybe_applied is maybe_applied


async def test_no_leader_means_nothing_was_proposed() -> None:
    cluster = FakeCluster()
    cluster.elect(None)
    with pytest.raises(Unavailable, match="nothing was proposed") as refused:
        await make(cluster, leader_wait_ms=100).execute(COMMAND)
    assert refused.value.maybe_applied is False


@pytest.mark.parametrize(
    ("outcome", "maybe_applied"),
    [(NotLeader("n1"), False), (Indeterminate("lost"), True)],
)
async def test_the_leader_itself_knows_as_much(outcome: Exception, maybe_applied: bool) -> None:
    cluster = FakeCluster()
    cluster.elect("n1")
    cluster.outcomes = [outcome]
    with pytest.raises(Unavailable) as refused:
        await make(cluster, leader_wait_ms=100).execute(COMMAND)
    assert refused.value.maybe_applied is maybe_applied


async def test_an_entry_under_way_at_the_deadline_may_be_applied() -> None:
    cluster = FakeCluster()
    cluster.elect("n1")
    cluster.outcomes = [lambda: asyncio.get_running_loop().create_future()]
    with pytest.raises(Unavailable) as refused:
        await make(cluster, leader_wait_ms=100).execute(COMMAND)
    assert refused.value.maybe_applied is True


@pytest.mark.parametrize("leader", ["n1", "n2"])
async def test_new_work_is_refused_for_want_of_room(leader: str) -> None:
    cluster = FakeCluster()
    cluster.elect(leader)
    full = overloaded("proposals_pending")
    cluster.outcomes = [full if leader == "n1" else PeerError("OVERLOADED", "proposals_pending")]
    with pytest.raises(Overloaded) as refused:
        await make(cluster).execute(COMMAND)
    assert refused.value.cause == "proposals_pending"


async def test_a_refusal_takes_back_nothing_that_an_earlier_try_may_have_done() -> None:
    cluster = FakeCluster()
    refusal = PeerError("OVERLOADED", "proposals_pending")
    cluster.outcomes = [PeerTimeout("sent, and then silence"), refusal]
    with pytest.raises(Unavailable, match="no room") as gave_up:
        await make(cluster, leader_wait_ms=300).execute(COMMAND)
    assert gave_up.value.maybe_applied is True
    cluster.outcomes = [PeerTimeout("sent, and then silence"), refusal, Done()]
    assert await make(cluster).execute(COMMAND) == Done()


@pytest.mark.parametrize("leader", ["n1", "n2"])
async def test_finished_work_waits_for_room(leader: str) -> None:
    cluster = FakeCluster()
    cluster.elect(leader)
    full = overloaded("proposals_pending")
    refusal = full if leader == "n1" else PeerError("OVERLOADED", "proposals_pending")
    cluster.outcomes = [refusal, Done()]
    assert await make(cluster).execute(COMPLETION) == Done()
    cluster.outcomes = [refusal]
    with pytest.raises(Unavailable, match="no room") as gave_up:
        await make(cluster, leader_wait_ms=100).execute(COMPLETION)
    assert (gave_up.value.maybe_applied, gave_up.value.retry_after_ms) == (False, 200)


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (NotLeader("n3"), "NOT_LEADER"),
        (Indeterminate("lost"), "INDETERMINATE"),
        (overloaded("proposals_pending"), "OVERLOADED"),
    ],
)
async def test_what_the_leader_says_travels_back(outcome: Exception, code: str) -> None:
    cluster = FakeCluster()
    make(cluster)
    cluster.outcomes = [outcome]
    assert cluster.handler is not None
    request = node_pb2.ForwardRequest(command_id="c1", command=b"x")
    with pytest.raises(PeerError) as refused:
        await cluster.handler("n2", request.SerializeToString())
    assert refused.value.code == code
    cluster.outcomes = [Done()]
    answered = await cluster.handler("n2", request.SerializeToString())
    assert replies.decode_answer(answered) == Done()


@pytest.mark.parametrize(("command", "goes_on"), [(COMPLETION, True), (COMMAND, False)])
async def test_finished_work_goes_on_without_its_caller(command: Command, goes_on: bool) -> None:
    """A worker that ends with its last result on the wire has done that work."""
    cluster = FakeCluster()
    cluster.elect(None)
    cluster.outcomes = [Done()]
    call = asyncio.create_task(make(cluster).execute(command, command_id="c1"))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    cluster.elect("n2")
    left = asyncio.all_tasks() - {asyncio.current_task()}
    async with asyncio.timeout(5):
        await asyncio.gather(*left)
    assert cluster.calls == ([("n2", "c1")] if goes_on else [])


async def test_a_node_that_was_removed_asks_the_others_for_its_last_calls() -> None:
    cluster = FakeCluster()
    cluster.configuration = cluster.configuration.without("n1")
    cluster.elect(None)
    cluster.outcomes = [PeerError("NOT_LEADER", ""), Done()]
    assert await make(cluster).execute(COMMAND) == Done()
    assert [peer for peer, _ in cluster.calls] == ["n3", "n2"]
    assert len({command_id for _, command_id in cluster.calls}) == 1
