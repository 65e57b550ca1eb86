"""Group commit and the fate of waiting calls, against a consensus that the test moves by hand."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from eventually import eventually

from raftflow.cluster.clock import LogClock
from raftflow.cluster.codec import commands as codec
from raftflow.cluster.consensus.types import NotLeader, Proposed, Role
from raftflow.cluster.errors import Indeterminate, Overloaded
from raftflow.cluster.proposer import (
    MAX_ENTRIES_IN_FLIGHT,
    MAX_PENDING_BYTES,
    WORTH_COMMANDS,
    Proposer,
)
from raftflow.engine.apply import Applied
from raftflow.engine.commands import FEATURE_LEVEL, Batch, ForgetRequests
from raftflow.engine.limits import DEFAULT_LIMITS
from raftflow.engine.rejections import Answer, Done, Reply
from raftflow.engine.state import Changes

COMMAND = ForgetRequests(before_ms=1, limit=1)


@dataclass
class FakeConsensus:
    """Appends at once, like the leader does; entries are applied when the test says so."""

    role: Role = Role.LEADER
    term: int = 3
    leader: str | None = "n1"
    entries: list[bytes] = field(default_factory=list)
    handing_over: bool = False

    def propose(self, payload: bytes) -> Proposed:
        if self.role is not Role.LEADER or self.handing_over:
            raise NotLeader(self.leader)
        self.entries.append(payload)
        return Proposed(len(self.entries), self.term)

    def batch(self, index: int, term: int | None = None) -> Batch:
        return codec.decode_entry(index, term or self.term, self.entries[index - 1])


def applied(batch: Batch) -> Applied:
    replies = tuple(Reply(command_id, Done()) for command_id, _ in batch.commands)
    return Applied(replies=replies, effects=(), changes=Changes())


def make(
    voters: int = 1, level: Callable[[], int] = lambda: FEATURE_LEVEL
) -> tuple[Proposer, FakeConsensus]:
    consensus = FakeConsensus()
    proposer = Proposer(
        consensus=consensus,  # type: ignore[arg-type]
        clock=LogClock(voters=voters),
        node_id="n1",
        limits=DEFAULT_LIMITS,
        level=level,
    )
    return proposer, consensus


def submit(proposer: Proposer, command_id: str) -> "asyncio.Task[Answer]":
    command = codec.encode_command(command_id, COMMAND)
    return asyncio.ensure_future(proposer.submit(command_id, command))


async def turn() -> None:
    """Let everything that is ready run."""
    for _ in range(5):
        await asyncio.sleep(0)


def apply(proposer: Proposer, consensus: FakeConsensus, index: int) -> None:
    batch = consensus.batch(index)
    proposer.on_applied(applied(batch), batch)


async def test_entries_say_under_which_level_they_were_written() -> None:
    levels = [1, 2]
    proposer, consensus = make(level=lambda: levels.pop(0))
    for number in (1, 2):
        submit(proposer, f"c{number}")
        await turn()
        apply(proposer, consensus, number)
        assert consensus.batch(number).feature_level == number


async def test_what_arrives_together_shares_an_entry() -> None:
    proposer, consensus = make()
    calls = [submit(proposer, f"c{n}") for n in range(10)]
    await turn()
    assert len(consensus.entries) == 1
    apply(proposer, consensus, 1)
    assert await asyncio.gather(*calls) == [Done()] * 10


async def test_what_arrives_while_an_entry_is_on_its_way_shares_the_next() -> None:
    proposer, consensus = make()
    calls = []
    for n in range(5):
        calls.append(submit(proposer, f"c{n}"))
        await turn()
    assert len(consensus.entries) == 1
    apply(proposer, consensus, 1)
    await turn()
    assert len(consensus.batch(2).commands) == 4
    apply(proposer, consensus, 2)
    assert await asyncio.gather(*calls) == [Done()] * len(calls)


async def test_full_entries_follow_one_another_but_not_without_bound() -> None:
    proposer, consensus = make()
    calls = []
    for round_ in range(MAX_ENTRIES_IN_FLIGHT + 2):
        calls += [submit(proposer, f"c{round_}-{n}") for n in range(WORTH_COMMANDS)]
        await turn()
    assert len(consensus.entries) == MAX_ENTRIES_IN_FLIGHT
    apply(proposer, consensus, 1)
    await turn()
    rest = consensus.batch(MAX_ENTRIES_IN_FLIGHT + 1).commands
    assert len(rest) == 2 * WORTH_COMMANDS
    for index in range(2, MAX_ENTRIES_IN_FLIGHT + 2):
        apply(proposer, consensus, index)
    assert await asyncio.gather(*calls) == [Done()] * len(calls)


async def test_a_submitted_command_is_told_before_its_entry_leaves() -> None:
    """The leader's duties add the grant of what it queues, so that both share the entry."""
    proposer, consensus = make()
    proposer.on_submitted = lambda command: proposer.propose_duty(codec.decode_command(command)[1])
    call = submit(proposer, "c")
    await turn()
    assert [name for name, _ in consensus.batch(1).commands] == ["c", "n1/1"]
    again = submit(proposer, "c")
    await turn()
    apply(proposer, consensus, 1)
    assert await call == await again == Done()
    assert proposer.pending == 0


