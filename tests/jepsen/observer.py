"""What each node said of itself and cost, twice a second, in a file beside the history."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

PERIOD_S = 0.5


@dataclass(frozen=True, slots=True)
class Sample:
    """`ended` is the exit status of a process that is gone, told once; a signal is negative.
    `late_ms`: how long the observer waited for the processor when its pause was over."""

    time_ns: int
    node: str
    pid: int = 0
    role: str = ""
    term: int = 0
    leader: str = ""
    rss_kib: int = 0
    descriptors: int = 0
    ended: int | None = None
    late_ms: int = 0


class Observer:
    def __init__(self, cluster: Any, path: Path) -> None:
        self._cluster = cluster
        self._file = path.open("a", buffering=1)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._watch, args=(node,), daemon=True)
            for node in cluster.ids()
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._file.close()

    def _watch(self, node: str) -> None:
        told = 0
        paused = time.monotonic()
        while not self._stop.wait(PERIOD_S):
            late_ms = round((time.monotonic() - paused - PERIOD_S) * 1_000)
            pid = self._cluster.pid(node)
            status = self._cluster.exit_status(node)
            if status is None:
                self._write(replace(look(self._cluster, node, pid), late_ms=late_ms))
            elif pid != told:
                told = pid
                self._write(Sample(time.monotonic_ns(), node, pid, ended=status))
            paused = time.monotonic()

    def _write(self, sample: Sample) -> None:
        with self._lock:
            self._file.write(json.dumps(asdict(sample), separators=(",", ":")) + "\n")


def look(cluster: Any, node: str, pid: int) -> Sample:
    health = cluster.health(node) or {}
    return Sample(
        time.monotonic_ns(),
        node,
        pid,
        role=str(health.get("role", "")),
        term=int(health.get("term", 0)),
        leader=str(health.get("leader") or ""),
        rss_kib=_rss_kib(pid),
        descriptors=_descriptors(pid),
    )


def load(path: Path) -> list[Sample]:
    return [Sample(**json.loads(line)) for line in path.read_text().splitlines()]


def _rss_kib(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * 4


def _descriptors(pid: int) -> int:
    try:
        return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return 0
