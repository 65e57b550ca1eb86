"""How full the disk is, with what, and how fast it fills: measured in a thread, since a sick disk
takes its time."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from raftflow.cluster.background import in_thread
from raftflow.cluster.metrics import Metrics

PERIOD_S = 10.0
KEPT = 180  # half an hour of them
# What is told of less is told of chance.
_LEAST_S = 5.0
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


@dataclass(frozen=True, slots=True)
class Growth:
    """What happened within ``over_ms``. ``full_in_ms``: until nothing is free, at that rate; None:
    it does not fill up. ``parts`` grew by so much; the rest of it is not this node's."""

    over_ms: int
    used_bytes: int
    parts: dict[str, int]
    full_in_ms: int | None


def growth(first: tuple[float, DiskUse], last: tuple[float, DiskUse]) -> Growth | None:
    """Between two looks; None when they are too close to say anything."""
    over_s = last[0] - first[0]
    if over_s < _LEAST_S:
        return None
    used = first[1].free_bytes - last[1].free_bytes
    return Growth(
        over_ms=round(over_s * 1_000),
        used_bytes=used,
        parts={part: size - first[1].parts[part] for part, size in last[1].parts.items()},
        full_in_ms=round(last[1].free_bytes / used * over_s * 1_000) if used > 0 else None,
    )


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
    def __init__(
        self,
        *,
        data_dir: Path,
        metrics: Metrics,
        period_s: float = PERIOD_S,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._data_dir = data_dir
        self._metrics = metrics
        self._period_s = period_s
        self._now = now
        self._looks: deque[tuple[float, DiskUse]] = deque(maxlen=KEPT)

    async def run(self) -> None:
        while True:
            use = await in_thread(measure, self._data_dir)
            self._looks.append((self._now(), use))
            self._metrics.disk_size.set(use.size_bytes)
            self._metrics.disk_free.set(use.free_bytes)
            for part, size in use.parts.items():
                self._metrics.data_bytes.labels(part).set(size)
            await asyncio.sleep(self._period_s)

    def latest(self) -> DiskUse | None:
        """As it was measured last."""
        return self._looks[-1][1] if self._looks else None

    def look(self) -> tuple[DiskUse, Growth | None] | None:
        """How full it is now, and what has grown in the last half hour; None before the first
        measuring."""
        if not self._looks:
            return None
        usage = shutil.disk_usage(self._data_dir)
        use = replace(self._looks[-1][1], free_bytes=usage.free)
        return use, growth(self._looks[0], (self._now(), use))
