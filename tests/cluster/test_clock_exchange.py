"""Nodes tell their clocks; a leader with a wrong one steps aside."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from raftflow.cluster import clock_exchange
from raftflow.cluster.clock import LogClock
from raftflow.cluster.clock_exchange import ClockExchange
from raftflow.cluster.consensus.types import Role
from raftflow.proto.raftflow.internal.v1 import node_pb2

EPOCH_MS = 1_700_000_000_000


class FakeConsensus:
    def __init__(self) -> None:
        self.channel = self
        self.config = SimpleNamespace(node_id="n1")
        self.role = Role.LEADER
        self.handler: Any = None
        self.sent: list[tuple[str, int]] = []
        self.transfers = 0

    def fatal(self, error: BaseException) -> NoReturn:
        raise error

    def register(self, method: str, handler: Any) -> None:
        self.handler = handler

    def peers(self) -> dict[str, Any]:
        return {"n1": None, "n2": None, "n3": None}

    def notify(self, peer: str, method: str, payload: bytes) -> bool:
        self.sent.append((peer, node_pb2.ClockSample.FromString(payload).wall_ms))
        return True

    async def transfer_leadership(self, to: str | None) -> bool:
        self.transfers += 1
        return True


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_exchange, "PERIOD_S", 0.005)


def make(ahead_ms: int) -> tuple[ClockExchange, FakeConsensus]:
    consensus = FakeConsensus()
    clock = LogClock(
        voters=3, wall_us=lambda: (EPOCH_MS + ahead_ms) * 1_000, monotonic_us=lambda: 0
    )
    return ClockExchange(consensus=consensus, clock=clock), consensus  # type: ignore[arg-type]


async def told(consensus: FakeConsensus, peer: str, wall_ms: int) -> None:
    await consensus.handler(peer, node_pb2.ClockSample(wall_ms=wall_ms).SerializeToString())


async def test_every_peer_is_told(quick: None) -> None:
    exchange, consensus = make(0)
    exchange.start()
    async with asyncio.timeout(5):
        while len(consensus.sent) < 2:
            await asyncio.sleep(0.001)
    await exchange.stop()
    assert consensus.sent[:2] == [("n2", EPOCH_MS), ("n3", EPOCH_MS)]


@pytest.mark.parametrize(
    ("ahead_ms", "role", "steps_aside"),
    [
        (3_600_000, Role.LEADER, True),
        (-3_600_000, Role.LEADER, True),
        (900, Role.LEADER, False),
        (3_600_000, Role.FOLLOWER, False),
    ],
)
async def test_a_leader_whose_clock_is_wrong_steps_aside(
    quick: None, ahead_ms: int, role: Role, steps_aside: bool
) -> None:
    exchange, consensus = make(ahead_ms)
    consensus.role = role
    await told(consensus, "n2", EPOCH_MS)
    await told(consensus, "n3", EPOCH_MS)
    exchange.start()
    async with asyncio.timeout(5):
        while len(consensus.sent) < 20:
            await asyncio.sleep(0.001)
    await exchange.stop()
    assert (consensus.transfers > 0) is steps_aside


async def test_alone_it_cannot_tell_who_is_wrong(quick: None) -> None:
    exchange, consensus = make(3_600_000)
    exchange.start()
    async with asyncio.timeout(5):
        while len(consensus.sent) < 20:
            await asyncio.sleep(0.001)
    await exchange.stop()
    assert consensus.transfers == 0
