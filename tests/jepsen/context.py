"""One run: what workloads, nemeses and checks share while it lasts."""

from __future__ import annotations

import random
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.jepsen.cluster import Cluster


@dataclass
class Run:
    """`history` is the open history that operations and faults are written to."""

    cluster: Cluster
    history: Any
    directory: Path
    seed: int
    # Times the usual rate of operations of every workload.
    rate: float = 1.0
    # Set when nothing is to be broken any more, by anyone.
    calm: threading.Event = field(default_factory=threading.Event)
    # Set when clients should finish the operation they are in and end.
    stopping: threading.Event = field(default_factory=threading.Event)
    # Held by whoever takes nodes down and brings them back: one at a time.
    node_lives: threading.Lock = field(default_factory=threading.Lock)
    # Worker processes of the workloads; some nemeses freeze them.
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def rng(self, name: str) -> random.Random:
        """Chance of its own for each who asks, so that none moves another's."""
        return random.Random(f"{self.seed}/{name}")

    def rest(self, seconds: float) -> bool:
        """Sleep, unless the run ends meanwhile; whether it still goes on."""
        return not self.stopping.wait(seconds)
