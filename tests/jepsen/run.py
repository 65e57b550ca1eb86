"""Sagas with one attempt a step while nodes are killed and frozen; then everything is checked.

usage: python -m tests.jepsen.run --seed 1 --seconds 60 [--nemesis kill-leader,pause-leader]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "support")]

from checker import check, settle  # noqa: E402
from dev_cluster import DevCluster, HttpError, dev_cluster, wait_for  # noqa: E402
from nemesis import KINDS, Nemesis  # noqa: E402
from workers import WorkerProcess, worker_process  # noqa: E402
from workload import Workload  # noqa: E402

ENVIRONMENT = {"RAFTFLOW_LEASE_MS": "10000", "RAFTFLOW_DECISION_TIMEOUT_MS": "3000"}


def run(
    directory: Path,
    *,
    seed: int,
    seconds: float,
    kinds: tuple[str, ...] = KINDS,
    threads: int = 6,
    nodes: int = 3,
    say: bool = False,
) -> dict[str, object]:
    """One run; the report's `violations` is empty when all held."""
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(
            dev_cluster(directory / "cluster", nodes=nodes, environment=ENVIRONMENT)
        )
        cluster.wait_all_serve()
        workers = [
            stack.enter_context(
                worker_process(directory, cluster.addresses(), name=f"worker{number}")
            )
            for number in range(2)
        ]
        wait_for("types are registered", lambda: registered(cluster))
        workload = Workload(cluster, seed, threads=threads)
        nemesis = Nemesis(cluster, seed, kinds)
        workload.start()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            nemesis.rest()
            done = nemesis.strike()
            if say:
                print(f"{done}; {len(workload.sagas)} sagas", file=sys.stderr, flush=True)
        workload.stop()
        cluster.wait_all_serve()
        violations = workload.violations
        violations += settle(cluster, workload.sagas, timeout=90)
        found, expired = check(cluster, workload.sagas, calls_of(workers))
        violations += found
        violations += [error for client in workload.clients for error in client.errors]
        violations += [f"worker: {line}" for worker in workers for line in complaints(worker)]
        return {
            "seed": seed,
            "sagas": len(workload.sagas),
            "faults": dict(nemesis.faults),
            "leases_expired": expired,
            "violations": violations,
        }


def complaints(worker: WorkerProcess) -> list[str]:
    """That no node answers is true while all are down."""
    return [line for line in worker.output().splitlines() if "no node has answered" not in line]


def calls_of(workers: list[WorkerProcess]) -> Counter[str]:
    return sum((worker.calls() for worker in workers), Counter())


def registered(cluster: DevCluster) -> bool:
    body = {"type": "Quick", "workflow_id": "probe", "input": "probe"}
    try:
        cluster.call(cluster.ids()[0], "POST", "/api/workflows", body)
    except HttpError as error:
        return error.status == 409
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--nemesis", default=",".join(KINDS))
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="a directory for logs and data, left behind")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        directory = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        report = run(
            directory,
            seed=options.seed,
            seconds=options.seconds,
            kinds=tuple(options.nemesis.split(",")),
            nodes=options.nodes,
            say=True,
        )
    print(json.dumps(report, indent=1))
    return 1 if report["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
