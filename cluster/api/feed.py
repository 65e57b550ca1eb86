"""The cluster page as a stream of events: for many who look, one picture at a time.

While anybody listens, the picture is taken once a second, and at once when a leader, a term, the
members or who answers changes. It is rendered once for all who may see the same, and who reads
slowly gets the newest and not those that it missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from typing import Any

import structlog

from raftflow.cluster.api.encoding import encode
from raftflow.cluster.api.handlers import cluster
from raftflow.cluster.api.handlers.admin import leader_of
from raftflow.cluster.api.services import NodeServices
from raftflow.cluster.api.status import ApiError
from raftflow.cluster.background import end

log = structlog.get_logger("raftflow.api")

EVERY_S = 1.0
# Proxies close connections on which nothing is said.
_COMMENT_EVERY_S = 10.0
# No caller needs more pictures than that, however much changes.
_LEAST_PAUSE_S = 0.02


class ClusterFeed:
    """Owned by the API; the work ends with the last listener."""

    def __init__(self, node: NodeServices) -> None:
        self._node = node
        self._look_every_s = node.config.heartbeat_ms / 2_000
        self._listeners = 0
        self._work: asyncio.Task[None] | None = None
        self._picture: dict[str, Any] | None = None
        self._number = 0
        self._rendered: dict[frozenset[str], bytes] = {}  # of the newest, by who may see it
        self._next: asyncio.Future[None] | None = None
        self._changed = asyncio.Event()
        node.presence.changed = self._changed.set

    def __len__(self) -> int:
        return self._listeners

    async def events(self, namespaces: frozenset[str]) -> AsyncIterator[bytes]:
        """For a caller who may see these namespaces; none are all."""
        self._listeners += 1
        if self._work is None:
            self._work = asyncio.create_task(self._run(), name="cluster-feed")
        work, told = self._work, 0
        try:
            yield b"retry: 1000\n\n"
            while not work.done():
                if self._picture is not None and self._number != told:
                    told = self._number
                    yield self._render(namespaces)
                elif not await self._news(work):
                    yield b": still here\n\n"
        finally:
            self._listeners -= 1
            if self._work is work and (work.done() or not self._listeners):
                self._end(work)

    async def stop(self) -> None:
        await end(self._work)

    def _end(self, work: asyncio.Task[None]) -> None:
        """Nobody listens any more, or it has failed: who asks next begins anew."""
        self._work = self._picture = None
        self._rendered.clear()
        work.cancel()

    async def _news(self, work: asyncio.Task[None]) -> bool:
        awaited = {self._wait_for_next(), work}
        done, _ = await asyncio.wait(
            awaited, timeout=_COMMENT_EVERY_S, return_when=asyncio.FIRST_COMPLETED
        )
        return bool(done)

    def _wait_for_next(self) -> asyncio.Future[None]:
        if self._next is None or self._next.done():
            self._next = asyncio.get_running_loop().create_future()
        return self._next

    def _render(self, namespaces: frozenset[str]) -> bytes:
        assert self._picture is not None
        found = self._rendered.get(namespaces)
        if found is None:
            shown = encode(cluster.seen_by(self._picture, namespaces))
            found = self._rendered[namespaces] = b"event: cluster\ndata: " + shown + b"\n\n"
        return found

    async def _run(self) -> None:
        try:
            await self._watch()
        except Exception:
            # Those who listen come again; this must not go unnoticed.
            log.exception("cluster_feed_failed")

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        due, seen = 0.0, None
        with self._node.presence.watched():
            while True:
                self._changed.clear()
                state = self._state()
                if state != seen or loop.time() >= due:
                    due, seen = loop.time() + EVERY_S, state
                    await self._take(self._node.presence.silent)
                    await asyncio.sleep(_LEAST_PAUSE_S)
                    continue
                pause_s = min(self._look_every_s, max(0.0, due - loop.time()))
                try:
                    async with asyncio.timeout(pause_s):
                        await self._changed.wait()
                except TimeoutError:
                    pass

    def _state(self) -> tuple[Any, ...]:
        """What a change of is told at once."""
        node = self._node
        status = node.consensus.status()
        node.presence.follow()
        return (
            status.role,
            status.term,
            leader_of(node),
            status.configuration_index,
            status.committed_configuration_index,
            frozenset(peer for peer, info in node.consensus.peers().items() if info.connected),
            node.presence.silent,
            len(node.elections.all()),
            node.elections.led_since_s,
        )

    async def _take(self, silent: Collection[str]) -> None:
        self._picture = await cluster.describe(self._node, silent=silent)
        self._number += 1
        self._rendered.clear()
        if self._next is not None and not self._next.done():
            self._next.set_result(None)


def last_words(error: ApiError) -> bytes:
    """Why a stream ends, as its last event."""
    return b"event: end\ndata: " + encode(error.body()) + b"\n\n"
