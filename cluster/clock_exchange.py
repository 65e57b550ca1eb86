"""Nodes tell one another their wall clocks; a leader whose own is wrong hands leadership over."""

from __future__ import annotations

import asyncio

import structlog

from raftflow.cluster.background import end, spawn
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
    """Sends this node's wall clock to every peer and notes theirs.

    Each sample echoes the last one that came from its receiver, so that question and answer can be
    timed: a message that waited in a busy process does not make its sender's clock look slow.
    Releases before 0.3 echo nothing.
    """

    def __init__(self, *, consensus: Consensus, clock: LogClock) -> None:
        self._consensus = consensus
        self._clock = clock
        self._strikes = 0
        self._heard: dict[str, tuple[int, int]] = {}  # what a peer wants echoed, and when it came
        self._task: asyncio.Task[None] | None = None
        consensus.channel.register(METHOD, self._on_sample)

    def start(self) -> None:
        self._task = spawn(self._run(), name="clock-exchange", fatal=self._consensus.fatal)

    async def stop(self) -> None:
        await end(self._task)

    def tell(self, peer: str) -> None:
        """A new connection, maybe of a new process: what the old one wanted echoed means nothing
        to it. It need not wait for the period."""
        self._heard.pop(peer, None)
        self._send(peer)

    def _send(self, peer: str) -> None:
        now_us = self._clock.moment_us()
        echo_us, came_us = self._heard.get(peer, (0, now_us))
        sample = node_pb2.ClockSample(
            wall_ms=self._clock.wall_ms(),
            sent_us=now_us,
            echo_us=echo_us,
            held_us=now_us - came_us,
        )
        self._consensus.channel.notify(peer, METHOD, sample.SerializeToString())

    async def _on_sample(self, peer: str, payload: bytes) -> bytes:
        sample = node_pb2.ClockSample.FromString(payload)
        first = peer not in self._heard
        self._heard[peer] = (sample.sent_us, self._clock.moment_us())
        if sample.echo_us:
            took_us = self._clock.moment_us() - sample.echo_us - sample.held_us
            self._clock.observe(peer, sample.wall_ms, took_us=max(0, took_us))
        elif not first:
            self._clock.observe(peer, sample.wall_ms)
        if first:
            self._send(peer)  # which can time us now
        return b""

    async def _run(self) -> None:
        while True:
            for peer in self._consensus.peers():
                if peer != self._consensus.config.node_id:
                    self._send(peer)
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
