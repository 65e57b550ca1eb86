"""One run from the first node's start to the verdicts."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from tests.jepsen.context import Run


def run_clients(run: Run, workloads: Sequence[object], seconds: float) -> None:
    """Every workload's threads, until the time is over."""
    threads = [
        threading.Thread(target=target, daemon=True)
        for workload in workloads
        for target in workload.threads(run)  # type: ignore[attr-defined]
    ]
    for thread in threads:
        thread.start()
    run.rest(seconds)
    run.stopping.set()
    for thread in threads:
        thread.join(120)
