"""The background scrub: rot is found before it is needed, and before a second node has it too.

Each pass reads the log's segments and state.db once, at a bounded rate, and pauses while the event
loop lags. What it finds is noted, and the process ends: the next start repairs it from the others.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import structlog

from raftflow.cluster.background import in_thread
from raftflow.cluster.damage import Part
from raftflow.cluster.metrics import Metrics
from raftflow.cluster.store import CorruptRecord, StoreDamaged
from raftflow.cluster.store import scrub as state_scrub
from raftflow.cluster.store.connection import connect
from raftflow.raftlog import scrub as log_scrub
from raftflow.raftlog import segment
from raftflow.raftlog.disk import OsDisk
from raftflow.raftlog.errors import JournalDamaged, JournalIOError

log = structlog.get_logger("raftflow.scrub")

_BURST_S = 0.25  # at most so long at the full speed of the disk, then the rate is kept
_LAG_MS = 50.0  # of one in a hundred turns
_LAG_PAUSE_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrubSettings:
    bytes_per_second: int
    pause_ms: int


class Scrub:
    """`lag_ms` tells how late the event loop lately was; `found` notes the damage and ends the
    process, if there is anybody to repair it from."""

    def __init__(
        self,
        *,
        data_dir: Path,
        settings: ScrubSettings,
        metrics: Metrics,
        lag_ms: Callable[[], float],
        found: Callable[[Part, Exception], None],
    ) -> None:
        self._data_dir = data_dir
        self._settings = settings
        self._metrics = metrics
        self._lag_ms = lag_ms
        self._found = found

    async def run(self) -> None:
        if self._settings.bytes_per_second == 0:
            return
        while True:
            began = time.monotonic()
            sound = await self._pass(Part.LOG, self._log_steps)
            sound = await self._pass(Part.STATE, self._state_steps) and sound
            if sound:
                self._metrics.scrub_completed.set_to_current_time()
                took_s = round(time.monotonic() - began, 3)
                log.info("scrub_completed", seconds=took_s)
            await asyncio.sleep(self._settings.pause_ms / 1_000)

    async def _pass(self, part: Part, source: Callable[[], Iterator[int]]) -> bool:
        try:
            steps = source()
            try:
                await self._read(part, steps)
            finally:
                await in_thread(_close, steps)
        except (JournalDamaged, StoreDamaged, CorruptRecord) as error:
            self._metrics.scrub_findings.labels(part.value).inc()
            log.critical("scrub_found", part=part.value, reason=str(error))
            self._found(part, error)
            return False
        return True

    async def _read(self, part: Part, steps: Iterator[int]) -> None:
        began, total = time.monotonic(), 0
        while (size := await in_thread(next, steps, None)) is not None:
            self._metrics.scrub_bytes.labels(part.value).inc(size)
            total += size
            ahead = total / self._settings.bytes_per_second - (time.monotonic() - began)
            if self._lag_ms() > _LAG_MS:
                await asyncio.sleep(_LAG_PAUSE_S)
            elif ahead > _BURST_S:
                await asyncio.sleep(ahead)

    def _log_steps(self) -> Iterator[int]:
        disk, directory = OsDisk(), str(self._data_dir / "raft")
        ids = segment.segment_ids(disk.listdir(directory))
        for segment_id in ids:
            try:
                _forget_cached(segment.segment_path(directory, segment_id))
                yield from log_scrub.steps(
                    disk, directory, segment_id, active=segment_id == ids[-1]
                )
            except (FileNotFoundError, JournalIOError) as error:
                cause = error if isinstance(error, FileNotFoundError) else error.__cause__
                if not isinstance(cause, FileNotFoundError):
                    raise
                # Compacted meanwhile.

    def _state_steps(self) -> Iterator[int]:
        path = str(self._data_dir / "state.db")
        inode = os.stat(path).st_ino
        _forget_cached(path)
        db = connect(path)
        try:
            yield from state_scrub.steps(path, db)
        except (StoreDamaged, CorruptRecord):
            if os.stat(path).st_ino == inode:
                raise
            # It was replaced by a copy meanwhile: what was read is no one's state any more.
        finally:
            db.close()


def _close(steps: Iterator[int]) -> None:
    close = getattr(steps, "close", None)
    if close is not None:
        close()


def _forget_cached(path: str) -> None:
    """Read what is on the disk, not what the kernel remembers of it."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)
