"""Damage on real disks is repaired from the other nodes, without an operator."""

import json
import os
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from corrupt import damage_entry, records
from dev_cluster import DevCluster, HttpError, dev_cluster, wait_for, workflow_path

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SETTINGS = {
    "RAFTFLOW_STORAGE_SEGMENT_BYTES": "65536",
    "RAFTFLOW_STORAGE_LOG_TAIL_ENTRIES": "40",
    "RAFTFLOW_STORAGE_CHECKPOINT_INTERVAL_MS": "500",
}
SCRUBBING = SETTINGS | {
    "RAFTFLOW_STORAGE_SCRUB_PAUSE_MS": "200",
    "RAFTFLOW_STORAGE_SCRUB_BYTES_PER_SECOND": "67108864",
}
RUNS = 100


def load(cluster: DevCluster, first: int = 0, count: int = RUNS) -> None:
    body = {"workflow_types": ["Idle"], "worker_id": "t"}
    cluster.call("n1", "POST", "/api/workflow-types", body)
    for number in range(first, first + count):
        body = {"type": "Idle", "workflow_id": f"w{number}", "input": "x" * 3_000}
        cluster.call("n1", "POST", "/api/workflows", body)


def home(cluster: DevCluster, node_id: str) -> Path:
    return Path(cluster.entry(node_id)["data_dir"])


def own_row(cluster: DevCluster, node_id: str) -> dict[str, Any]:
    nodes = cluster.call(node_id, "GET", "/api/cluster")["nodes"]
    return next(each for each in nodes if each["id"] == node_id)


def tell(cluster: DevCluster, node_id: str) -> tuple[int, str] | None:
    try:
        row = own_row(cluster, node_id)
    except (OSError, HttpError):
        return None
    return row["applied_index"], row["state_digest"]


def is_checkpointed(cluster: DevCluster, node_id: str) -> bool:
    row = own_row(cluster, node_id)
    return bool(row["snapshot_index"] >= row["applied_index"])


