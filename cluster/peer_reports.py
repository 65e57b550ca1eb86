"""What the other members say of themselves when they are asked, and whether they answer at all.

A node that is down is known at once, by its connection. One that is cut off or stands still is
known by its silence: nobody waits for it longer than two heartbeats, and what it said within the
last second stands beside the word that it does not answer.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from raftflow.cluster.asking import Peers
from raftflow.cluster.consensus.channel import PeerError, PeerTimeout, PeerUnavailable

METHOD = "node.status"
# An answer that comes late is of use to whoever asks next.
_ANSWER_MS = 1_000
_KEPT_S = 1.0


@dataclass(frozen=True, slots=True)
class Report:
    """``said`` is empty when there is nothing newer than a second."""

    said: Mapping[str, Any] = field(default_factory=dict)
    reachable: bool = False


@dataclass(slots=True)
class _Peer:
    said: Mapping[str, Any] = field(default_factory=dict)
    said_at: float = 0.0
    asked_at: float = 0.0
    asking: asyncio.Task[bool] | None = None


class PeerReports:
    """``patience_ms``: how long an answer is waited for."""

    def __init__(self, *, consensus: Peers, node_id: str, patience_ms: int) -> None:
        self._consensus = consensus
        self._node_id = node_id
        self._patience_s = patience_ms / 1_000
        self._peers: dict[str, _Peer] = {}
        self._own: Callable[[], dict[str, Any]] = dict

    def serve(self, own: Callable[[], dict[str, Any]]) -> None:
        """``own`` is what this node says of itself."""
        self._own = own

        async def answer(_peer: str, _payload: bytes) -> bytes:
            return json.dumps(own(), separators=(",", ":")).encode()

        self._consensus.channel.register(METHOD, answer)

    async def all(self, *, silent: Collection[str] = ()) -> dict[str, Report]:
        """Of each member, and of this node. Nobody waits for those known to be ``silent``."""
        members = list(self._consensus.peers())
        self._peers = {peer: self._peers.get(peer) or _Peer() for peer in members}
        found = await asyncio.gather(
            *(self._report(peer, state, peer in silent) for peer, state in self._peers.items())
        )
        return dict(zip(members, found, strict=True))

    async def _report(self, peer: str, state: _Peer, silent: bool) -> Report:
        if peer == self._node_id:
            return Report(self._own(), reachable=True)
        now = asyncio.get_running_loop().time()
        # One that was asked before this moment may answer with what is over.
        if state.asking is None or state.asking.done():
            state.asked_at = now
            state.asking = asyncio.create_task(self._ask(peer, state), name="ask-status")
        task = state.asking
        patience_s = 0.0 if silent else max(0.0, state.asked_at + self._patience_s - now)
        await asyncio.wait({task}, timeout=patience_s)
        fresh = asyncio.get_running_loop().time() - state.said_at < _KEPT_S
        reachable = task.done() and not task.cancelled() and task.result()
        return Report(state.said if fresh else {}, reachable)

    async def _ask(self, peer: str, state: _Peer) -> bool:
        """Whether there was an answer, of whatever kind."""
        try:
            answer = await self._consensus.channel.call(peer, METHOD, b"", timeout_ms=_ANSWER_MS)
            state.said = json.loads(answer)
            state.said_at = asyncio.get_running_loop().time()
        except (PeerUnavailable, PeerTimeout):
            return False
        except (PeerError, ValueError):
            return True
        return True
