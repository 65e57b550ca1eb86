"""Which members answer, watched closely while somebody looks: a silent one is known within two
heartbeats of its last word.

Each member is asked for a sign of life twice a heartbeat, one question at a time. That costs a few
hundred microseconds of every second, so it ends with the last one who looks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from raftflow.cluster.asking import Peers
from raftflow.cluster.background import Fatal, spawn
from raftflow.cluster.consensus.channel import PeerError, PeerTimeout, PeerUnavailable

METHOD = "node.here"


class Presence:
    """``changed`` is called when a member falls silent or answers again."""

    def __init__(self, *, consensus: Peers, node_id: str, heartbeat_ms: int, fatal: Fatal) -> None:
        self._consensus = consensus
        self._node_id = node_id
        self._every_s = heartbeat_ms / 2_000
        self._patience_ms = max(1, heartbeat_ms * 3 // 2)
        self._fatal = fatal
        self._silent: set[str] = set()
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._watchers = 0
        self.changed: Callable[[], None] = lambda: None
        consensus.channel.register(METHOD, self._on_asked)

    @property
    def silent(self) -> frozenset[str]:
        """Who did not answer in time; of nobody known while nobody looks."""
        return frozenset(self._silent)

    @contextmanager
    def watched(self) -> Iterator[None]:
        self._watchers += 1
        self.follow()
        try:
            yield
        finally:
            self._watchers -= 1
            self.follow()

    def follow(self) -> None:
        """Watch those who are members now, if anybody looks."""
        members = {peer for peer in self._consensus.peers() if peer != self._node_id}
        wanted = members if self._watchers else set()
        for peer in self._asking.keys() - wanted:
            self._asking.pop(peer).cancel()
            self._silent.discard(peer)
        for peer in sorted(wanted - self._asking.keys()):
            self._asking[peer] = spawn(
                self._watch(peer), name=f"presence-{peer}", fatal=self._fatal
            )

    async def _watch(self, peer: str) -> None:
        loop = asyncio.get_running_loop()
        while True:
            asked_at = loop.time()
            here = await self._is_here(peer)
            if here == (peer in self._silent):
                (self._silent.discard if here else self._silent.add)(peer)
                self.changed()
            await asyncio.sleep(max(0.0, asked_at + self._every_s - loop.time()))

    async def _is_here(self, peer: str) -> bool:
        try:
            await self._consensus.channel.call(peer, METHOD, b"", timeout_ms=self._patience_ms)
        except (PeerUnavailable, PeerTimeout):
            return False
        except PeerError:
            return True  # of a release before 0.5: it says that it does not know the question
        return True

    async def _on_asked(self, _peer: str, _payload: bytes) -> bytes:
        return b""
