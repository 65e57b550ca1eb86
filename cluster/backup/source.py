"""A node's side: a copy of its state, read out once and gone with its reader."""

from __future__ import annotations

import asyncio
import os
import shutil
import weakref
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Protocol

import structlog

from raftflow.cluster.background import in_thread
from raftflow.cluster.backup.manifest import Manifest
from raftflow.cluster.errors import Overloaded, Unavailable
from raftflow.cluster.store import Copy, StoreFull

log = structlog.get_logger("raftflow.backup")

PIECE_BYTES = 1 << 20
# Each holds as much disk as the state is large, for as long as its reader takes.
MOST_AT_ONCE = 2
# What is left for the log and the state while a copy is there: without room the node ends.
SPARE_BYTES = 256 << 20


class Replica(Protocol):
    @property
    def applied_index(self) -> int: ...

    async def written(self, index: int) -> None: ...

    async def copy_of_state(self) -> Copy: ...


class Taken:
    """A copy whose file has no name any more: its room is free as soon as nobody reads it."""

    def __init__(self, manifest: Manifest, file: BinaryIO) -> None:
        self.manifest = manifest
        self._file = file

    async def pieces(self) -> AsyncIterator[bytes]:
        with self._file:
            while piece := await in_thread(self._file.read, PIECE_BYTES):
                yield piece


class BackupSource:
    def __init__(
        self, *, replica: Replica, data_dir: Path, cluster_id: str, node_id: str, version: str
    ) -> None:
        self._replica = replica
        self._data_dir = data_dir
        self._cluster_id = cluster_id
        self._node_id = node_id
        self._version = version
        self._making = asyncio.Lock()
        self._taken: weakref.WeakSet[Taken] = weakref.WeakSet()

    async def take(self, *, feature_level: int, caller: str) -> Taken:
        """Everything that was applied here before the call. Raises Overloaded, Unavailable.
        ``caller`` is told in the log."""
        if self._making.locked() or len(self._taken) >= MOST_AT_ONCE:
            raise Overloaded(
                "this node makes or sends other backups: ask another one, or later",
                cause="backups",
                retry_after_ms=10_000,
            )
        async with self._making:
            await self._replica.written(self._replica.applied_index)
            await in_thread(self._require_room)
            try:
                copy = await self._replica.copy_of_state()
            except StoreFull as error:
                raise Unavailable(str(error)) from None
            file = await in_thread(_nameless, copy.path)
        taken = Taken(self._manifest(copy, feature_level), file)
        self._taken.add(taken)
        log.info("backup_taken", index=copy.applied.index, bytes=copy.size, caller=caller)
        return taken

    def _manifest(self, copy: Copy, feature_level: int) -> Manifest:
        applied = copy.applied
        return Manifest(
            cluster_id=self._cluster_id,
            node_id=self._node_id,
            version=self._version,
            feature_level=feature_level,
            index=applied.index,
            term=applied.term,
            time_ms=applied.time_ms,
            digest=applied.digest.hex(),
            size=copy.size,
            sha256=copy.sha256,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )

    def _require_room(self) -> None:
        state = self._data_dir / "state.db"
        wal = Path(f"{state}-wal")
        needed = state.stat().st_size + (wal.stat().st_size if wal.exists() else 0)
        free = shutil.disk_usage(self._data_dir).free
        if free < needed + SPARE_BYTES:
            raise Unavailable(
                f"{self._node_id} has no room for a copy of its state: it needs"
                f" {(needed + SPARE_BYTES) >> 20} MiB, {free >> 20} MiB are free in"
                f" {self._data_dir}. Free some, or ask another node"
            )


def _nameless(path: str) -> BinaryIO:
    file = open(path, "rb")  # noqa: SIM115  handed to its reader, who closes it
    shutil.rmtree(os.path.dirname(path), ignore_errors=True)
    return file
