"""Scenes for `why` that need networks and disks of their own; `test_why_network.py` runs them where
they cannot touch the machine's."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest
from dev_cluster import HttpError, call, wait_for
from why_asking import (
    Writers,
    ask,
    becomes_well,
    by_cause,
    by_first,
    causes,
    found_beside,
    row,
    told,
    well,
)

from tests.jepsen.hosts.disks import FILLER
from tests.jepsen.hosts.netns import Netns

SETTINGS = {
    "RAFTFLOW_STORAGE_SEGMENT_BYTES": "65536",
    "RAFTFLOW_STORAGE_LOG_TAIL_ENTRIES": "20",
    "RAFTFLOW_STORAGE_CHECKPOINT_INTERVAL_MS": "200",
}
MIB = 1 << 20


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Netns]:
    cluster = Netns(tmp_path_factory.mktemp("why"), 3, settings=SETTINGS)
    try:
        cluster.start_all()
        cluster.wait_serving(120)
        body = {"workflow_types": ["Idle"], "worker_id": "t"}
        call(cluster.http("n1"), "POST", "/api/workflow-types", body)
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(autouse=True)
def healed(cluster: Netns) -> Iterator[None]:
    yield
    cluster.network.heal()
    cluster.wait_serving(120)
    for node in cluster.ids():
        well(cluster, node)


def roles(cluster: Netns) -> tuple[str, str, str]:
    leader = cluster.leader()
    one, other = [each for each in cluster.ids() if each != leader]
    return leader, one, other


def test_a_node_that_is_cut_off(cluster: Netns) -> None:
    leader, node, other = roles(cluster)
    cluster.network.cut(cluster.network.across([node], [leader, other]))
    _, reason = told(cluster, leader, f"node/{node}", "node_unreachable", "link_down")
    assert reason["evidence"]["trouble"] == "no_answer"
    assert reason["evidence"]["address"] == cluster.address(node, "raft")
    seen, quorum, down = told(cluster, node, "leader", "no_leader", "no_quorum", "link_down")
    assert seen["evidence"]["seen_by"] == node
    assert quorum["evidence"]["present"] == [node]
    assert down["next"]


def test_a_follower_that_hears_the_others_and_not_the_leader(cluster: Netns) -> None:
    leader, node, other = roles(cluster)
    cluster.network.cut(cluster.network.between(leader, node))

    def seen() -> bool:
        """Once the other two have found each other again, whom the scene before had parted."""
        links = told(cluster, leader, f"node/{node}", "node_unreachable", "link_down")
        evidence = links[0]["evidence"]
        return bool(evidence["missed_by"] == [leader] and evidence["reached_by"] == [other])

    wait_for("the leader alone misses it", seen)
    # It asks for votes, and who hears the leader refuses.
    refused = told(cluster, node, "leader", "no_leader", "votes_refused")[1]
    newest = refused["evidence"]["refused"][-1]
    assert (newest["voter"], newest["candidate"]) == (other, node)
    assert newest["why"] == "hears_leader"


def test_a_slow_way_and_a_copy_that_takes_its_time(cluster: Netns) -> None:
    leader, node, _ = roles(cluster)
    with Writers(cluster, leader):
        cluster.network.shape([(leader, node)], bytes_per_s=40_000)
        answer = wait_for(
            "the slow way is named",
            lambda: slow_way(cluster, leader, node),
            timeout=90,
        )
        assert answer["links"][0]["evidence"]["entries_behind"] > 64
        cluster.network.heal()
        cluster.kill(node)
        committed = row(cluster, leader, leader)["commit_index"]
        wait_for(
            "the log that it needs is gone",
            lambda: row(cluster, leader, leader)["first_index"] > committed + 1,
        )
        cluster.network.shape([(leader, node)], bytes_per_s=150_000)
        cluster.start(node)
        copy = wait_for(
            "the copy is named",
            lambda: under_way(cluster, leader, node),
            timeout=120,
        )
        assert copy["evidence"]["source"] == leader
        assert copy["evidence"]["size_bytes"] > copy["evidence"]["received_bytes"] >= 0
        pinned = wait_for("what keeps the log is named", lambda: pin(cluster, leader), timeout=60)
        assert pinned["evidence"]["readers"] == [node]
        assert pinned["evidence"]["node"] == leader
    cluster.network.heal()
    becomes_well(cluster, leader, "log")


def slow_way(cluster: Netns, leader: str, node: str) -> dict[str, Any] | None:
    """Unless a machine that is busy with other tests has worse reasons."""
    answer = ask(cluster, leader, f"node/{node}")
    return next(
        (
            found
            for last in ("link_slow", "slow_fsync", "loop_lag")
            if (found := by_first(answer, "follower_behind", last=last))
        ),
        None,
    )


def under_way(cluster: Netns, leader: str, node: str) -> dict[str, Any] | None:
    with contextlib.suppress(OSError, HttpError):
        found = by_cause(ask(cluster, leader, f"node/{node}"), "snapshot_under_way")
        return found if found and "source" in found["evidence"] else None
    return None


def pin(cluster: Netns, leader: str) -> dict[str, Any] | None:
    return by_cause(ask(cluster, leader, "log"), "log_pinned")


def test_a_disk_that_fills_up(cluster: Netns) -> None:
    leader, node, _ = roles(cluster)
    filler = cluster.disks[node].mount / FILLER
    time.sleep(5.0)  # a rate is one of five seconds at least
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 1_600 * MIB)
    found = wait_for(
        "its disk is named",
        lambda: full(cluster, leader, node),
    )
    assert found["node"] == node
    assert found["free_bytes"] < 512 * MIB
    assert found["used_bytes"] > 1_500 * MIB
    assert 0 < found["full_in_ms"] < 60 * found["over_ms"]
    filler.unlink()  # what `next` says
    wait_for("it has room", lambda: has_room(full(cluster, leader, node)))
    assert causes(ask(cluster, leader, f"node/{node}"))


def has_room(problem: dict[str, Any] | None) -> bool:
    """What was written in the scene before may still fill it up within hours."""
    return problem is None or problem["free_bytes"] > 1_500 * MIB > problem["used_bytes"]


def full(cluster: Netns, asked: str, node: str) -> dict[str, Any] | None:
    """The evidence, where that is a problem."""
    for subject in ("log", f"node/{node}"):
        link = found_beside(ask(cluster, asked, subject), "disk_nearly_full")
        if link and link.get("severity") == "problem":
            evidence: dict[str, Any] = link["evidence"]
            return evidence
    return None
