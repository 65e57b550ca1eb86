"""A node whose state is not what the log says, although every checksum holds, stops with the next
change of what differs; the others go on."""

from __future__ import annotations

import re
import shutil
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from dev_cluster import wait_for, workflow_path
from mixed_cluster import MixedCluster, mixed_cluster

from raftflow.cluster.store.records import frame, unframe
from raftflow.proto.raftflow.internal.v1 import state_pb2

pytestmark = pytest.mark.cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MixedCluster]:
    with mixed_cluster(tmp_path / "cluster") as started:
        started.start_all()
        started.call("n1", "POST", "/api/workflow-types", {"workflow_types": ["Idle"]})
        for name in ("a", "b"):
            started.call("n1", "POST", "/api/workflows", {"type": "Idle", "workflow_id": name})
        started.wait_equal()
        yield started


def signal(cluster: MixedCluster, node_id: str, workflow_id: str) -> None:
    body = {"name": "go", "payload": "x"}
    cluster.call(node_id, "POST", workflow_path(workflow_id, "/signal"), body)


def applied(cluster: MixedCluster, node_id: str) -> int:
    return cluster.state(node_id)[0]


def falsify(cluster: MixedCluster, node_id: str, workflow_id: str) -> None:
    """Change one number of the run in a stopped node's store, and its checksum with it."""
    db = sqlite3.connect(cluster.data_dir(node_id) / "state.db")
    with db:
        run_no, record = db.execute(
            "SELECT run_no, record FROM runs WHERE workflow_id = ?", (workflow_id,)
        ).fetchone()
        row = state_pb2.RunRow.FromString(unframe(record))
        row.history_bytes += 1
        changed = frame(row.SerializeToString(deterministic=True))
        db.execute("UPDATE runs SET record = ? WHERE run_no = ?", (changed, run_no))
    db.close()


def follower(cluster: MixedCluster) -> str:
    leader = cluster.leader()
    return next(each for each in cluster.ids if each != leader)


def test_the_odd_one_out_stops_within_a_second_and_can_be_rebuilt(cluster: MixedCluster) -> None:
    wrong = follower(cluster)
    right = [each for each in cluster.ids if each != wrong]
    assert cluster.stop(wrong) == 0
    falsify(cluster, wrong, "a")
    cluster.start(wrong)
    cluster.wait_ready(wrong)
    signal(cluster, right[0], "b")  # what does not differ, it does like the others
    cluster.wait_equal()
    before = applied(cluster, right[0])
    begun = time.monotonic()
    signal(cluster, right[0], "a")
    assert cluster.ended(wrong) == 70
    assert time.monotonic() - begun < 1.5  # one, and what a process takes to end
    said = re.search(r"differs since entry (\d+) from that of a majority", cluster.log(wrong))
    assert said, cluster.log(wrong)[-2_000:]
    assert before < int(said[1]) <= applied(cluster, right[0])
    assert "(what differs first: runs)" in cluster.log(wrong)
    signal(cluster, right[1], "a")
    for node_id in right:
        assert cluster.processes[node_id].poll() is None
        wait_for(
            "the others go on comparing",
            lambda node_id=node_id: compared(cluster, node_id) == applied(cluster, node_id),
        )
    shutil.move(cluster.data_dir(wrong), cluster.directory / "kept-for-a-report")
    cluster.start(wrong)
    cluster.wait_ready(wrong)
    signal(cluster, right[0], "a")
    cluster.wait_equal()
    cluster.all_run()


def compared(cluster: MixedCluster, node_id: str) -> int:
    rows = cluster.call(node_id, "GET", "/api/cluster")["nodes"]
    return int(next(row for row in rows if row["id"] == node_id)["digest_compared_index"])


def test_with_a_node_down_the_third_decides_when_it_is_back(cluster: MixedCluster) -> None:
    wrong = follower(cluster)
    away = next(each for each in cluster.ids if each not in (wrong, cluster.leader()))
    assert cluster.stop(wrong) == 0
    falsify(cluster, wrong, "a")
    cluster.start(wrong)
    cluster.wait_ready(wrong)
    assert cluster.stop(away) == 0
    right = cluster.leader()
    signal(cluster, right, "a")
    for node_id in (wrong, right):
        wait_for(
            "it says that states differ",
            lambda node_id=node_id: '"decided": false' in cluster.log(node_id),
        )
    signal(cluster, right, "a")  # one against one: nobody can tell who is wrong
    cluster.start(away)
    assert cluster.ended(wrong) == 70
    cluster.wait_ready(away)
    signal(cluster, away, "a")
