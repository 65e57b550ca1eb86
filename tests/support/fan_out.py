"""One run with many activities at once, while its workers and once the leader are killed.

As a program it is one of those workers, of the client that we did not write:
`python fan_out.py WORK_MS ADDRESS...`
"""

from __future__ import annotations

import contextlib
import random
import re
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import workflowd
from dev_cluster import DevCluster, workflow_path

ENVIRONMENT = {
    # What a killed worker held comes back after these.
    "RAFTFLOW_LEASE_MS": "2s",
    "RAFTFLOW_DECISION_TIMEOUT_MS": "2s",
}
WORKERS = 4
PATIENCE_S = 180.0
_STALE = re.compile(
    r'^workflowd_request_seconds_count\{code="ABORTED",method="CompleteWorkflowTask"\} (\S+)$',
    re.MULTILINE,
)


@dataclass(slots=True)
class Outcome:
    seconds: float = 0.0
    entries: int = 0
    stale: int = 0  # decisions that came too late, as far as the nodes that lived have counted
    attempts: int = 0
    workers_killed: int = 0
    leader: str = ""  # the one that was killed
    problems: list[str] = field(default_factory=list)


def fan_out(
    cluster: DevCluster, *, count: int, work_ms: int, kill_every_s: float, seed: int
) -> Outcome:
    """Run it, and say what was wrong with its history on any node."""
    chance = random.Random(seed)
    outcome = Outcome()
    with _workers(cluster, work_ms) as workers:
        client = workflowd.Worker(addresses=cluster.addresses())
        entries = _entries(cluster)
        begun = time.monotonic()
        client.start("FanOut", count, "fan-out")
        kill_at, leader_at = kill_every_s, chance.uniform(1.0, 2.0) * kill_every_s
        while not _closed(client):
            now = time.monotonic() - begun
            if now > PATIENCE_S:
                outcome.problems.append(f"not done after {PATIENCE_S:g} s")
                return outcome
            if now > kill_at:
                workers.replace(chance.randrange(WORKERS))
                outcome.workers_killed += 1
                kill_at = now + kill_every_s
            if now > leader_at and not outcome.leader:
                outcome.leader = cluster.leader()
                outcome.stale += _stale(cluster, outcome.leader)
                cluster.kill(outcome.leader)
                cluster.start_node(outcome.leader)
            time.sleep(0.05)
        outcome.seconds = time.monotonic() - begun
    cluster.wait_all_serve()
    outcome.entries = _entries(cluster) - entries
    outcome.stale += sum(_stale(cluster, node_id) for node_id in cluster.ids())
    run = client.describe("fan-out")
    outcome.attempts = sum(step["attempts"] for step in run["steps"])
    outcome.problems += _problems(cluster, run, count)
    return outcome


# ---- what must be so -----------------------------------------------------------------------------


def _problems(cluster: DevCluster, run: dict[str, Any], count: int) -> Iterator[str]:
    if run["status"] != "COMPLETED":
        yield f"the run is {run['status']}: {run.get('error')}"
    elif run["output"] != str(sum(n * n for n in range(count))):
        yield f"the sum is {run['output']}"
    histories = [_history(cluster, node_id) for node_id in cluster.ids()]
    if any(history != histories[0] for history in histories):
        yield "the nodes tell different histories"
    ids = [event["event_id"] for event in histories[0]]
    if ids != list(range(1, len(ids) + 1)):
        yield "event ids are not dense"
    results: Counter[int] = Counter()
    for event in histories[0]:
        if event["type"] in ("StepCompleted", "StepFailed"):
            results[event["sequence"]] += 1
    if results != dict.fromkeys(range(1, count + 1), 1):
        wrong = {n: results[n] for n in range(1, count + 1) if results[n] != 1}
        yield f"{results.total()} results of {count} steps; not once: {wrong}"


def _history(cluster: DevCluster, node_id: str) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    while True:
        path = workflow_path("fan-out", f"/history?from={len(events) + 1}")
        page = cluster.call(node_id, "GET", path)
        events += page["events"]
        if len(events) >= page["history_length"]:
            return events


def _closed(client: workflowd.Worker) -> bool:
    return "closed_at" in client.describe("fan-out")


def _entries(cluster: DevCluster) -> int:
    return max(_applied(cluster, node_id) for node_id in cluster.ids())


def _applied(cluster: DevCluster, node_id: str) -> int:
    found = re.search(
        r"^workflowd_raft_applied_index (\S+)$", _metrics(cluster, node_id), re.MULTILINE
    )
    assert found is not None
    return int(float(found[1]))


def _stale(cluster: DevCluster, node_id: str) -> int:
    found = _STALE.search(_metrics(cluster, node_id))
    return int(float(found[1])) if found else 0


def _metrics(cluster: DevCluster, node_id: str) -> str:
    address = str(cluster.entry(node_id)["metrics"]).removeprefix("http://")
    address = address.removesuffix("/metrics")
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as response:
        text: str = response.read().decode()
    return text


# ---- workers -------------------------------------------------------------------------------------


class _Workers:
    """Processes, each with a node of its own that it asks first."""

    def __init__(self, cluster: DevCluster, work_ms: int) -> None:
        ids = cluster.ids()
        self._commands = [
            [
                *(sys.executable, __file__, str(work_ms)),
                *cluster.addresses(*(ids[(n + k) % len(ids)] for k in range(len(ids)))),
            ]
            for n in range(WORKERS)
        ]
        self._running = [subprocess.Popen(command) for command in self._commands]

    def replace(self, number: int) -> None:
        """SIGKILL, and another one in its place."""
        self._running[number].kill()
        self._running[number].wait()
        self._running[number] = subprocess.Popen(self._commands[number])

    def stop(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()


@contextlib.contextmanager
def _workers(cluster: DevCluster, work_ms: int) -> Iterator[_Workers]:
    types = {"workflow_types": ["FanOut"], "worker_id": "fan-out"}
    cluster.call(cluster.leader(), "POST", "/api/workflow-types", types)
    workers = _Workers(cluster, work_ms)
    try:
        yield workers
    finally:
        workers.stop()


def serve(work_ms: int, addresses: list[str]) -> None:
    worker = workflowd.Worker(addresses=addresses, activity_concurrency=8, workflow_concurrency=1)
    again = workflowd.RetryPolicy(max_attempts=100, initial_backoff=0.01)

    @worker.workflow("FanOut")
    def total(ctx: workflowd.Context) -> int:
        parts = [
            ctx.activity_async("square", n, retry=again, decode="json")
            for n in range(ctx.input_as("json"))
        ]
        return sum(ctx.wait_all(*parts))

    @worker.activity("square", decode="json")
    def square(number: int) -> int:
        time.sleep(work_ms / 1_000)
        return number * number

    worker.run()


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2:])
