"""How long lists, filters, searches, counts, pages, families and histories take among many runs, on
each of three real nodes.

usage: python -m benchmarks.lists [--runs 100000] [--times 5] [--most-ms 200]

The runs are made in the store of one node, without a cluster (`_many_runs.py`); the nodes begin
from copies of it. `ms` is what a client waits on a connection that it keeps, `CPU` what the node
works meanwhile: that hardly depends on what else the machine does. The process fails when a client
waits longer than `--most-ms`.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import itertools
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import _cluster, _many_runs
from raftflow.cluster.backup.manifest import Manifest
from raftflow.cluster.backup.restoring import Restoration
from raftflow.cluster.config import Address, Config, Peer

from dev_cluster import wait_for  # isort: skip - of tests/support
from node_processes import Nodes, Process, nodes_in  # isort: skip - of tests/support

IDS = ("n1", "n2", "n3")
LISTED = "/api/workflows"
COUNTED = "/api/workflow-counts"
PIECE = 1 << 20
LEADERLESS_S = 60.0
# No list needs a leader: on a busy machine they shall not elect one after the other.
PATIENT = ("--election-min-ms", "5000", "--election-max-ms", "10000")


@dataclass(frozen=True, slots=True)
class Asked:
    name: str
    path: str


class Caller:
    """A client that keeps its connection."""

    def __init__(self, node: Process) -> None:
        assert node.process is not None
        self._tasks = Path(f"/proc/{node.process.pid}/task")
        self._connection = http.client.HTTPConnection(node.http, timeout=60)

    def get(self, path: str) -> tuple[float, Any]:
        """The milliseconds that it took, and the answer. While no leader confirms a read, as on a
        machine that is too busy, it is asked again."""
        deadline = time.monotonic() + LEADERLESS_S
        while True:
            began = time.perf_counter()
            self._connection.request("GET", path)
            response = self._connection.getresponse()
            content = response.read()
            took = (time.perf_counter() - began) * 1_000
            if response.status == 200:
                return took, json.loads(content)
            if response.status != 503 or time.monotonic() > deadline:
                raise RuntimeError(f"{path}: {response.status} {content[:200]!r}")

    def cpu_ms(self) -> float:
        """Of all threads of the node, so far."""
        spent = [int(each.read_text().split()[0]) for each in self._tasks.glob("*/schedstat")]
        return sum(spent) / 1_000_000


def restore(nodes: Nodes, state: Path, manifest: Manifest) -> None:
    """What `raftflow backup restore` does on each machine."""
    peers = tuple(Peer(each, Address.parse(nodes[each].raft)) for each in IDS)
    for each in IDS:
        data = nodes[each].data
        data.parent.mkdir(parents=True)
        made = Restoration(Config(node_id=each, data_dir=data, peers=peers), manifest)
        made.begin()
        try:
            with state.open("rb") as file:
                made.write_state(iter(lambda: file.read(PIECE), b""))
            made.finish()
        finally:
            made.close()


def settled(caller: Caller) -> None:
    """The leader has read what its predecessor left: it is at it for seconds, once."""
    wait_for("the leader settles", lambda: caller.get("/api/queues")[1]["complete"])


def questions(caller: Caller, runs: int) -> Iterator[Asked]:
    middle = _many_runs.id_of(runs // 2)
    half = caller.get(f"{LISTED}/{middle}")[1]["started_at"]
    deep = caller.get(f"{LISTED}?started_before={half}&limit=1")[1]["next_cursor"]
    yield Asked("newest 200", LISTED)
    yield Asked("newest 1,000", f"{LISTED}?limit=1000")
    yield Asked("offset 10,000", f"{LISTED}?offset=10000")
    yield Asked("by cursor, half way down", f"{LISTED}?cursor={deep}")
    yield Asked("the same, COMPLETED", f"{LISTED}?status=COMPLETED&cursor={deep}")
    yield Asked("WAITING", f"{LISTED}?status=WAITING")
    yield Asked("RUNNING or WAITING", f"{LISTED}?status=RUNNING,WAITING")
    yield Asked("FAILED or TIMED_OUT", f"{LISTED}?status=FAILED,TIMED_OUT")
    yield Asked("PAUSED or UNKNOWN (none)", f"{LISTED}?status=PAUSED,UNKNOWN")
    yield Asked("a common type", f"{LISTED}?type=Order")
    yield Asked("a rare type", f"{LISTED}?type=Migration")
    yield Asked("type and status", f"{LISTED}?type=Order&status=COMPLETED")
    yield Asked("queue", f"{LISTED}?task_queue=slow")
    yield Asked("queue and two statuses", f"{LISTED}?task_queue=slow&status=FAILED,TIMED_OUT")
    yield Asked("started after", f"{LISTED}?started_after={half}")
    yield Asked("started before, FAILED", f"{LISTED}?started_before={half}&status=FAILED")
    yield Asked("an id", f"{LISTED}?q={middle}")
    yield Asked("part of an id", f"{LISTED}?q=000{runs // 20}")
    yield Asked("part of many ids", f"{LISTED}?q=refund")
    yield Asked("part of none", f"{LISTED}?q=zzzz")
    yield Asked("one letter", f"{LISTED}?q=7")
    yield Asked("two letters, none", f"{LISTED}?q=zz")
    yield Asked("search, FAILED", f"{LISTED}?q=order&status=FAILED")
    yield Asked("search, another type (none)", f"{LISTED}?q=refund&type=Order")
    yield Asked("a rare attribute", f"{LISTED}?attr.customer=c-77")
    yield Asked("a common attribute", f"{LISTED}?attr.region=eu")
    yield Asked("two attributes", f"{LISTED}?attr.region=eu&attr.tier=none")
    yield Asked("attribute, FAILED", f"{LISTED}?attr.region=eu&status=FAILED")
    yield Asked("attribute and search", f"{LISTED}?attr.region=eu&q=order")
    yield Asked("counts", COUNTED)
    yield Asked("counts of a type", f"{COUNTED}?type=Order")
    yield Asked("counts of a search", f"{COUNTED}?q=refund")
    yield Asked("counts of an attribute", f"{COUNTED}?attr.region=eu")
    yield Asked("200 of 500 children", f"{LISTED}/{_many_runs.FAMILY}/family")
    yield Asked("a chain of 300", f"{LISTED}/{_many_runs.CHAIN}/family")
    yield Asked("the runs of an id", f"{LISTED}/{_many_runs.CHAIN}/runs")
    yield Asked("1,000 events", f"{LISTED}/{_many_runs.LONG}/history")
    yield Asked("search in 1,000 events", f"{LISTED}/{_many_runs.LONG}/history?q=number+900")
    yield Asked("health", "/api/health")


def measure(callers: dict[str, Caller], runs: int, times: int) -> float:
    """Prints the table, row by row; the slowest answer, in milliseconds."""
    slowest = 0.0
    heads = [f"{each} {what}" for each in callers for what in ("ms", "max", "CPU")]
    print(f"\n{runs:,} runs, {times} times each")
    print(f"  {'question':<28}" + "".join(f"{head:>9}" for head in heads) + "  found", flush=True)
    for asked in questions(callers["n1"], runs):
        figures: list[float] = []
        for caller in callers.values():
            before = caller.cpu_ms()
            answers = [caller.get(asked.path) for _ in range(times)]
            cpu = (caller.cpu_ms() - before) / times
            took = [each for each, _ in answers]
            slowest = max(slowest, *took)
            figures += [statistics.median(took), max(took), cpu]
        cells = "".join(f"{each:>9.1f}" for each in figures)
        print(f"  {asked.name:<28}{cells}  {_found(answers[-1][1])}", flush=True)
    return slowest


def _found(answer: dict[str, Any]) -> str:
    """What the answer says how many there are, `+` for more."""
    if "children" in answer:
        return f"{answer['children']['total']}, {len(answer['chain'])}"
    total = answer.get("total")
    if total is None:
        return str(len(answer.get("runs", answer.get("events", ()))) or "")
    exact = answer.get("total_exact", answer.get("exact"))
    return f"{total:,}" + ("" if exact else "+")


def turn(callers: dict[str, Caller], runs: int) -> float:
    """All pages of all runs, each from the next node; the slowest one, in milliseconds."""
    seen: list[str] = []
    took: list[float] = []
    cursor = ""
    for caller in itertools.cycle(callers.values()):
        ms, page = caller.get(f"{LISTED}?limit=1000&cursor={cursor}")
        took.append(ms)
        seen += [run["run_id"] for run in page["workflows"]]
        cursor = page.get("next_cursor", "")
        if not cursor:
            break
    if len(seen) != len(set(seen)) or len(seen) < runs:
        raise RuntimeError(f"{len(set(seen))} of {runs} runs, {len(seen)} shown")
    header = ("pages", "runs", "median ms", "max ms")
    rows = [(len(took), f"{len(seen):,}", statistics.median(took), max(took))]
    _cluster.table("all runs by cursor, each page from another node, none twice", header, rows)
    return max(took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--most-ms", type=float, default=200.0)
    settings = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="raftflow-bench-") as folder,
        nodes_in(Path(folder) / "nodes", most=len(IDS)) as nodes,
    ):
        state = Path(folder) / "state.db"
        began = time.perf_counter()
        manifest = asyncio.run(_many_runs.write(state, settings.runs))
        made_s = time.perf_counter() - began
        restore(nodes, state, manifest)
        state.unlink()
        nodes.bear(*IDS, arguments=PATIENT)
        callers = {each: Caller(nodes[each]) for each in IDS}
        settled(callers["n1"])
        ready_s = time.perf_counter() - began
        _cluster.table(
            "set up",
            ("runs", "made s", "served s", "state MiB"),
            [(settings.runs, made_s, ready_s, manifest.size >> 20)],
        )
        slowest = max(measure(callers, settings.runs, settings.times), turn(callers, settings.runs))
    print(f"\nslowest answer: {slowest:.0f} ms")
    if slowest > settings.most_ms:
        sys.exit(f"that is more than {settings.most_ms:g} ms")


if __name__ == "__main__":
    main()
