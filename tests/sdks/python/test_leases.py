"""Heartbeats: often enough, for every lease, and honest about what is lost."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from faulty_node import Node
from sdk_cluster import FakeCluster, Refused

from raftflow_sdk.activity import ActivityInfo
from raftflow_sdk.connection import Connection
from raftflow_sdk.leases import Heartbeats, Lease


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def node(cluster: FakeCluster) -> Iterator[Node]:
    with Node(cluster) as node:
        yield node


@pytest.fixture
def heartbeats(node: Node) -> Iterator[Heartbeats]:
    heartbeats = Heartbeats(Connection([node.address]), "worker-1")
    heartbeats.start()
    yield heartbeats
    heartbeats.stop()


def lease(cluster: FakeCluster, heartbeats: Heartbeats, token: str, ms: int = 300) -> Lease:
    task: dict[str, Any] = {
        "workflow_id": "w",
        "run_id": "r",
        "step_name": "work",
        "sequence": 1,
        "attempt": 2,
        "lease_token": token,
        "lease_duration_ms": ms,
        "heartbeat_details": "half way",
    }
    cluster.leases[token] = (cluster.start("Order", "w"), {})
    return Lease(task, ActivityInfo(task, heartbeats.hasten))


@pytest.mark.slow
def test_a_lease_is_renewed_for_as_long_as_it_is_held(
    cluster: FakeCluster, heartbeats: Heartbeats
) -> None:
    held = lease(cluster, heartbeats, "a")
    with heartbeats.holding(held):
        cluster.wait(lambda: len(cluster.heartbeats) >= 3)
        assert held.remaining() > 0
        assert not held.info.lease_lost.is_set()
    assert cluster.heartbeats[0] == {
        "workflow_id": "w",
        "lease_token": "a",
        "worker_id": "worker-1",
    }


def test_every_lease_is_renewed(cluster: FakeCluster, heartbeats: Heartbeats) -> None:
    leases = [lease(cluster, heartbeats, f"t{n}") for n in range(8)]
    tokens = {f"t{n}" for n in range(8)}
    with ExitStack() as stack:
        for each in leases:
            stack.enter_context(heartbeats.holding(each))
        cluster.wait(lambda: {beat["lease_token"] for beat in cluster.heartbeats} == tokens)


def test_details_go_out_with_the_next_beat_only(
    cluster: FakeCluster, heartbeats: Heartbeats
) -> None:
    held = lease(cluster, heartbeats, "a")
    assert (held.info.attempt, held.info.heartbeat_details) == (2, b"half way")
    with heartbeats.holding(held):
        held.info.heartbeat({"done": 3})
        cluster.wait(lambda: len(cluster.heartbeats) >= 2)
    assert cluster.heartbeats[0]["details"] == '{"done":3}'
    assert "details" not in cluster.heartbeats[1]


@pytest.mark.slow
def test_details_hasten_the_beat_of_a_long_lease(
    cluster: FakeCluster, heartbeats: Heartbeats
) -> None:
    held = lease(cluster, heartbeats, "a", ms=60_000)
    with heartbeats.holding(held):
        held.info.heartbeat("progress")
        cluster.wait(lambda: bool(cluster.heartbeats), timeout=5)


@pytest.mark.slow
def test_details_that_did_not_arrive_are_sent_again(
    cluster: FakeCluster, node: Node, heartbeats: Heartbeats
) -> None:
    node.faults.extend([("/api/activity-tasks/heartbeat", "503")] * 2)
    held = lease(cluster, heartbeats, "a", ms=600)
    with heartbeats.holding(held):
        held.info.heartbeat("progress")
        cluster.wait(lambda: bool(cluster.heartbeats))
    assert cluster.heartbeats[0]["details"] == "progress"


@pytest.mark.parametrize("cancelled", [True, False])
def test_a_refused_heartbeat_is_a_lost_lease(
    cluster: FakeCluster, heartbeats: Heartbeats, cancelled: bool
) -> None:
    refusal = Refused(409, "lease lost", reason="LEASE_LOST", cancelled=cancelled)
    cluster.refusals.append(("/api/activity-tasks/heartbeat", refusal))
    held = lease(cluster, heartbeats, "a")
    with heartbeats.holding(held):
        assert held.info.lease_lost.wait(5)
    assert held.info.cancelled.is_set() is cancelled
    assert held.remaining() == 0


@pytest.mark.parametrize(
    ("ms", "others", "seconds"),
    [
        pytest.param(30_000, 0, 3.0, id="a tenth of the lease"),
        pytest.param(30_000, 49, 5.0, id="ten beats a second in all"),
        pytest.param(30_000, 199, 10.0, id="but at least thrice in a lease"),
        pytest.param(6_000, 0, 1.0, id="not more often than once a second"),
        pytest.param(300, 0, 0.1, id="unless the lease is shorter than three"),
    ],
)
def test_code_hears_sooner_than_the_lease_needs(
    cluster: FakeCluster, ms: int, others: int, seconds: float
) -> None:
    heartbeats = Heartbeats(Connection(["127.0.0.1:1"]), "worker-1")  # it never starts
    held = lease(cluster, heartbeats, "a", ms=ms)
    with ExitStack() as stack:
        for number in range(others):
            stack.enter_context(heartbeats.holding(lease(cluster, heartbeats, f"t{number}")))
        with heartbeats.holding(held):
            assert held.due - held.beat_at == pytest.approx(seconds)


def test_who_stops_asks_at_once_whether_the_work_is_wanted(
    cluster: FakeCluster, heartbeats: Heartbeats
) -> None:
    refusal = Refused(409, "lease lost", reason="LEASE_LOST", cancelled=True)
    cluster.refusals.append(("/api/activity-tasks/heartbeat", refusal))
    held = lease(cluster, heartbeats, "a", ms=600_000)
    with heartbeats.holding(held):
        heartbeats.hurry()
        assert held.info.cancelled.wait(5)


@pytest.mark.slow
def test_an_unreachable_cluster_is_a_lost_lease_in_the_end(
    cluster: FakeCluster, node: Node, heartbeats: Heartbeats
) -> None:
    node.fault_always = "reset"
    held = lease(cluster, heartbeats, "a")
    began = time.monotonic()
    with heartbeats.holding(held):
        assert held.info.lease_lost.wait(5)
    assert time.monotonic() - began >= 0.3
    assert not held.info.cancelled.is_set()


def test_a_refusal_that_says_nothing_of_the_lease_is_logged(
    cluster: FakeCluster, heartbeats: Heartbeats, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.refusals.append(("/api/activity-tasks/heartbeat", Refused(401, "bad token")))
    held = lease(cluster, heartbeats, "a")
    with heartbeats.holding(held):
        cluster.wait(lambda: bool(cluster.heartbeats))
    assert not held.info.lease_lost.is_set()
    assert "bad token" in caplog.text


def test_heartbeats_end_when_stopped(node: Node) -> None:
    before = threading.active_count()
    heartbeats = Heartbeats(Connection([node.address]), "worker-1")
    heartbeats.start()
    heartbeats.stop()
    assert threading.active_count() == before
