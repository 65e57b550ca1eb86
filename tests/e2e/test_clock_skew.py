"""One node's clock is an hour ahead, and it leads first: timers keep to the others' clocks."""

import os
import subprocess
import time
from pathlib import Path

import pytest
from dev_cluster import DevCluster, HttpError, dev_cluster, wait_for
from needs import need
from workers import worker_process

from tests.jepsen.hosts.shim import Control, build

pytestmark = pytest.mark.cluster

NAP_S = 3.0  # of the workflow Sleeper
LATE_S = 20.0


def shifted(cluster: DevCluster, node_id: str, shim: Path, hours: float) -> subprocess.Popen[bytes]:
    """The node with its wall clock moved."""
    control = Control(shim.with_name(f"{node_id}.control"))
    control.set("clock_offset_ns", int(hours * 3_600) * 1_000_000_000)
    environment = {
        **os.environ,
        "LD_PRELOAD": str(shim),
        "JEPSEN_CONTROL": str(control.path),
    }
    with (cluster.directory / f"{node_id}.log").open("ab") as output:
        return subprocess.Popen(
            cluster.serve_command(node_id), env=environment, stdout=output, stderr=output
        )


def test_timers_keep_time_when_the_first_leader_is_an_hour_ahead(tmp_path: Path) -> None:
    need("cc")
    shim = build(tmp_path)
    with dev_cluster(tmp_path / "cluster") as cluster:
        cluster.kill("n1")
        process = shifted(cluster, "n1", shim, 1.0)
        try:
            wait_for("n1 serves", lambda: cluster.health("n1"))
            with worker_process(tmp_path, cluster.addresses("n2", "n3")) as worker:
                first = nap(cluster, "before")
                make_leader(cluster, "n1")
                second = nap(cluster, "while-ahead")
                wait_for(
                    "n1 has handed leadership over",
                    lambda: (cluster.health("n1") or {}).get("role") == "follower",
                )
                third = nap(cluster, "after")
                assert worker.output() == ""
            for took in (first, second, third):
                assert NAP_S <= took < NAP_S + LATE_S, (first, second, third)
        finally:
            process.kill()
            process.wait()


def make_leader(cluster: DevCluster, node_id: str) -> None:
    """Kill other leaders until this node has its turn."""

    def leads() -> bool:
        if (cluster.health(node_id) or {}).get("role") == "leader":
            return True
        leader = cluster.leader()
        if leader != node_id:
            cluster.kill(leader)
            now = cluster.leader(other_than=leader)
            cluster.start_node(leader)
            return now == node_id
        return True

    wait_for(f"{node_id} leads", leads)


def nap(cluster: DevCluster, workflow_id: str) -> float:
    """Seconds, on this process's clock, from before the timer's start to after its end. All calls
    go to n1: others may have been killed a moment ago."""
    wait_for("the run is started", lambda: started(cluster, workflow_id))
    wait_for("the timer runs", lambda: has_timer(cluster, workflow_id))
    began = time.monotonic()
    cluster.wait_status("n1", workflow_id, "COMPLETED")
    # The timer was seen a moment after it began: what was missed of it counts for it.
    return time.monotonic() - began + 0.25


def started(cluster: DevCluster, workflow_id: str) -> bool:
    body = {"type": "Sleeper", "workflow_id": workflow_id, "request_id": workflow_id}
    try:
        cluster.call("n1", "POST", "/api/workflows", body)
    except HttpError:
        return False
    return True


def has_timer(cluster: DevCluster, workflow_id: str) -> bool:
    steps = cluster.describe("n1", workflow_id)["steps"]
    return len(steps) > 1 and steps[1]["kind"] == "TIMER"
