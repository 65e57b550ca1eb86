"""A follower that was away too long for the log comes back through a copy of the state."""

import concurrent.futures
import os
import threading
from pathlib import Path

import pytest
from dev_cluster import DevCluster, HttpError, dev_cluster, wait_for, workflow_path

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

TAIL = "200"
# `make soak` does it with 20,000.
ENTRIES_AWAY = int(os.environ.get("TEST_ENTRIES_AWAY", "2000"))


def digests(cluster: DevCluster) -> dict[str, tuple[int, str]]:
    """Applied index and state digest of each node, as each says itself."""
    out = {}
    for node_id in cluster.ids():
        status = cluster.call(node_id, "GET", "/api/cluster")
        own = next(node for node in status["nodes"] if node["id"] == node_id)
        out[node_id] = (own["applied_index"], own["state_digest"])
    return out


def test_a_follower_behind_the_log_catches_up_while_traffic_goes_on(tmp_path: Path) -> None:
    settings = {
        "RAFTFLOW_STORAGE_LOG_TAIL_ENTRIES": TAIL,
        "RAFTFLOW_STORAGE_SEGMENT_BYTES": str(256 * 1024),
        "RAFTFLOW_STORAGE_CHECKPOINT_INTERVAL_MS": "500",
    }
    with dev_cluster(tmp_path / "cluster", environment=settings) as cluster:
        cluster.call(
            "n1", "POST", "/api/workflow-types", {"workflow_types": ["Idle"], "worker_id": "t"}
        )
        lagging = cluster.followers()[0]
        leader = cluster.leader()
        cluster.kill(lagging)
        before = applied(cluster, leader)
        stop = threading.Event()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            writers = [pool.submit(write, cluster, leader, stop, n) for n in range(4)]
            try:
                wait_for(
                    f"{ENTRIES_AWAY} entries went by",
                    lambda: applied(cluster, leader) > before + ENTRIES_AWAY,
                    timeout=60 + ENTRIES_AWAY / 50,
                )
                wait_for(
                    "the log before them is compacted away",
                    lambda: first_index(cluster, leader) > before,
                    timeout=60,
                )
                cluster.start_node(lagging)
                wait_for(
                    "the follower is close behind while writes go on",
                    lambda: applied(cluster, leader) - applied(cluster, lagging) < 100,
                    timeout=60,
                )
            finally:
                stop.set()
            written = sum(writer.result(30) for writer in writers)
        assert written > 0
        wait_for(
            "all digests are equal at the same index",
            lambda: len(set(digests(cluster).values())) == 1,
        )
        assert "snapshot_installed" in (cluster.directory / f"{lagging}.log").read_text()
        run = cluster.describe(lagging, "w0-0")
        assert run["status"] == "WAITING"


def applied(cluster: DevCluster, node_id: str) -> int:
    try:
        status = cluster.call(node_id, "GET", "/api/cluster", timeout=5)
    except (OSError, HttpError):
        return -(10**9)
    own = next(node for node in status["nodes"] if node["id"] == node_id)
    return int(own["applied_index"])


def first_index(cluster: DevCluster, node_id: str) -> int:
    status = cluster.call(node_id, "GET", "/api/cluster")
    own = next(node for node in status["nodes"] if node["id"] == node_id)
    return int(own["first_index"])


def write(cluster: DevCluster, node_id: str, stop: threading.Event, writer: int) -> int:
    """Start runs and signal them until told to stop."""
    number = 0
    while not stop.is_set():
        workflow_id = f"w{writer}-{number // 20}"
        if number % 20 == 0:
            cluster.call(
                node_id, "POST", "/api/workflows", {"type": "Idle", "workflow_id": workflow_id}
            )
        cluster.call(
            node_id,
            "POST",
            workflow_path(workflow_id, "/signal"),
            {"name": "n", "payload": str(number)},
        )
        number += 1
    return number
