"""Damage in a node's state: a single node loses that run alone, and a state that differs stops."""

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
        begin(started)
        yield started


def begin(cluster: DevCluster) -> None:
    body = {"workflow_types": ["Idle"], "worker_id": "t"}
    cluster.call("n1", "POST", "/api/workflow-types", body)
    for name in ("a", "b"):
        cluster.call("n1", "POST", "/api/workflows", {"type": "Idle", "workflow_id": name})
        signal(cluster, "n1", name, "first")


def signal(cluster: DevCluster, node_id: str, workflow_id: str, payload: str) -> None:
    body = {"name": "go", "payload": payload}
    cluster.call(node_id, "POST", workflow_path(workflow_id, "/signal"), body)


def damage(cluster: DevCluster, statement: str) -> str:
    """Change the state of a stopped follower behind its back, start it, and name it."""
    node_id = cluster.followers()[0]
    wait_for("it has both runs", lambda: cluster.describe(node_id, "b")["history_length"] >= 2)
    cluster.kill(node_id)
    change(cluster, node_id, statement)
    cluster.start_node(node_id)
    wait_for("it serves again", lambda: cluster.health(node_id))
    return node_id


def change(cluster: DevCluster, node_id: str, statement: str) -> None:
    db = sqlite3.connect(Path(cluster.entry(node_id)["data_dir"]) / "state.db")
    with db:
        changed = db.execute(statement).rowcount
    db.close()
    assert changed == 1


def test_a_damaged_event_costs_a_single_node_the_history_of_its_run(tmp_path: Path) -> None:
    with dev_cluster(tmp_path / "cluster", nodes=1) as cluster:
        cluster.leader()
        begin(cluster)
        cluster.call("n1", "GET", "/api/workflows?limit=0")  # a list waits until all is written
        cluster.kill("n1")
        change(
            cluster,
            "n1",
            "UPDATE events SET record = zeroblob(30) WHERE event_no & 255 = 2"
            " AND event_no >> 24 = (SELECT run_no FROM runs WHERE workflow_id = 'a')",
        )
        cluster.start_node("n1")
        cluster.leader()
        with pytest.raises(HttpError) as caught:
            cluster.call("n1", "GET", workflow_path("a", "/history"))
        assert caught.value.status == 500
        assert caught.value.body["code"] == "DATA_LOSS"
        assert "state.db" in caught.value.body["error"]
        assert cluster.call("n1", "GET", workflow_path("b", "/history"))


def test_a_node_whose_state_differs_stops_with_the_next_change(cluster: DevCluster) -> None:
    # A record that verifies, and is another run's: no rot, and no reason to fetch a copy.
    node_id = damage(
        cluster,
        "UPDATE runs SET record = (SELECT record FROM runs WHERE workflow_id = 'b')"
        " WHERE workflow_id = 'a'",
    )
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
