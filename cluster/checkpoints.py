"""A node makes its state durable at an operator's wish, and drops what its log needs no longer.

Nodes do both by themselves, every few seconds and with a tail of the log kept for slow followers.
Asked for, it is done at once and without that tail: for a disk that fills, or before a node stops.
The call may go to any node.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import structlog

from raftflow.cluster.background import in_thread
from raftflow.cluster.consensus.channel import PeerError, PeerTimeout, PeerUnavailable
from raftflow.cluster.consensus.driver import Consensus
from raftflow.cluster.disk_watch import bytes_under
from raftflow.cluster.errors import OperationRefused, Unavailable
from raftflow.cluster.replica import Replica
from raftflow.cluster.store import Store

log = structlog.get_logger("raftflow.checkpoints")

METHOD = "checkpoint"
WAIT_S = 8.0
# A list that is being read holds up part of it for a moment.
_AGAIN_S = 0.05
_LOOK_S = 0.01
_REMOVED_WITHIN_S = 2.0


@dataclass(frozen=True, slots=True)
class Made:
    """The state up to ``index`` is durable, the log begins with ``first_index``."""

    index: int
    first_index: int
    bytes_freed: int


class Checkpoints:
    def __init__(
        self,
        *,
        consensus: Consensus,
        replica: Replica,
        store: Store,
        node_id: str,
        log_directory: Path,
    ) -> None:
        self._consensus = consensus
        self._replica = replica
        self._store = store
        self._node_id = node_id
        self._log_directory = log_directory
        self._turn = asyncio.Lock()
        consensus.channel.register(METHOD, self._on_asked)

    async def make(self, node_id: str) -> Made:
        """On that node. Raises OperationRefused, Unavailable."""
        if node_id == self._node_id:
            return await self._make()
        if node_id not in self._consensus.peers():
            raise OperationRefused(
                "NODE_NOT_FOUND", f"{node_id} is no member; `raftflow node list` shows them"
            )
        try:
            answer = await self._consensus.channel.call(
                node_id, METHOD, b"", timeout_ms=round(WAIT_S * 1_000) + 1_000
            )
            return Made(**json.loads(answer))
        except PeerUnavailable:
            raise Unavailable(f"{node_id} is not connected to this node") from None
        except PeerTimeout:
            raise Unavailable(f"{node_id} did not answer in time", maybe_applied=True) from None
        except PeerError as error:
            if error.code == "UNKNOWN_METHOD":
                raise OperationRefused(
                    "NODE_REFUSED", f"{node_id} is of a release before 0.5: upgrade it first"
                ) from None
            raise OperationRefused("NODE_REFUSED", f"{node_id}: {error.text}") from None

    async def _on_asked(self, _peer: str, _payload: bytes) -> bytes:
        try:
            return json.dumps(asdict(await self._make())).encode()
        except (OperationRefused, Unavailable) as error:
            raise PeerError("NODE_REFUSED", error.message) from None

    async def _make(self) -> Made:
        async with self._turn:
            try:
                async with asyncio.timeout(WAIT_S):
                    index = await self._durable(self._replica.applied_index)
            except TimeoutError:
                raise Unavailable(
                    f"the state could not be made durable within {WAIT_S:g} s: long reads hold it"
                    " up, or the disk is slow"
                ) from None
            before = await in_thread(bytes_under, self._log_directory)
            await self._compact(index)
            after = await in_thread(bytes_under, self._log_directory)
            made = Made(index, self._consensus.status().first_index, max(0, before - after))
        log.info(
            "checkpoint_asked",
            index=index,
            first_index=made.first_index,
            bytes_freed=made.bytes_freed,
        )
        return made

    async def _durable(self, wanted: int) -> int:
        await self._replica.written(wanted)
        while True:
            index = await self._store.checkpoint()
            if index >= wanted:
                return index
            await asyncio.sleep(_AGAIN_S)

    async def _compact(self, index: int) -> None:
        """The files of the log go when it is next flushed."""
        consensus = self._consensus
        status, flushes = consensus.status(), consensus.stats().flushes
        # Who leads keeps what those that answer it have yet to get: else they would need a copy of
        # the whole state.
        lacked = [peer.match_index for peer in status.peers.values() if peer.connected]
        leads = status.leader == self._node_id
        consensus.compact(min([index, *lacked]) if leads else index)
        if consensus.status().first_index == status.first_index:
            return
        loop = asyncio.get_running_loop()
        until = loop.time() + _REMOVED_WITHIN_S
        while loop.time() < until:
            if consensus.stats().flushes > flushes:
                return
            await asyncio.sleep(_LOOK_S)
