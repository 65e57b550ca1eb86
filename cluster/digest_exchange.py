"""Nodes compare the digests of their states; one that differs from a majority stops.

Each node tells the others the digest of its newest mark (every so many entries), and compares what
they tell with its own at that index. When two differ, every node asks all for theirs at that index:
whoever a majority contradicts has a wrong state, by a bug or by damage, and must not serve it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import NoReturn, Protocol

import structlog

from raftflow.cluster.background import spawn
from raftflow.cluster.consensus.channel import PeerChannel, PeerError, PeerTimeout, PeerUnavailable
from raftflow.proto.raftflow.internal.v1 import node_pb2

log = structlog.get_logger("raftflow.digests")

TOLD_METHOD = "digest"
ASKED_METHOD = "digest.at"
PERIOD_S = 2.0
_ASK_TIMEOUT_MS = 2_000


class StateDiverged(Exception):
    """This node's state is not what the log says."""

    def __init__(self, index: int) -> None:
        super().__init__(
            f"the state after entry {index} differs from that of a majority of the nodes; stop this"
            " node, move everything out of its data directory and, while all other nodes run, start"
            " it again: it fetches all from them. Keep what you moved for a report"
        )
        self.index = index


class Replica(Protocol):
    @property
    def newest_mark(self) -> tuple[int, bytes] | None: ...

    def digest_at(self, index: int) -> bytes | None: ...


class Consensus(Protocol):
    @property
    def channel(self) -> PeerChannel: ...

    def fatal(self, error: BaseException) -> NoReturn: ...


class DigestExchange:
    """Runs beside the replica on every node."""

    def __init__(
        self,
        *,
        consensus: Consensus,
        replica: Replica,
        peers: tuple[str, ...],
        period_s: float = PERIOD_S,
    ) -> None:
        self._consensus = consensus
        self._channel = consensus.channel
        self._replica = replica
        self._peers = peers
        self._period_s = period_s
        self._told: dict[str, node_pb2.StateDigest] = {}  # the newest of each peer, uncompared
        self._sent_index = 0
        self.compared = 0  # digests of others held against this node's
        self.disputes = 0  # of which differed
        self._task: asyncio.Task[None] | None = None
        self._channel.register(TOLD_METHOD, self._on_told)
        self._channel.register(ASKED_METHOD, self._on_asked)

    def follow(self, peers: tuple[str, ...]) -> None:
        """The other voters from now on."""
        self._peers = peers

    def start(self) -> None:
        self._task = spawn(self._run(), name="digest-exchange", fatal=self._consensus.fatal)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _on_told(self, peer: str, payload: bytes) -> bytes:
        self._told[peer] = node_pb2.StateDigest.FromString(payload)
        return b""

    async def _on_asked(self, _peer: str, payload: bytes) -> bytes:
        """Empty when this node was not there yet, or long ago."""
        return self._replica.digest_at(node_pb2.StateDigest.FromString(payload).index) or b""

    async def _run(self) -> None:
        while True:
            self._tell()
            await self._compare()
            await asyncio.sleep(self._period_s)

    def _tell(self) -> None:
        mark = self._replica.newest_mark
        if mark is None or mark[0] == self._sent_index:
            return
        self._sent_index = mark[0]
        payload = node_pb2.StateDigest(index=mark[0], digest=mark[1]).SerializeToString()
        for peer in self._peers:
            self._channel.notify(peer, TOLD_METHOD, payload)

    async def _compare(self) -> None:
        for peer, told in sorted(self._told.items()):
            own = self._replica.digest_at(told.index)
            if own is None:
                continue  # not there yet; the peer's next one replaces this
            del self._told[peer]
            self.compared += 1
            if own != told.digest:
                await self._vote(told.index, own, differs_from=peer)

    async def _vote(self, index: int, own: bytes, *, differs_from: str) -> None:
        self.disputes += 1
        answers = await asyncio.gather(*[self._ask(peer, index) for peer in self._peers])
        votes = Counter([own, *[answer for answer in answers if answer]])
        digest, count = votes.most_common(1)[0]
        majority = (len(self._peers) + 1) // 2 + 1
        log.critical("states_differ", index=index, peer=differs_from, votes=sorted(votes.values()))
        if count >= majority and digest != own:
            self._consensus.fatal(StateDiverged(index))

    async def _ask(self, peer: str, index: int) -> bytes:
        payload = node_pb2.StateDigest(index=index).SerializeToString()
        try:
            return await self._channel.call(peer, ASKED_METHOD, payload, timeout_ms=_ASK_TIMEOUT_MS)
        except (PeerUnavailable, PeerTimeout, PeerError):
            return b""
