"""What `why` says of the log, the leader and the nodes of a real cluster: each cause is brought
about, the answer compared, and the step taken that it names.

One cluster serves all scenes; each leaves it well. Clocks and fsyncs are moved by a shim, and what
needs networks and disks of their own is in test_why_network.py.
"""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from corrupt import damage_entry, records
from dev_cluster import HttpError, call, wait_for
from needs import need
from why_asking import (
    Writers,
    ask,
    becomes_well,
    by_cause,
    by_first,
    by_last,
    causes,
    found_beside,
    missing,
    row,
    told,
    well,
)

from raftflow.cluster.store.records import frame, unframe
from raftflow.proto.raftflow.internal.v1 import state_pb2
from tests.jepsen.hosts.loopback import Loopback

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SETTINGS = {
    "RAFTFLOW_STORAGE_SEGMENT_BYTES": "65536",
    "RAFTFLOW_STORAGE_LOG_TAIL_ENTRIES": "20",
    "RAFTFLOW_STORAGE_CHECKPOINT_INTERVAL_MS": "200",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loopback]:
    need("cc")
    cluster = Loopback(tmp_path_factory.mktemp("why"), 3, settings=SETTINGS)
    try:
        cluster.start_all()
        cluster.wait_serving(120)
        body = {"workflow_types": ["Idle"], "worker_id": "t"}
        call(cluster.http("n1"), "POST", "/api/workflow-types", body)
        yield cluster
    finally:
        cluster.close()


def leader_and_followers(cluster: Loopback) -> tuple[str, list[str]]:
    leader = cluster.leader()
    return leader, [each for each in cluster.ids() if each != leader]


def write(cluster: Loopback, node: str, entries: int) -> None:
    for _ in range(entries):
        body = {"type": "Idle", "input": "x" * 3_000}
        call(cluster.http(node), "POST", "/api/workflows", body)


# ---- all is well --------------------------------------------------------------------------------


def test_a_cluster_that_is_well(cluster: Loopback) -> None:
    leader, followers = leader_and_followers(cluster)
    for node in cluster.ids():
        well(cluster, node, seen_by=followers[0])
    becomes_well(cluster, followers[0], "log")
    [link] = told(cluster, followers[0], "leader", "leader_elected")
    assert link["evidence"]["leader"] == leader
    with pytest.raises(HttpError) as unknown:
        ask(cluster, leader, "node/n9")
    assert unknown.value.status == 404


# ---- nodes that are away ------------------------------------------------------------------------


def test_a_process_that_does_not_run(cluster: Loopback) -> None:
    leader, (node, _) = leader_and_followers(cluster)
    cluster.kill(node)
    seen, reason = told(cluster, leader, f"node/{node}", "node_unreachable", "process_down")
    assert seen["evidence"]["missed_by"] == [each for each in cluster.ids() if each != node]
    assert seen["evidence"]["since"] is not None
    assert reason["evidence"]["address"] == cluster.address(node, "raft")
    assert reason["evidence"]["trouble"] == "connection_refused"
    assert f"start {node}" in reason["next"]
    told(cluster, leader, "log", "node_unreachable", "process_down")
    cluster.start(node)
    well(cluster, node, seen_by=leader)


def test_a_process_that_stands_still(cluster: Loopback) -> None:
    leader, (node, _) = leader_and_followers(cluster)
    cluster.pause(node)
    try:
        told(cluster, leader, f"node/{node}", "node_frozen")

        def frozen() -> dict[str, Any]:
            return told(cluster, leader, f"node/{node}", "node_unreachable", "node_frozen")[1]

        # At first it fell silent; the next call finds that its machine takes connections.
        wait_for("it is sure", lambda: frozen()["evidence"]["trouble"] == "silent")
        assert "kill -CONT" in frozen()["next"]
    finally:
        cluster.resume(node)
    well(cluster, node, seen_by=leader)


