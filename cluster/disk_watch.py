"""How full the disk is, and with what: measured in a thread, since a sick disk takes its time."""

from __future__ import annotations

import asyncio
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from raftflow.cluster.background import in_thread
from raftflow.cluster.metrics import Metrics

PERIOD_S = 10.0
# What stands in the data directory under which name. The rest of it is small.
_PARTS = {
    "raft": "log",
    "state.db": "state",
    "state.db-wal": "state",
    "snapshots": "snapshots",
    "damaged": "damaged",
}


@dataclass(frozen=True, slots=True)
class DiskUse:
    size_bytes: int
    free_bytes: int
    parts: dict[str, int]


def measure(data_dir: Path) -> DiskUse:
    parts = dict.fromkeys(_PARTS.values(), 0)
    for name, part in _PARTS.items():
        parts[part] += bytes_under(data_dir / name)
    usage = shutil.disk_usage(data_dir)
    return DiskUse(usage.total, usage.free, parts)


def bytes_under(path: Path) -> int:
    """What disappears meanwhile counts nothing: segments are compacted, copies are swapped in."""
    try:
        if not path.is_dir():
            return path.stat().st_size
        with os.scandir(path) as entries:
            return sum(bytes_under(Path(entry.path)) for entry in entries)
    except FileNotFoundError:
        return 0


class DiskWatch:
    def __init__(self, *, data_dir: Path, metrics: Metrics, period_s: float = PERIOD_S) -> None:
        self._data_dir = data_dir
        self._metrics = metrics
        self._period_s = period_s
        self.latest: DiskUse | None = None

    async def run(self) -> None:
        while True:
            use = self.latest = await in_thread(measure, self._data_dir)
            self._metrics.disk_size.set(use.size_bytes)
            self._metrics.disk_free.set(use.free_bytes)
            for part, size in use.parts.items():
                self._metrics.data_bytes.labels(part).set(size)
            await asyncio.sleep(self._period_s)
