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
    """By a release that echoes nothing: its first sample may be older than it looks."""
    for _ in range(2):
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


class Pair:
    """Two nodes with right clocks; what they send arrives when the test says so."""

    def __init__(self) -> None:
        self.true_us = EPOCH_MS * 1_000
        self.letters: list[tuple[str, str, bytes]] = []
        self.clocks: dict[str, LogClock] = {}
        self.exchanges: dict[str, ClockExchange] = {}
        for number, name in enumerate(("n1", "n2"), start=1):
            # Monotonic clocks have nothing to do with one another.
            clock = LogClock(
                voters=2,
                wall_us=lambda: self.true_us,
                monotonic_us=lambda number=number: self.true_us - EPOCH_MS * 1_000 + number * 10**9,
            )
            channel = SimpleNamespace(
                register=lambda *_: None,
                notify=lambda peer, _method, payload, name=name: self.letters.append(
                    (name, peer, payload)
                ),
            )
            consensus: Any = SimpleNamespace(channel=channel)
            self.clocks[name] = clock
            self.exchanges[name] = ClockExchange(consensus=consensus, clock=clock)

    async def arrive(self) -> None:
        letters, self.letters = self.letters, []
        for sender, receiver, payload in letters:
            await self.exchanges[receiver]._on_sample(sender, payload)


async def test_messages_that_wait_in_a_busy_process_do_not_make_a_clock_look_slow() -> None:
    pair = Pair()
    pair.exchanges["n1"].tell("n2")
    pair.exchanges["n2"].tell("n1")
    pair.true_us += 200_000  # both are busy starting
    await pair.arrive()
    assert not pair.clocks["n1"].ready, "how old the first sample is nobody knows"
    pair.true_us += 1_000
    await pair.arrive()
    began = pair.true_us // 1_000
    for clock in pair.clocks.values():
        assert clock.ready
        assert clock.now_ms() in range(began - 105, began + 1)
    pair.exchanges["n1"]._send("n2")
    await pair.arrive()
    assert pair.clocks["n2"].now_ms() in range(began - 1, began + 2)
