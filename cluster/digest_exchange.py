"""Nodes compare the digests of their states; one that differs from a majority stops.

Each node keeps the digest of its state after each of the last few thousand entries
(`digest_ring.py`) and tells the others the newest, four times a second. Two that differ differ for
ever, so that whoever notices asks all for theirs at that index: whoever a majority contradicts has
a wrong state, by a bug or by damage, and must not serve it. Without a majority on either side
nobody can tell who is wrong: all go on, say so loudly, and ask again with every digest that comes.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, Protocol

import structlog

from raftflow.cluster.background import end, spawn
from raftflow.cluster.consensus.channel import PeerChannel, PeerError, PeerTimeout, PeerUnavailable
from raftflow.cluster.digest_ring import MARK_EVERY, DigestRing
from raftflow.engine.commands import RELEASE_0_3
from raftflow.proto.raftflow.internal.v1 import node_pb2

log = structlog.get_logger("raftflow.digests")

TOLD_METHOD = "digest"
ASKED_METHOD = "digest.at"
FIRST_METHOD = "digest.first"
PERIOD_S = 0.25
_ASK_TIMEOUT_MS = 300
_ASK_AGAIN_S = (0.0, 0.05, 0.15)


class StateDiverged(Exception):
    """This node's state is not what the log says."""

    def __init__(self, index: int, *, exact: bool, parts: tuple[str, ...]) -> None:
        where = f"since entry {index}" if exact else f"since entry {index} or one before it"
        what = f" (what differs first: {', '.join(parts)})" if parts else ""
        super().__init__(
            f"the state of this node differs {where} from that of a majority of the nodes{what};"
            " it must not be served. Keep a copy of the data directory for a report, then empty it"
            " with `raftflow node rebuild DIR` and start the node again: it fetches all from the"
            " others"
        )
        self.index = index
        self.exact = exact
        self.parts = parts


@dataclass(frozen=True, slots=True)
class Dispute:
    """Another node's state was not this one's. ``decided``: a majority stood on one side; ``odd``
    are those that it stood against, which end; it is forgotten when one of them comes back."""

    index: int
    peer: str
    decided: bool
    odd: tuple[str, ...]
    at_s: float


