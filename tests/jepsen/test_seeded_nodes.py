"""Each checker catches its bug in real nodes that have it."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from tests.jepsen.checker.verdict import Verdict
from tests.jepsen.context import Run
from tests.jepsen.history import History, load
from tests.jepsen.hosts.loopback import Loopback
from tests.jepsen.runner import SETTINGS
from tests.jepsen.seeded import BUGS, command
from tests.jepsen.workloads.catalog import ALL

ROOT = Path(__file__).resolve().parents[2]
NODES = 3
AT_WORK_S = 10.0
RUNS = 4
# A few of them each time; JEPSEN_BUGS=all, as in `make campaigns`, takes minutes.
FEW = "stale-reads,lost-timers,impatient-leases"
CHOSEN = os.environ.get("JEPSEN_BUGS", FEW)


def freeze_for_a_moment(run: Run) -> None:
    """A node that wakes up is asked what it knows before it can hear what it missed."""
    victim = run.rng(str(time.monotonic())).choice(run.cluster.ids())
    run.cluster.pause(victim)
    run.rest(0.7)
    run.cluster.resume(victim)
    run.rest(0.7)


def verdict(directory: Path, bug: str, workload_name: str) -> Verdict:
    """Of a short run in which nodes stand still now and then."""
    settings = {**SETTINGS, "RAFTFLOW_LEASE_MS": "3000", "PYTHONPATH": str(ROOT)}
    cluster = Loopback(directory, NODES, settings=settings)
    cluster.program = command(bug)
    path = directory / "history.jsonl"
    try:
        cluster.start_all()
        cluster.wait_serving(60)
        with History(path) as history:
            run = Run(cluster, history, directory, seed=1, rate=3.0)
            workload = ALL[workload_name]()
            workload.setup(run)
            clients = [threading.Thread(target=body) for body in workload.threads(run)]
            for client in clients:
                client.start()
            until = time.monotonic() + AT_WORK_S
            while time.monotonic() < until:
                freeze_for_a_moment(run)
            run.stopping.set()
            for client in clients:
                client.join()
            dead = [each for each in cluster.ids() if not cluster.alive(each)]
            assert not dead, f"a bug that ends {dead} is another one: see their logs in {directory}"
            workload.final(run)
    finally:
        cluster.close()
    return workload.check(load(path))


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS if CHOSEN == "all" else CHOSEN.split(","))
def test_a_bug_is_seen(bug: str, tmp_path: Path) -> None:
    """A bug needs its moment: in ten seconds it may not come."""
    _break, workload, words = BUGS[bug]
    seen: list[object] = []
    for number in range(RUNS):
        directory = tmp_path / str(number)
        directory.mkdir()
        found = verdict(directory, bug, workload)
        if any(words in error for error in found.errors):
            return
        seen.append((found.errors, found.stats))
    raise AssertionError(seen)
