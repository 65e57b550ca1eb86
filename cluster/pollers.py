"""Queues and workers of the whole cluster: the node that is asked asks the others.

Every node says which polls are parked on it, and whichever leads what is queued and leased. Nobody
is waited for: who does not answer in time, or is of a release before 0.5, is named as missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from raftflow.cluster.asking import Peers, Untold, ask, reading
from raftflow.cluster.shared import Shared
from raftflow.cluster.work_facts import Leading, NodeFacts, Poller, Wanted, Work
from raftflow.cluster.workers import Workers

METHOD = "pollers"
EVERYTHING = Wanted()
# What one node tells at most, so that neither end is busy for long.
MOST_TOLD = 1_000
MOST_NAMES = 20_000  # of types, in all of it: one poll may have a thousand
_ANSWER_MS = 500
# Pages ask every few seconds, and there may be many: within this time they share one answer.
_FRESH_S = 0.2


class Pollers:
    """``leading``: what the leader adds, None on any other node."""

    def __init__(
        self,
        *,
        consensus: Peers,
        node_id: str,
        workers: Workers,
        leading: Callable[[Wanted, int], Leading | None],
    ) -> None:
        self._consensus = consensus
        self._node_id = node_id
        self._workers = workers
        self._leading = leading
        self._shared: Shared[Wanted, Work] = Shared(self._ask_all, fresh_s=_FRESH_S)
        consensus.channel.register(METHOD, self._on_asked)

    async def work(self, wanted: Wanted = EVERYTHING) -> Work:
        """What all nodes say together, a fifth of a second old at most."""
        return await self._shared.get(wanted)

    def own(self, wanted: Wanted) -> NodeFacts:
        told: list[Poller] = []
        truncated, names = False, 0
        for poller in self._workers.pollers(wanted):
            names += len(poller.types)
            truncated = len(told) == MOST_TOLD or names > MOST_NAMES
            if truncated:
                break
            told.append(poller)
        return NodeFacts(
            pollers=tuple(told),
            truncated=truncated,
            leading=self._leading(wanted, MOST_TOLD),
        )

    async def _on_asked(self, _peer: str, payload: bytes) -> bytes:
        with reading(METHOD):
            wanted = Wanted.decode(payload)
        return self.own(wanted).encode()

    async def _ask_all(self, wanted: Wanted) -> Work:
        peers = [peer for peer in self._consensus.peers() if peer != self._node_id]
        payload = wanted.encode()
        answers = await asyncio.gather(*(self._ask(peer, payload) for peer in peers))
        # After the others have answered: no older than what they say.
        found = {self._node_id: self.own(wanted)}
        missing: dict[str, str] = {}
        for peer, answer in zip(peers, answers, strict=True):
            if isinstance(answer, NodeFacts):
                found[peer] = answer
            else:
                missing[peer] = answer
        # Two may believe that they lead; the one of the later term is right.
        leaders = [each.leading for each in found.values() if each.leading is not None]
        leading = max(leaders, key=lambda each: each.term, default=None)
        return Work(
            pollers=tuple(poller for peer in sorted(found) for poller in found[peer].pollers),
            leading=leading,
            missing=missing,
            truncated=any(each.truncated for each in found.values())
            or (leading is not None and leading.truncated),
        )

    async def _ask(self, peer: str, payload: bytes) -> NodeFacts | str:
        """What it says, or why it says nothing."""
        channel = self._consensus.channel
        try:
            return await ask(
                channel, peer, METHOD, payload, read=NodeFacts.decode, timeout_ms=_ANSWER_MS
            )
        except Untold as why:
            return str(why)