class Replica(Protocol):
    @property
    def digests(self) -> DigestRing: ...


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
        level_of: Callable[[str], int],
        period_s: float = PERIOD_S,
    ) -> None:
        """``peers`` are the other voters; ``level_of`` tells what a peer announced."""
        self._consensus = consensus
        self._channel = consensus.channel
        self._replica = replica
        self._peers = peers
        self._level_of = level_of
        self._period_s = period_s
        self._told: dict[str, node_pb2.StateDigest] = {}  # by each peer, not compared yet
        self._sent: dict[str, int] = {}  # the index told last to each
        self._wake = asyncio.Event()
        self.compared_index = 0  # the newest at which another node's state equalled this one's
        self.compared = 0  # digests of others held against this node's
        self.disputes = 0  # of which differed
        self.last_dispute: Dispute | None = None
        self._task: asyncio.Task[None] | None = None
        self._channel.register(TOLD_METHOD, self._on_told)
        self._channel.register(ASKED_METHOD, self._on_asked)
        self._channel.register(FIRST_METHOD, self._on_first)
        self._channel.on_up(self._forget)

    def follow(self, peers: tuple[str, ...]) -> None:
        """The other voters from now on."""
        self._peers = peers

    def start(self) -> None:
        self._task = spawn(self._run(), name="digest-exchange", fatal=self._consensus.fatal)

    async def stop(self) -> None:
        await end(self._task)

    # ---- what peers say and ask -----------------------------------------------------------------

    def _forget(self, peer: str) -> None:
        """It may be another process now, which was told nothing."""
        self._sent.pop(peer, None)
        if self.last_dispute is not None and peer in self.last_dispute.odd:
            self.last_dispute = None  # who was judged has ended

    async def _on_told(self, peer: str, payload: bytes) -> bytes:
        """The oldest that is not compared stays: a node that is always a little behind would
        never reach the newest."""
        self._told.setdefault(peer, node_pb2.StateDigest.FromString(payload))
        self._wake.set()
        return b""

    async def _on_asked(self, _peer: str, payload: bytes) -> bytes:
        """Empty when this node was not there yet, or long ago."""
        return self._replica.digests.at(node_pb2.StateDigest.FromString(payload).index) or b""

    async def _on_first(self, peer: str, payload: bytes) -> bytes:
        """Where the peer's states begin to differ from this node's. A majority has told the peer
        so, and it is about to end: this may be all that is heard of it."""
        told = node_pb2.StateDigests.FromString(payload)
        ring = self._replica.digests
        index = ring.first_difference(told.first, told.digests)
        exact = index > max(ring.oldest, told.first)
        if index and (self.last_dispute is None or peer not in self.last_dispute.odd):
            self.disputes += 1
            self.last_dispute = Dispute(
                index=index, peer=peer, decided=True, odd=(peer,), at_s=time.monotonic()
            )
        return node_pb2.FirstDifference(
            index=index, exact=exact, parts=ring.parts_at(index) if index else {}
        ).SerializeToString()

    # ---- what this node does --------------------------------------------------------------------

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        next_s = loop.time()
        while True:
            if loop.time() >= next_s:
                self._tell()
                next_s = loop.time() + self._period_s
            self._wake.clear()
            await self._compare()
            try:
                async with asyncio.timeout_at(next_s):
                    await self._wake.wait()
            except TimeoutError:
                pass

    def _tell(self) -> None:
        ring = self._replica.digests
        for peer in self._peers:
            index = ring.newest
            if self._level_of(peer) < RELEASE_0_3:
                index -= index % MARK_EVERY
            digest = ring.at(index)
            if digest is None or index == self._sent.get(peer):
                continue
            payload = node_pb2.StateDigest(index=index, digest=digest).SerializeToString()
            if self._channel.notify(peer, TOLD_METHOD, payload):
                self._sent[peer] = index

    async def _compare(self) -> None:
        ring = self._replica.digests
        for peer, told in sorted(self._told.items()):
            if told.index > ring.newest:
                continue  # not there yet
            del self._told[peer]
            own = ring.at(told.index)
            if own is None:
                continue  # too long ago
            self.compared += 1
            if own == told.digest:
                self.compared_index = max(self.compared_index, told.index)
            else:
                await self._vote(told.index, own, differs_from=peer)

    async def _vote(self, index: int, own: bytes, *, differs_from: str) -> None:
        self.disputes += 1
        for pause_s in _ASK_AGAIN_S:
            await asyncio.sleep(pause_s)  # whoever is a little behind gets there
            answers = await self._poll(index)
            votes = Counter([own, *[answer for answer in answers.values() if answer]])
            digest, count = votes.most_common(1)[0]
            decided = count > (len(answers) + 1) // 2
            if decided:
                break
        odd = {peer for peer, answer in answers.items() if answer and answer != digest}
        if digest == own:
            odd.add(differs_from)  # which may have ended since
        self.last_dispute = Dispute(
            index=index,
            peer=differs_from,
            decided=decided,
            odd=tuple(sorted(odd)) if decided else (),
            at_s=time.monotonic(),
        )
        log.critical(
            "states_differ",
            index=index,
            peer=differs_from,
            votes=sorted(votes.values()),
            decided=decided,
        )
        if decided and digest != own:
            right = [peer for peer, answer in answers.items() if answer == digest]
            self._consensus.fatal(await self._diverged(index, right))

    async def _poll(self, index: int) -> dict[str, bytes]:
        """Every peer's digest there, empty when it has none or is silent."""
        peers = self._peers
        question = node_pb2.StateDigest(index=index).SerializeToString()
        answers = [self._ask(peer, ASKED_METHOD, question) for peer in peers]
        return dict(zip(peers, await asyncio.gather(*answers), strict=True))

    async def _diverged(self, index: int, right: list[str]) -> StateDiverged:
        """Which entry did it, and to what, as far as one of those in the right can tell."""
        ring = self._replica.digests
        question = node_pb2.StateDigests(first=ring.oldest, digests=ring.shortened())
        for peer in right:
            if self._level_of(peer) < RELEASE_0_3:
                continue
            reply = await self._ask(peer, FIRST_METHOD, question.SerializeToString())
            found = node_pb2.FirstDifference.FromString(reply)
            if found.index:
                theirs, own = dict(found.parts), ring.parts_at(found.index)
                differ = [
                    name for name in sorted({*theirs, *own}) if theirs.get(name) != own.get(name)
                ]
                known = tuple(differ) if theirs and own else ()
                return StateDiverged(found.index, exact=found.exact, parts=known)
        return StateDiverged(index, exact=False, parts=())

    async def _ask(self, peer: str, method: str, payload: bytes) -> bytes:
        try:
            return await self._channel.call(peer, method, payload, timeout_ms=_ASK_TIMEOUT_MS)
        except (PeerUnavailable, PeerTimeout, PeerError):
            return b""