def test_no_majority(cluster: Loopback) -> None:
    leader, (frozen, asked) = leader_and_followers(cluster)
    cluster.kill(leader)
    cluster.pause(frozen)
    try:
        told(cluster, asked, "log", "no_leader", "no_quorum", "process_down")
        wait_for(
            "the other one is found silent",
            lambda: (
                [each["cause"] for each in missing(ask(cluster, asked, "leader"))]
                in (["process_down", "node_frozen"], ["node_frozen", "process_down"])
            ),
        )
        seen, quorum, reason = ask(cluster, asked, "leader")["links"]
        assert seen["evidence"]["seen_by"] == asked
        assert seen["evidence"]["since"] is not None
        assert quorum["evidence"]["present"] == [asked]
        assert quorum["evidence"]["majority"] == 2
        by_node = {each["node"]: each for each in quorum["evidence"]["missing"]}
        assert by_node[leader]["cause"] == "process_down"
        assert by_node[frozen]["cause"] == "node_frozen"
        assert all(each["since"] for each in by_node.values())
        assert reason["evidence"]["node"] == leader
    finally:
        cluster.start(leader)  # what `next` says
        wait_for("a leader is there", lambda: ask(cluster, asked, "leader")["links"][0]["cause"])
        cluster.resume(frozen)
    told(cluster, asked, "leader", "leader_elected")
    for node in cluster.ids():
        well(cluster, node, seen_by=asked)


def test_a_leader_that_was_just_elected_since_the_last_one_died(cluster: Loopback) -> None:
    before, (asked, _) = leader_and_followers(cluster)
    cluster.kill(before)
    wait_for("another leads", lambda: cluster.leader() != before)
    seen, reason = told(cluster, asked, "leader", "leader_elected", "process_down")
    assert seen["evidence"]["leader_before"] == before
    assert f"the connection to {before} was lost" in seen["evidence"]["reason"]
    assert reason["evidence"]["node"] == before
    cluster.start(before)
    told(cluster, asked, "leader", "leader_elected")
    well(cluster, before, seen_by=asked)


# ---- late loops, wrong clocks -------------------------------------------------------------------


def test_a_clock_that_is_off(cluster: Loopback) -> None:
    leader, (node, _) = leader_and_followers(cluster)
    cluster.controls[node].set("clock_offset_ns", 5_000_000_000)
    wait_for(
        "its clock is named",
        lambda: found_beside(ask(cluster, leader, f"node/{node}"), "clock_skew"),
    )
    assert 4_500 < row(cluster, leader, node)["clock_skew_ms"] < 5_500
    cluster.controls[node].set("clock_offset_ns", 0)  # as NTP would
    wait_for(
        "it is named no more",
        lambda: not found_beside(ask(cluster, leader, f"node/{node}"), "clock_skew"),
    )


def test_a_loop_that_is_late(cluster: Loopback) -> None:
    leader, (node, _) = leader_and_followers(cluster)
    cluster.pause(node)
    time.sleep(0.6)
    cluster.resume(node)
    link = wait_for(
        "its loop is named",
        lambda: found_beside(ask(cluster, leader, f"node/{node}"), "loop_lag"),
    )
    assert "short of processor" in link["says"]


# ---- the log ------------------------------------------------------------------------------------


def test_a_log_that_is_not_compacted_since_a_checkpoint_is_held_up(cluster: Loopback) -> None:
    leader, (node, _) = leader_and_followers(cluster)
    reader = sqlite3.connect(cluster.data_dir(node) / "state.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT COUNT(*) FROM runs").fetchone()  # it sees the file as it is now
    try:
        write(cluster, leader, 60)
        kept, held = told(cluster, leader, "log", "log_not_compacting", "checkpoint_held_up")
        assert kept["evidence"]["node"] == held["evidence"]["node"] == node
        assert held["evidence"]["checkpoint_age_ms"] > 4_800
        assert held["evidence"]["checkpointed_index"] + 20 < held["evidence"]["applied_index"]
        assert "state.db" in held["next"]
    finally:
        reader.execute("COMMIT")  # what reads it ends
        reader.close()
    becomes_well(cluster, leader, "log")


