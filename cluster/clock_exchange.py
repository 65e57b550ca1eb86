"""Nodes tell one another their wall clocks; a leader whose own is wrong hands leadership over."""

from __future__ import annotations

import asyncio

import structlog

from raftflow.cluster.background import spawn
from raftflow.cluster.clock import MAX_LEADER_SKEW_MS, LogClock
from raftflow.cluster.consensus.driver import Consensus
from raftflow.cluster.consensus.types import Role
from raftflow.proto.raftflow.internal.v1 import node_pb2

log = structlog.get_logger("raftflow.clock")

METHOD = "clock"
PERIOD_S = 0.5
# Samples in a row before a leader steps aside: one late message must not cost an election.
STRIKES = 3


class ClockExchange:
    """Sends this node's wall clock to every peer and notes theirs."""

    def __init__(self, *, consensus: Consensus, clock: LogClock) -> None:
        self._consensus = consensus
        self._clock = clock
        self._strikes = 0
        self._task: asyncio.Task[None] | None = None
        consensus.channel.register(METHOD, self._on_sample)

    def start(self) -> None:
        self._task = spawn(self._run(), name="clock-exchange", fatal=self._consensus.fatal)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def tell(self, peer: str) -> None:
        """Send a sample now: a new connection must not wait for the period."""
        sample = node_pb2.ClockSample(wall_ms=self._clock.wall_ms())
        self._consensus.channel.notify(peer, METHOD, sample.SerializeToString())

    async def _on_sample(self, peer: str, payload: bytes) -> bytes:
        self._clock.observe(peer, node_pb2.ClockSample.FromString(payload).wall_ms)
        return b""

    async def _run(self) -> None:
        while True:
            for peer in self._consensus.peers():
                if peer != self._consensus.config.node_id:
                    self.tell(peer)
            await self._step_aside_if_wrong()
            await asyncio.sleep(PERIOD_S)

    async def _step_aside_if_wrong(self) -> None:
        skew_ms = self._clock.skew_ms()
        wrong = self._clock.ready and abs(skew_ms) > MAX_LEADER_SKEW_MS
        if not wrong or self._consensus.role is not Role.LEADER:
            self._strikes = 0
            return
        self._strikes += 1
        if self._strikes >= STRIKES:
            self._strikes = 0
            sent = await self._consensus.transfer_leadership(None)
            log.warning("leadership_handed_over", reason="clock skew", skew_ms=skew_ms, sent=sent)
