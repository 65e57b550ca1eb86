"""The client: every verb takes effect once, whatever happens on the way."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from faulty_node import Node
from sdk_cluster import FakeCluster

from raftflow_sdk import AlreadyExists, Client, NotFound, RunFailed


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def node(cluster: FakeCluster) -> Iterator[Node]:
    with Node(cluster) as node:
        yield node


@pytest.fixture
def client(node: Node) -> Client:
    return Client([node.address])


def sent(cluster: FakeCluster, verb: str = "POST") -> list[Any]:
    return [body for method, _, body in cluster.calls if method == verb]


def test_start_sends_what_is_given_and_no_more(
    cluster: FakeCluster, client: Client, node: Node
) -> None:
    client.start("Order")
    client.start(
        "Order",
        workflow_id="order-1",
        input={"n": 1},
        execution_timeout=1.5,
        id_reuse_policy="ALLOW_DUPLICATE",
        id_conflict_policy="USE_EXISTING",
        task_queue="slow",
        search_attributes={"customer": "c-7", "vip": True},
        memo={"note": ["a"]},
        traceparent="00-a-b-01",
        request_id="mine",
    )
    assert node.headers["traceparent"] == "00-a-b-01"
    assert "tracestate" not in node.headers
    bare, full = sent(cluster)
    assert set(bare) == {"type", "request_id"}
    assert full == {
        "type": "Order",
        "workflow_id": "order-1",
        "input": '{"n":1}',
        "execution_timeout_ms": 1500,
        "id_reuse_policy": "ALLOW_DUPLICATE",
        "id_conflict_policy": "USE_EXISTING",
        "task_queue": "slow",
        "search_attributes": {"customer": "c-7", "vip": True},
        "memo": {"note": ["a"]},
        "request_id": "mine",
    }


def test_signal_with_start_carries_the_signal(cluster: FakeCluster, client: Client) -> None:
    client.signal_with_start("Order", "order-1", "approved", b"\xff", input="tea", request_id="r")
    assert sent(cluster) == [
        {
            "type": "Order",
            "workflow_id": "order-1",
            "input": "tea",
            "signal": {"name": "approved", "payload_base64": "/w=="},
            "request_id": "r",
        }
    ]


def test_a_start_whose_answer_was_lost_starts_once(
    cluster: FakeCluster, node: Node, client: Client
) -> None:
    """Without an id of our own the request id alone makes the retry safe."""
    node.faults.append(("/api/workflows", "reset after"))
    started = client.start("Order")
    assert list(cluster.runs) == [started.workflow_id]
    first, again = sent(cluster)
    assert first == again


def test_an_id_in_use_names_its_holder(client: Client) -> None:
    holder = client.start("Order", workflow_id="order-1")
    with pytest.raises(AlreadyExists) as caught:
        client.start("Order", workflow_id="order-1")
    assert caught.value.run_id == holder.run_id


def test_a_signal_whose_answer_was_lost_arrives_once(
    cluster: FakeCluster, node: Node, client: Client
) -> None:
    run = cluster.start("Order", "a/b ü")
    node.faults.extend([("/api/workflows/", "reset after"), ("/api/workflows/", "half")])
    client.signal("a/b ü", "approved", b"\xff")
    assert run.signals == [{"name": "approved", "payload_base64": "/w=="}]


@pytest.mark.parametrize("verb", ["cancel", "terminate"])
def test_a_run_is_ended_with_a_reason(cluster: FakeCluster, client: Client, verb: str) -> None:
    run = cluster.start("Order", "w")
    getattr(client, verb)("w", "by hand")
    assert run.status == {"cancel": "CANCELLED", "terminate": "TERMINATED"}[verb]
    (body,) = sent(cluster)
    assert body["reason"] == "by hand"
    assert body["request_id"]


def test_a_graceful_cancel_says_so(cluster: FakeCluster, client: Client) -> None:
    run = cluster.start("Order", "w")
    client.cancel("w", "flu", graceful=True, run_id=run.run_id, request_id="r")
    assert sent(cluster) == [
        {"reason": "flu", "run_id": run.run_id, "graceful": True, "request_id": "r"}
    ]


def test_a_list_filters_by_attributes(cluster: FakeCluster, client: Client) -> None:
    found = client.list(attributes={"name": "x y", "vip": True, "n": 2.5}, status="WAITING")
    assert found["query"] == {
        "attr.name": "x y",
        "attr.vip": "true",
        "attr.n": "2.5",
        "status": "WAITING",
    }


def test_every_request_has_an_id_of_its_own(cluster: FakeCluster, client: Client) -> None:
    cluster.start("Order", "w")
    client.signal("w", "a")
    client.signal("w", "a")
    first, second = sent(cluster)
    assert first["request_id"] != second["request_id"]


def test_reads(cluster: FakeCluster, client: Client) -> None:
    run = cluster.start("Order", "w")
    assert client.describe("w")["status"] == "WAITING"
    assert client.runs("w") == [{"run_id": run.run_id, "status": "WAITING"}]
    run.status = "COMPLETED"
    assert client.history("w") == {"events": []}
    run.status = "WAITING"
    assert client.list(status="WAITING", limit=5)["query"] == {"status": "WAITING", "limit": "5"}
    assert client.health() == {"status": "ok"}
    with pytest.raises(NotFound, match="does not exist"):
        client.describe("nobody")


def test_result_waits_for_the_end(cluster: FakeCluster, client: Client) -> None:
    run = cluster.start("Order", "w")

    def finish() -> None:
        run.closing = {"output": "[1]"}
        run.status = "COMPLETED"

    timer = threading.Timer(0.1, finish)
    timer.start()
    assert client.result("w", decode="json") == [1]
    timer.join()
    # One long poll and one look, however long it takes.
    assert [path for _, path, _ in cluster.calls] == [
        "/api/workflows/w/history",
        "/api/workflows/w",
    ]


def test_result_says_how_else_it_ended(cluster: FakeCluster, client: Client) -> None:
    run = cluster.start("Order", "w")
    run.status, run.closing = "FAILED", {"error": "charge failed"}
    with pytest.raises(RunFailed, match="ended FAILED: charge failed") as caught:
        client.result("w")
    assert caught.value.status == "FAILED"


def test_result_does_not_wait_longer_than_asked(cluster: FakeCluster, client: Client) -> None:
    cluster.start("Order", "w")
    began = time.monotonic()
    with pytest.raises(TimeoutError, match="WAITING"):
        client.result("w", wait=0.1)
    assert time.monotonic() - began < 1.0


def test_result_follows_a_chain_unless_one_run_is_asked_for(
    cluster: FakeCluster, client: Client
) -> None:
    run = cluster.start("Order", "w")
    run.status = "CONTINUED_AS_NEW"
    with pytest.raises(RunFailed, match="CONTINUED_AS_NEW"):
        client.result("w", run_id=run.run_id)
    with pytest.raises(TimeoutError):
        client.result("w", wait=0.05)
