"""Linearizable reads on any node (Raft §6.4): confirm the leader, wait until applied here.

Reads that wait together share one round. A read joins only a round that begins after it arrived:
the confirmation must be younger than the question.
"""

from __future__ import annotations

import asyncio

from raftflow.cluster.consensus import types
from raftflow.cluster.consensus.driver import Consensus
from raftflow.cluster.errors import Unavailable
from raftflow.cluster.replica import Replica

_ROUND_TIMEOUT_MS = 1_000


class Reads:
    """Turns ReadIndex rounds into a promise about this node's own state."""

    def __init__(self, *, consensus: Consensus, replica: Replica, leader_wait_ms: int) -> None:
        self._consensus = consensus
        self._replica = replica
        self._leader_wait = leader_wait_ms / 1_000
        self._waiting: list[asyncio.Future[int]] = []
        self._round: list[asyncio.Future[int]] = []  # those of the round that is under way
        self._ended = ""
        self._rounds: asyncio.Task[None] | None = None

    def end(self, reason: str) -> None:
        """No leader will confirm anything to this node any more: who waits may ask another one."""
        self._ended = reason
        for future in (*self._round, *self._waiting):
            if not future.done():
                future.set_exception(Unavailable(reason))

    async def linearizable(self) -> int:
        """Return an index that this node has applied and that covers every write acknowledged
        before the call. Raises Unavailable after the leader wait."""
        if self._ended:
            raise Unavailable(self._ended)
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        if self._rounds is None or self._rounds.done():
            self._rounds = asyncio.create_task(self._run_rounds(), name="read-index-rounds")
        try:
            async with asyncio.timeout(self._leader_wait):
                return await future
        except TimeoutError:
            raise Unavailable(
                f"no leader confirmed this read within {self._leader_wait:g} s; "
                "old state is not served",
                maybe_applied=False,
            ) from None

    async def _run_rounds(self) -> None:
        while self._waiting:
            self._round, self._waiting = self._waiting, []
            try:
                index = await self._consensus.read_index(timeout_ms=_ROUND_TIMEOUT_MS)
                await self._replica.wait_applied(index, timeout_ms=_ROUND_TIMEOUT_MS)
            except (types.Unavailable, TimeoutError):
                self._waiting[:0] = [future for future in self._round if not future.done()]
                await asyncio.sleep(0.01)
                continue
            for future in self._round:
                if not future.done():
                    future.set_result(index)
