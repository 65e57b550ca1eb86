"""Linearizable reads: rounds are shared, and none is older than the question."""

from __future__ import annotations

import asyncio

import pytest

from raftflow.cluster.consensus import types
from raftflow.cluster.errors import Unavailable
from raftflow.cluster.reads import Reads


class FakeConsensus:
    """Confirms when the test says so."""

    def __init__(self) -> None:
        self.rounds: list[asyncio.Future[int]] = []

    async def read_index(self, *, timeout_ms: int) -> int:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.rounds.append(future)
        return await future


class FakeReplica:
    def __init__(self) -> None:
        self.waited: list[int] = []

    async def wait_applied(self, index: int, *, timeout_ms: int) -> None:
        self.waited.append(index)


def make(leader_wait_ms: int = 2_000) -> tuple[Reads, FakeConsensus, FakeReplica]:
    consensus, replica = FakeConsensus(), FakeReplica()
    reads = Reads(
        consensus=consensus,  # type: ignore[arg-type]
        replica=replica,  # type: ignore[arg-type]
        leader_wait_ms=leader_wait_ms,
    )
    return reads, consensus, replica


async def until_rounds(consensus: FakeConsensus, count: int) -> None:
    while len(consensus.rounds) < count:
        await asyncio.sleep(0)


async def test_a_read_waits_until_this_node_has_applied_the_index() -> None:
    reads, consensus, replica = make()
    read = asyncio.create_task(reads.linearizable())
    await until_rounds(consensus, 1)
    consensus.rounds[0].set_result(7)
    assert await read == 7
    assert replica.waited == [7]


async def test_reads_that_come_during_a_round_share_the_next_one() -> None:
    reads, consensus, _ = make()
    first = asyncio.create_task(reads.linearizable())
    await until_rounds(consensus, 1)
    late = [asyncio.create_task(reads.linearizable()) for _ in range(20)]
    await asyncio.sleep(0)
    consensus.rounds[0].set_result(7)
    assert await first == 7
    await until_rounds(consensus, 2)
    assert not any(read.done() for read in late)  # that round was older than their question
    consensus.rounds[1].set_result(9)
    assert await asyncio.gather(*late) == [9] * 20
    assert len(consensus.rounds) == 2


async def test_a_round_that_failed_is_tried_again() -> None:
    reads, consensus, _ = make()
    read = asyncio.create_task(reads.linearizable())
    await until_rounds(consensus, 1)
    consensus.rounds[0].set_exception(types.Unavailable("no leader"))
    await until_rounds(consensus, 2)
    consensus.rounds[1].set_result(3)
    assert await read == 3


async def test_without_a_leader_old_state_is_not_served() -> None:
    reads, _, _ = make(leader_wait_ms=100)
    with pytest.raises(Unavailable, match="old state is not served") as refused:
        await reads.linearizable()
    assert refused.value.maybe_applied is False


async def test_reads_of_a_node_that_was_removed_end_at_once() -> None:
    reads, consensus, _ = make()
    under_way = asyncio.create_task(reads.linearizable())
    await until_rounds(consensus, 1)
    waits = asyncio.create_task(reads.linearizable())
    await asyncio.sleep(0)
    reads.end("it was removed")
    for read in (under_way, waits, asyncio.create_task(reads.linearizable())):
        with pytest.raises(Unavailable, match="it was removed"):
            await read
    consensus.rounds[0].set_exception(types.Unavailable())
