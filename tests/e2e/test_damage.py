"""Damaged files and full disks: refuse or recover, and say which file, where, and what to do."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dev_cluster import DevCluster, HttpError, dev_cluster, wait_for, workflow_path

pytestmark = pytest.mark.cluster


@pytest.fixture
def loaded(tmp_path: Path) -> Iterator[DevCluster]:
    """A cluster with a log worth damaging."""
    with dev_cluster(tmp_path / "cluster") as cluster:
        cluster.call(
            "n1", "POST", "/api/workflow-types", {"workflow_types": ["Idle"], "worker_id": "t"}
        )
        for number in range(60):
            cluster.call(
                "n1",
                "POST",
                "/api/workflows",
                {"type": "Idle", "workflow_id": f"w{number}", "input": "x" * 2_000},
            )
        yield cluster


def victim(cluster: DevCluster) -> tuple[str, list[Path]]:
    """A stopped follower and its log segments, oldest first."""
    node_id = cluster.followers()[0]
    cluster.kill(node_id)
    raft = Path(cluster.entry(node_id)["data_dir"]) / "raft"
    return node_id, sorted(p for p in raft.iterdir() if "segment" in p.name or p.suffix == ".seg")


def start_alone(cluster: DevCluster, node_id: str) -> subprocess.CompletedProcess[str]:
    """Start the node by its own command line, as `dev` does, and return how it ended."""
    arguments = cluster.serve_command(node_id)
    return subprocess.run(arguments, capture_output=True, text=True, timeout=90, check=False)


def flip_in_the_middle(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x40
    path.write_bytes(data)


def test_a_flipped_byte_in_the_middle_is_repaired_from_the_others(loaded: DevCluster) -> None:
    node_id, segments = victim(loaded)
    flip_in_the_middle(segments[0])
    # The others go on without it.
    loaded.call("n1" if node_id != "n1" else "n2", "GET", workflow_path("w5"))
    loaded.start_node(node_id)
    wait_for("the node serves again", lambda: loaded.health(node_id))
    said = (loaded.directory / f"{node_id}.log").read_text()
    assert "repair_finished" in said
    assert segments[0].name in said
    assert loaded.describe(node_id, "w59")["workflow_id"] == "w59"


def test_a_single_node_refuses_with_file_offset_and_remedy(tmp_path: Path) -> None:
    with dev_cluster(tmp_path / "cluster", nodes=1) as cluster:
        load(cluster, 20)
        cluster.kill("n1")
        (segment,) = (Path(cluster.entry("n1")["data_dir"]) / "raft").glob("*.segment")
        flip_in_the_middle(segment)
        refused = start_alone(cluster, "n1")
        assert refused.returncode == 78
        assert segment.name in refused.stderr
        assert "offset" in refused.stderr
        assert "start the node again" in refused.stderr


def test_a_last_record_cut_short_is_cut_off_and_the_node_starts(loaded: DevCluster) -> None:
    node_id, segments = victim(loaded)
    last = segments[-1]
    # Bytes of a record that never was acknowledged: the write was under way when power went.
    with last.open("ab") as file:
        file.write(b"\x40\x00\x00\x00half a record")
    loaded.start_node(node_id)
    wait_for("the node serves again", lambda: loaded.health(node_id))
    assert loaded.describe(node_id, "w59")["workflow_id"] == "w59"


@pytest.mark.skipif(os.geteuid() != 0, reason="a size-limited file system needs root to mount")
def test_a_full_disk_is_said_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", small], check=True)
    try:
        with dev_cluster(tmp_path / "cluster", nodes=1) as cluster:
            cluster.kill("n1")
            home = Path(cluster.entry("n1")["data_dir"])
            shutil.copytree(home, small / "n1")
            shutil.rmtree(home)
            home.symlink_to(small / "n1")
            cluster.start_node("n1")
            cluster.leader()
            acknowledged = fill(cluster)
            wait_for("the node has ended", lambda: cluster.health("n1") is None)
            said = (cluster.directory / "n1.log").read_text()
            assert "No space left" in said or "ENOSPC" in said or "disk is full" in said, said[
                -3000:
            ]
            subprocess.run(["mount", "-o", "remount,size=200m", small], check=True)
            cluster.start_node("n1")
            cluster.leader()
            for workflow_id in acknowledged:
                assert cluster.describe("n1", workflow_id)["status"] == "WAITING"
    finally:
        subprocess.run(["umount", "-l", small], check=False)


def fill(cluster: DevCluster) -> list[str]:
    """Start runs until the node refuses or dies; return those it acknowledged."""
    cluster.call(
        "n1", "POST", "/api/workflow-types", {"workflow_types": ["Idle"], "worker_id": "t"}
    )
    acknowledged: list[str] = []
    for number in range(400):
        workflow_id = f"full-{number}"
        body = {"type": "Idle", "workflow_id": workflow_id, "input": "x" * 100_000}
        try:
            cluster.call("n1", "POST", "/api/workflows", body, timeout=10)
        except (OSError, HttpError):
            return acknowledged
        acknowledged.append(workflow_id)
    raise AssertionError("the disk never filled up")


def test_a_node_that_lost_its_vote_refuses_and_says_what_to_do(tmp_path: Path) -> None:
    with dev_cluster(tmp_path / "cluster", environment=SMALL_LOG) as cluster:
        load(cluster, 60)
        node_id = cluster.followers()[0]
        wait_for("the log is compacted", lambda: row(cluster, node_id)["first_index"] > 1)
        cluster.kill(node_id)
        home = Path(cluster.entry(node_id)["data_dir"])
        shutil.rmtree(home / "raft")
        refused = start_alone(cluster, node_id)
        assert refused.returncode == 78
        assert "hardstate" in refused.stderr
        assert "Traceback" not in refused.stderr
        assert "raftflow node rebuild" in refused.stderr
        # What it says helps: everything comes back from the others.
        shutil.rmtree(home)
        cluster.start_node(node_id)
        wait_for("it has everything", lambda: listed(cluster, node_id) == 60)
        assert cluster.describe(node_id, "w3")["input"] == "x" * 2_000


def test_a_node_that_lost_its_state_fetches_a_copy(tmp_path: Path) -> None:
    with dev_cluster(tmp_path / "cluster", environment=SMALL_LOG) as cluster:
        load(cluster, 60)
        node_id = cluster.followers()[0]
        wait_for("the log is compacted", lambda: row(cluster, node_id)["first_index"] > 1)
        cluster.kill(node_id)
        for path in Path(cluster.entry(node_id)["data_dir"]).glob("state.db*"):
            path.unlink()
        cluster.start_node(node_id)
        wait_for("it has everything", lambda: listed(cluster, node_id) == 60)
        assert cluster.describe(node_id, "w3")["input"] == "x" * 2_000


def test_an_orderly_stop_writes_its_last_checkpoint(tmp_path: Path) -> None:
    """What the checkpoint makes superfluous in the log is no business of a closed journal."""
    with dev_cluster(tmp_path / "cluster", nodes=1, environment=SMALL_LOG) as cluster:
        load(cluster, 120)
        pid = cluster.entry("n1")["pid"]
        os.kill(pid, signal.SIGTERM)
        wait_for("it has ended", lambda: cluster.entry("n1")["pid"] is None)
        said = (cluster.directory / "n1.log").read_text()
        assert "node_stopped" in said
        assert '"critical"' not in said


SMALL_LOG = {
    "RAFTFLOW_STORAGE_SEGMENT_BYTES": "65536",
    "RAFTFLOW_STORAGE_LOG_TAIL_ENTRIES": "10",
    "RAFTFLOW_STORAGE_CHECKPOINT_INTERVAL_MS": "1000",
}


def load(cluster: DevCluster, count: int) -> None:
    body = {"workflow_types": ["Idle"], "worker_id": "t"}
    cluster.call("n1", "POST", "/api/workflow-types", body)
    for number in range(count):
        body = {"type": "Idle", "workflow_id": f"w{number}", "input": "x" * 2_000}
        cluster.call("n1", "POST", "/api/workflows", body)


def row(cluster: DevCluster, node_id: str) -> dict[str, Any]:
    nodes = cluster.call(node_id, "GET", "/api/cluster")["nodes"]
    return next(each for each in nodes if each["id"] == node_id)


def listed(cluster: DevCluster, node_id: str) -> int:
    try:
        return int(cluster.call(node_id, "GET", "/api/workflows?limit=0")["total"])
    except (OSError, HttpError):
        return 0