def wait_equal(cluster: DevCluster, runs: int = RUNS) -> None:
    """All nodes have every acknowledged run, and the same state."""
    for node_id in cluster.ids():
        wait_for(f"{node_id} serves", lambda node_id=node_id: cluster.health(node_id))
    cluster.leader()

    def equal() -> bool:
        told = [tell(cluster, node_id) for node_id in cluster.ids()]
        return None not in told and len(set(told)) == 1

    wait_for("all states are equal", equal)
    for node_id in cluster.ids():
        found = cluster.call(node_id, "GET", "/api/workflows?limit=0")["total"]
        assert found == runs, node_id
        for number in (0, runs // 2, runs - 1):
            assert cluster.describe(node_id, f"w{number}")["input"] == "x" * 3_000


def said(cluster: DevCluster, node_id: str) -> list[dict[str, Any]]:
    lines = (cluster.directory / f"{node_id}.log").read_text().splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def events(cluster: DevCluster, node_id: str) -> set[str]:
    return {line.get("event", "") for line in said(cluster, node_id)}


def kept(directory: Path) -> list[int]:
    """Indexes in the log of this node that stand in all of them, oldest first."""
    return sorted({record.index for record in records(directory / "raft")})


def test_a_different_committed_record_on_each_node_and_one_state_come_back(
    tmp_path: Path,
) -> None:
    with dev_cluster(tmp_path / "cluster", environment=SETTINGS) as cluster:
        load(cluster)
        wait_for(
            "the log is compacted everywhere",
            lambda: all(own_row(cluster, each)["first_index"] > 1 for each in cluster.ids()),
        )
        cluster.kill(*cluster.ids())
        common = set.intersection(*[set(kept(home(cluster, each))) for each in cluster.ids()])
        indexes = sorted(common)[5:30:9]
        assert len(indexes) == 3
        for node_id, index in zip(cluster.ids(), indexes, strict=True):
            damage_entry(home(cluster, node_id) / "raft", index)
        overwrite(home(cluster, "n2") / "state.db", 0, b"this is no database any more")
        (home(cluster, "n2") / "state.db-wal").unlink(missing_ok=True)
        for node_id in cluster.ids():
            cluster.start_node(node_id)
        wait_equal(cluster)
        for node_id in cluster.ids():
            told = events(cluster, node_id)
            assert "repair_finished" in told
            assert "peer_callback_failed" not in told  # it has peers, and is no node yet
            assert list((home(cluster, node_id) / "damaged").iterdir())
        assert "state_copied" in events(cluster, "n2")
        load(cluster, RUNS, 5)
        wait_equal(cluster, RUNS + 5)


def overwrite(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def flip_in_sealed_segment(directory: Path) -> None:
    """On a running node, in the newest segment that nobody writes to: older ones may be on their
    way out."""
    found = records(directory / "raft")
    sealed = sorted({record.path for record in found})[-2]
    record = next(each for each in found if each.path == sealed and each.size > 500)
    data = record.path.read_bytes()
    overwrite(record.path, record.offset + 200, bytes([data[record.offset + 200] ^ 1]))


def flip_in_state(directory: Path) -> None:
    """A byte of an input that an event of a run holds, in the file behind the WAL."""
    path = directory / "state.db"
    data = path.read_bytes()
    at = data.index(b"x" * 2_000) + 1_000
    overwrite(path, at, b"y")


def checkpointed(directory: Path) -> bool:
    return b"x" * 2_000 in (directory / "state.db").read_bytes()


@pytest.mark.parametrize("spoil", [flip_in_sealed_segment, flip_in_state])
@pytest.mark.parametrize("leads", [False, True])
def test_the_scrub_finds_rot_on_a_running_node_and_the_cluster_heals(
    tmp_path: Path, spoil: Callable[[Path], None], leads: bool
) -> None:
    with dev_cluster(tmp_path / "cluster", environment=SCRUBBING) as cluster:
        load(cluster)
        node_id = cluster.leader() if leads else cluster.followers()[0]
        directory = home(cluster, node_id)
        wait_for("the state is in its file", lambda: checkpointed(directory))
        spoil(directory)
        wait_for("it has ended", lambda: cluster.entry(node_id)["pid"] is None, timeout=90)
        assert "scrub_found" in events(cluster, node_id)
        cluster.start_node(node_id)
        wait_equal(cluster)
        assert not (directory / "damaged.json").exists()


def test_a_damaged_event_that_a_call_meets_is_repaired(tmp_path: Path) -> None:
    with dev_cluster(tmp_path / "cluster", environment=SETTINGS) as cluster:
        load(cluster, count=10)
        node_id = cluster.followers()[0]
        wait_for("it has all", lambda: tell(cluster, node_id) == tell(cluster, cluster.leader()))
        wait_for("its file has all", lambda: is_checkpointed(cluster, node_id))
        cluster.kill(node_id)
        directory = home(cluster, node_id)
        with sqlite3.connect(directory / "state.db") as db:
            db.execute("UPDATE events SET record = zeroblob(30) WHERE event_no & 255 = 1")
        cluster.start_node(node_id)
        wait_for("it serves again", lambda: cluster.health(node_id))
        with pytest.raises((OSError, HttpError)):
            cluster.call(node_id, "GET", workflow_path("w3", "/history"))
        wait_for("it has ended", lambda: cluster.entry(node_id)["pid"] is None)
        cluster.start_node(node_id)
        wait_equal(cluster, 10)
        assert cluster.call(node_id, "GET", workflow_path("w3", "/history"))


def test_a_node_that_waits_for_its_peers_says_so_and_can_be_stopped(tmp_path: Path) -> None:
    with dev_cluster(tmp_path / "cluster", environment=SETTINGS) as cluster:
        load(cluster)
        cluster.kill(*cluster.ids())
        raft = home(cluster, "n1") / "raft"
        damage_entry(raft, kept(raft.parent)[-4])
        cluster.start_node("n1")
        waiting = wait_for("it says what it waits for", lambda: refusal(cluster, "n1"))
        assert waiting["status"] == "repairing"
        pid = cluster.entry("n1")["pid"]
        os.kill(pid, signal.SIGTERM)
        wait_for("it has ended", lambda: cluster.entry("n1")["pid"] is None)


def refusal(cluster: DevCluster, node_id: str) -> dict[str, Any] | None:
    try:
        cluster.call(node_id, "GET", "/api/health", timeout=1.0)
    except HttpError as error:
        return error.body if error.status == 503 and "damaged" in str(error.body) else None
    except OSError:
        return None
    return None
