"""Damage in one node's state: that run alone is lost there, and a state that differs stops."""

import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from dev_cluster import DevCluster, HttpError, dev_cluster, wait_for, workflow_path

pytestmark = pytest.mark.cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DevCluster]:
    with dev_cluster(tmp_path / "cluster") as started:
        started.call(
            "n1", "POST", "/api/workflow-types", {"workflow_types": ["Idle"], "worker_id": "t"}
        )
        for name in ("a", "b"):
            started.call("n1", "POST", "/api/workflows", {"type": "Idle", "workflow_id": name})
            signal(started, "n1", name, "first")
        yield started


def signal(cluster: DevCluster, node_id: str, workflow_id: str, payload: str) -> None:
    body = {"name": "go", "payload": payload}
    cluster.call(node_id, "POST", workflow_path(workflow_id, "/signal"), body)


def damage(cluster: DevCluster, statement: str) -> str:
    """Change the state of a stopped follower behind its back, start it, and name it."""
    node_id = cluster.followers()[0]
    wait_for("it has both runs", lambda: cluster.describe(node_id, "b")["history_length"] >= 2)
    cluster.kill(node_id)
    db = sqlite3.connect(Path(cluster.entry(node_id)["data_dir"]) / "state.db")
    with db:
        changed = db.execute(statement).rowcount
    db.close()
    assert changed == 1
    cluster.start_node(node_id)
    wait_for("it serves again", lambda: cluster.health(node_id))
    return node_id


def test_a_damaged_event_costs_the_history_of_its_run_on_that_node(cluster: DevCluster) -> None:
    node_id = damage(
        cluster,
        "UPDATE events SET record = zeroblob(30) WHERE event_no & 255 = 2"
        " AND event_no >> 24 = (SELECT run_no FROM runs WHERE workflow_id = 'a')",
    )
    with pytest.raises(HttpError) as caught:
        cluster.call(node_id, "GET", workflow_path("a", "/history"))
    assert caught.value.status == 500
    assert caught.value.body["code"] == "DATA_LOSS"
    assert "state.db" in caught.value.body["error"]
    assert cluster.call(node_id, "GET", workflow_path("b", "/history"))
    healthy = next(each for each in cluster.ids() if each != node_id)
    assert cluster.call(healthy, "GET", workflow_path("a", "/history"))


def test_a_node_whose_state_differs_stops_with_the_next_change(cluster: DevCluster) -> None:
    node_id = damage(cluster, "UPDATE runs SET record = zeroblob(30) WHERE workflow_id = 'a'")
    others = [each for each in cluster.ids() if each != node_id]
    signal(cluster, others[0], "a", "next")
    begun = time.monotonic()
    wait_for("it has stopped", lambda: cluster.health(node_id) is None)
    assert time.monotonic() - begun < 1.5  # one, and what a process takes to end
    said = (cluster.directory / f"{node_id}.log").read_text()
    assert "differs since entry" in said
    signal(cluster, others[1], "a", "after")
    for each in others:
        assert cluster.describe(each, "a")["history_length"] == 4
