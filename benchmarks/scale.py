"""Many parked runs: what they cost in memory, and how long a restart of all nodes takes.

usage: python -m benchmarks.scale [--runs 10000]
"""

from __future__ import annotations

import argparse
import asyncio
import time

import aiohttp

from benchmarks import _cluster
from benchmarks.end_to_end import post
from benchmarks.failover import settle


async def park(address: str, runs: int) -> None:
    """Start runs that nobody decides: they stay WAITING."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await post(session, f"{address}/api/workflow-types", {"workflow_types": ["Idle"]})
        numbers = iter(range(runs))

        async def client() -> None:
            for n in numbers:
                body = {"type": "Idle", "workflow_id": f"parked-{n}", "input": "x" * 100}
                await post(session, f"{address}/api/workflows", body)

        await asyncio.gather(*(client() for _ in range(64)))


def total(cluster: _cluster.DevCluster, node_id: str) -> int:
    answer = cluster.call(node_id, "GET", "/api/workflows?limit=1&status=WAITING")
    return int(answer["total"])


def all_listed(cluster: _cluster.DevCluster, runs: int) -> int | None:
    """The fewest that a node lists, when that is all of them."""
    fewest = min(total(cluster, node_id) for node_id in cluster.ids())
    return fewest if fewest >= runs else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    runs = parser.parse_args().runs
    with _cluster.cluster() as cluster:
        began = time.perf_counter()
        asyncio.run(park(f"http://{cluster.http(cluster.leader())}", runs))
        parked_s = time.perf_counter() - began
        before = [_cluster.rss_mib(entry["pid"]) for entry in cluster.entries()]
        cluster.kill(*cluster.ids())
        began = time.perf_counter()
        for node_id in cluster.ids():
            cluster.start_node(node_id)
        leader = cluster.leader()
        cluster.call(leader, "POST", "/api/workflows", {"type": "Idle", "workflow_id": "after"})
        ready_s = time.perf_counter() - began
        settle(cluster)
        # A list shows what its node has applied: one that is catching up shows fewer for a while.
        listed = _cluster.wait_for("every node lists every run", lambda: all_listed(cluster, runs))
        after = [_cluster.rss_mib(entry["pid"]) for entry in cluster.entries()]
        _cluster.table(
            f"{runs:,} parked runs, all nodes killed and started again",
            ("starts/s", "restart s", "MiB before", "MiB after", "runs listed"),
            [(runs / parked_s, ready_s, max(before), max(after), listed)],
        )


if __name__ == "__main__":
    main()