def test_a_follower_that_was_away_too_long_fetches_a_copy_which_keeps_the_log(
    cluster: Loopback,
) -> None:
    leader, (node, _) = leader_and_followers(cluster)
    cluster.kill(node)
    last = max(record.index for record in records(cluster.data_dir(node) / "raft"))
    with Writers(cluster, leader):
        wait_for(
            "the log that it needs is gone",
            lambda: row(cluster, leader, leader)["first_index"] > last + 1,
        )
    cluster.start(node)
    # As soon as it fetches, its disk takes seconds for what it got.
    wait_for("it fetches", lambda: "snapshot_fetch_started" in cluster.log(node).read_text())
    cluster.controls[node].set("slow_us", 1_500_000)
    try:
        answer = wait_for(
            "the copy is named",
            lambda: by_cause(ask(cluster, leader, f"node/{node}"), "snapshot_under_way"),
        )
    finally:
        cluster.controls[node].set("slow_us", 0)
    evidence = answer["evidence"]
    assert evidence["leader_first_index"] > last
    assert evidence.get("source", leader) == leader
    wait_for("it has caught up", lambda: not behind(cluster, leader, node))


def behind(cluster: Loopback, leader: str, node: str) -> bool:
    return causes(ask(cluster, leader, f"node/{node}"))[0] == "follower_behind"


# ---- damage -------------------------------------------------------------------------------------


def test_a_node_that_repairs_its_log(cluster: Loopback) -> None:
    """n3 has a damaged entry, and waits for n2, which is down, before it does without."""
    write(cluster, "n1", 10)
    cluster.kill(*cluster.ids())
    raft = cluster.data_dir("n3") / "raft"
    damage_entry(raft, sorted({record.index for record in records(raft)})[-4])
    cluster.start("n1")
    cluster.start("n3")
    seen, away = told(cluster, "n1", "node/n3", "node_repairing", "process_down")
    assert seen["evidence"]["wounds"]
    assert away["evidence"]["node"] == "n2"
    told(cluster, "n1", "leader", "no_leader", "no_quorum", "process_down")
    cluster.start("n2")
    cluster.wait_serving(120)
    for node in cluster.ids():
        well(cluster, node)


def test_a_node_that_abstains(cluster: Loopback) -> None:
    """Its log is gone, and nobody leads who could give it back."""
    cluster.kill(*cluster.ids())
    for path in (cluster.data_dir("n3") / "raft").glob("*.segment"):
        path.unlink()
    cluster.start("n1")
    cluster.start("n3")
    _, away = told(cluster, "n1", "node/n3", "node_abstains", "process_down")
    assert away["evidence"]["node"] == "n2"
    links = told(cluster, "n1", "leader", "no_leader", "no_quorum", "process_down")
    by_node = {each["node"]: each for each in links[1]["evidence"]["missing"]}
    assert by_node["n3"]["cause"] == "node_abstains"
    cluster.start("n2")
    cluster.wait_serving(120)
    for node in cluster.ids():
        well(cluster, node)


def test_a_node_whose_state_is_another(cluster: Loopback) -> None:
    body = {"type": "Idle", "workflow_id": "other"}
    call(cluster.http("n1"), "POST", "/api/workflows", body)
    leader, (node, _) = leader_and_followers(cluster)
    wait_for("it has the run", lambda: row(cluster, leader, node)["lag"] == 0)
    cluster.stop(node)
    falsify(cluster.data_dir(node), "other")
    cluster.start(node)
    well(cluster, node, seen_by=leader)
    signal_body = {"name": "go", "payload": "x"}
    call(cluster.http(leader), "POST", "/api/workflows/other/signal", signal_body)
    wait_for("it ends itself", lambda: not cluster.alive(node))
    _, reason = told(cluster, leader, f"node/{node}", "node_unreachable", "digest_divergence")
    assert reason["evidence"]["node"] == node
    assert "raftflow node rebuild" in reason["next"]
    shutil.rmtree(cluster.data_dir(node))  # as `raftflow node rebuild` sets it aside
    cluster.start(node)
    wait_for("it votes again", lambda: row(cluster, leader, node)["member"] == "voter")
    well(cluster, node, seen_by=leader)


