"""How long until new work is accepted after the leader dies (SIGKILL) or freezes (SIGSTOP).

usage: python -m benchmarks.failover [--tries 5]
"""

from __future__ import annotations

import argparse
import signal
import statistics
import time

from benchmarks import _cluster
from benchmarks._cluster import DevCluster


def until_accepted(cluster: DevCluster, node_id: str, workflow_id: str) -> float:
    """Seconds until a start, sent again and again to a survivor, is acknowledged."""
    began = time.perf_counter()
    cluster.call(node_id, "POST", "/api/workflows", {"type": "Idle", "workflow_id": workflow_id})
    return time.perf_counter() - began


def one(cluster: DevCluster, number: signal.Signals, label: str) -> float:
    leader = cluster.leader()
    survivor = cluster.followers()[0]
    if number == signal.SIGKILL:
        cluster.kill(leader)
    else:
        cluster.signal(leader, number)
    took = until_accepted(cluster, survivor, label)
    if number == signal.SIGKILL:
        cluster.start_node(leader)
    else:
        cluster.signal(leader, signal.SIGCONT)
    settle(cluster)
    return took


def settle(cluster: DevCluster) -> None:
    """All nodes serve and agree on who leads."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        leaders = {(cluster.health(node_id) or {}).get("leader") for node_id in cluster.ids()}
        if len(leaders) == 1 and None not in leaders and "" not in leaders:
            return
        time.sleep(0.05)
    raise RuntimeError("the cluster did not settle")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=5)
    tries = parser.parse_args().tries
    rows = []
    with _cluster.cluster() as cluster:
        cluster.call("n1", "POST", "/api/workflow-types", {"workflow_types": ["Idle"]})
        for number in (signal.SIGKILL, signal.SIGSTOP):
            took = [one(cluster, number, f"{number.name}-{n}") for n in range(tries)]
            rows.append((number.name, min(took), statistics.median(took), max(took)))
    _cluster.table(
        f"new work accepted after the leader is gone, seconds ({tries} tries)",
        ("signal", "best", "median", "worst"),
        rows,
    )


if __name__ == "__main__":
    main()