async def test_the_same_id_twice_has_one_effect_and_two_answers() -> None:
    proposer, consensus = make()
    first, second = submit(proposer, "c"), submit(proposer, "c")
    await turn()
    third = submit(proposer, "c")
    await turn()
    assert len(consensus.batch(1).commands) == 1
    apply(proposer, consensus, 1)
    assert await asyncio.gather(first, second, third) == [Done()] * 3


async def test_on_step_down_each_call_learns_what_is_known_of_it() -> None:
    proposer, consensus = make()
    proposed = [submit(proposer, f"p{n}") for n in range(MAX_ENTRIES_IN_FLIGHT)]
    await turn()
    pending = submit(proposer, "not-yet")
    while proposer.pending < MAX_ENTRIES_IN_FLIGHT + 1:
        await turn()
    consensus.role, consensus.leader = Role.FOLLOWER, "n2"
    proposer.on_role(Role.FOLLOWER, 4, "n2")
    for call in proposed:
        with pytest.raises(Indeterminate):
            await call
    with pytest.raises((NotLeader, Indeterminate)) as refused:
        await pending
    if isinstance(refused.value, NotLeader):
        assert refused.value.leader == "n2"


async def test_an_entry_overwritten_by_another_term_was_surely_not_applied() -> None:
    proposer, _ = make()
    call = submit(proposer, "c")
    await turn()
    other = Batch(index=1, term=9, time_ms=5, commands=(), limits=DEFAULT_LIMITS)
    proposer.on_applied(applied(other), other)
    with pytest.raises(NotLeader):
        await call


async def test_a_follower_refuses() -> None:
    proposer, consensus = make()
    consensus.role, consensus.leader = Role.FOLLOWER, "n3"
    with pytest.raises(NotLeader) as refused:
        await submit(proposer, "c")
    assert refused.value.leader == "n3"


async def test_nothing_is_stamped_before_a_majority_of_clocks_is_known() -> None:
    proposer, consensus = make(voters=3)
    call = submit(proposer, "c")
    await turn()
    assert consensus.entries == []
    assert not call.done()
    call.cancel()


async def test_a_full_queue_refuses_with_its_cause() -> None:
    proposer, _ = make(voters=3)  # no clocks: nothing leaves the queue
    big = b"x" * (MAX_PENDING_BYTES // 4)
    calls = [asyncio.ensure_future(proposer.submit(f"c{n}", big)) for n in range(4)]
    await turn()
    with pytest.raises(Overloaded) as refused:
        await proposer.submit("one-more", b"x")
    assert refused.value.cause == "proposals_pending"
    for call in calls:
        call.cancel()


async def test_a_duty_is_told_its_answer_or_that_office_was_lost() -> None:
    proposer, consensus = make()
    told: list[Answer | None] = []
    proposer.propose_duty(COMMAND, told.append)
    await turn()
    apply(proposer, consensus, 1)
    proposer.propose_duty(COMMAND, told.append)
    await turn()
    proposer.on_role(Role.FOLLOWER, 4, None)
    assert told == [Done(), None]


async def test_what_meets_a_handover_that_comes_to_nothing_is_proposed_after_it() -> None:
    """A duty that were dropped instead would be nobody's: the leader stays, and derives nothing."""
    proposer, consensus = make()
    consensus.handing_over = True
    answers: list[Answer | None] = []
    proposer.propose_duty(COMMAND, answers.append)
    call = submit(proposer, "c1")
    await turn()
    assert not consensus.entries
    assert not answers
    consensus.handing_over = False
    await eventually(lambda: bool(consensus.entries), "the handover is over")
    apply(proposer, consensus, 1)
    assert answers == [Done()]
    assert await call == Done()


async def test_what_meets_a_handover_that_succeeds_was_surely_not_proposed() -> None:
    proposer, consensus = make()
    consensus.handing_over = True
    answers: list[Answer | None] = []
    proposer.propose_duty(COMMAND, answers.append)
    call = submit(proposer, "c1")
    await turn()
    consensus.role = Role.FOLLOWER
    proposer.on_role(Role.FOLLOWER, 4, "n2")
    assert answers == [None]
    with pytest.raises(NotLeader):
        await call


async def test_what_waits_and_what_found_no_room_is_told() -> None:
    proposer, consensus = make()
    assert proposer.backlog().refused_ago_ms is None
    first = submit(proposer, "a")
    await turn()
    second = submit(proposer, "b")  # waits for the first
    await turn()
    backlog = proposer.backlog()
    assert (backlog.commands, backlog.entries, backlog.refused) == (1, 1, 0)
    assert backlog.bytes > 0
    assert backlog.oldest_entry_ms >= 0
    with pytest.raises(Overloaded):
        await proposer.submit("c", b"x" * (MAX_PENDING_BYTES + 1))
    assert proposer.backlog().refused == 1
    assert proposer.backlog().refused_ago_ms is not None
    apply(proposer, consensus, 1)
    await turn()
    apply(proposer, consensus, 2)
    await asyncio.gather(first, second)
    assert proposer.backlog().entries == 0