def falsify(data_dir: Path, workflow_id: str) -> None:
    """Change one number of the run in a stopped node's store, and its checksum with it."""
    db = sqlite3.connect(data_dir / "state.db")
    with db:
        run_no, record = db.execute(
            "SELECT run_no, record FROM runs WHERE workflow_id = ?", (workflow_id,)
        ).fetchone()
        changed = state_pb2.RunRow.FromString(unframe(record))
        changed.history_bytes += 1
        framed = frame(changed.SerializeToString(deterministic=True))
        db.execute("UPDATE runs SET record = ? WHERE run_no = ?", (framed, run_no))
    db.close()


# ---- who belongs --------------------------------------------------------------------------------


def test_a_learner_that_waits_and_a_node_that_is_no_member(cluster: Loopback) -> None:
    leader, (asked, _) = leader_and_followers(cluster)
    raft = "127.0.0.1:1"
    wait_for("it is added", lambda: posted(cluster, leader, {"id": "n4", "raft": raft}))
    seen, reason = told(cluster, asked, "node/n4", "learner_waits", "process_down")
    assert seen["evidence"]["reason"] == "not_connected"
    assert reason["evidence"]["address"] == raft
    call(cluster.http(leader), "DELETE", "/api/cluster/nodes/n4")
    [link] = told(cluster, leader, "node/n4", "not_a_member")
    assert link["evidence"]["members"] == ["n1", "n2", "n3"]
    assert "raftflow node add n4" in link["next"]


def posted(cluster: Loopback, node: str, body: dict[str, Any]) -> bool:
    """Members can be changed as soon as every disk is recorded."""
    try:
        call(cluster.http(node), "POST", "/api/cluster/nodes", body)
    except HttpError as error:
        if error.body.get("reason") != "MEMBERSHIP_REFUSED":
            raise
        return False
    return True


def test_a_node_that_comes_with_an_old_copy(cluster: Loopback, tmp_path: Path) -> None:
    leader, (node, _) = leader_and_followers(cluster)
    cluster.stop(node)
    shutil.copytree(cluster.data_dir(node), tmp_path / "copy")
    cluster.start(node)
    well(cluster, node, seen_by=leader)
    cluster.stop(node)
    shutil.rmtree(cluster.data_dir(node))
    shutil.copytree(tmp_path / "copy", cluster.data_dir(node))
    cluster.start(node)
    wait_for("it ends itself", lambda: not cluster.alive(node))
    _, reason = told(cluster, leader, f"node/{node}", "node_unreachable", "old_copy")
    assert reason["evidence"]["reason"] == "stale_data"
    shutil.rmtree(cluster.data_dir(node))  # as `raftflow node rebuild` sets it aside
    cluster.start(node)
    wait_for("it votes again", lambda: row(cluster, leader, node)["member"] == "voter")
    well(cluster, node, seen_by=leader)


# ---- slow disks: last, since calls that found no room are told of for a minute -------------------


def test_a_slow_disk_of_a_follower_and_then_of_all(cluster: Loopback) -> None:
    leader, (node, other) = leader_and_followers(cluster)
    with Writers(cluster, leader):
        cluster.controls[node].set("slow_us", 400_000)
        answer = wait_for(
            "its disk is named",
            lambda: by_last(ask(cluster, other, f"node/{node}"), "slow_fsync"),
        )
        assert answer["links"][-1]["evidence"]["node"] == node
        assert answer["links"][-1]["evidence"]["fsync_p99_ms"] >= 400
        for each in (leader, other):
            cluster.controls[each].set("slow_us", 700_000)
        pressed = wait_for(
            "entries wait for their majority",
            lambda: by_first(ask(cluster, other, "log"), "back_pressure", last="slow_fsync"),
        )
        evidence = pressed["links"][0]["evidence"]
        assert evidence["leader"] == cluster.leader()
        assert evidence["oldest_entry_ms"] > 500
    for each in cluster.ids():
        cluster.controls[each].set("slow_us", 0)
    for each in cluster.ids():
        well(cluster, each)
