"""Every port of a real cluster, and what nobody well-meaning sends there. Meanwhile each node
answers that it is well, within two seconds; none grows; and nobody else comes to lead."""

from __future__ import annotations

import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import probes
import pytest
from dev_cluster import DevCluster, HttpError, dev_cluster
from probes import HUGE, MIB, Watch

from raftflow.proto.workflow.v1 import service_pb2 as pb
from raftflow.proto.workflow.v1 import service_pb2_grpc

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

# Short enough to see in a test that the slow are sent away.
SETTINGS = {"RAFTFLOW_LIMITS_HEAD_TIMEOUT_MS": "3000", "RAFTFLOW_LIMITS_BODY_TIMEOUT_MS": "6000"}
JSON_HEAD = b"POST /api/workflows HTTP/1.1\r\nHost: n\r\nContent-Type: application/json\r\n"
PORTS = ("http", "grpc", "raft", "metrics")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    directory = tmp_path_factory.mktemp("probes")
    with dev_cluster(directory / "cluster", environment=SETTINGS) as running:
        running.wait_all_serve()
        yield running


@pytest.fixture(scope="module")
def before(cluster: DevCluster) -> dict[str, int]:
    """What each node has in memory when nobody has sent it anything yet."""
    return {each: probes.resident_bytes(cluster.entry(each)["pid"]) for each in cluster.ids()}


@pytest.fixture
def watch(cluster: DevCluster, before: dict[str, int]) -> Iterator[Watch]:
    nodes = {each: (cluster.http(each), cluster.entry(each)["pid"]) for each in cluster.ids()}
    with Watch(nodes, before).running() as watching:
        yield watching
        for node_id in cluster.ids():
            must_serve(cluster, node_id)
    watching.must_be_untouched()


def must_serve(cluster: DevCluster, node_id: str) -> None:
    """The two other ports that somebody may ask."""
    with grpc.insecure_channel(cluster.grpc(node_id)) as channel:
        stub: Any = service_pb2_grpc.WorkflowServiceStub(channel)
        stub.ListWorkflows(pb.ListWorkflowsRequest(limit=1), timeout=5)
    with urllib.request.urlopen(
        f"http://{address(cluster, node_id, 'metrics')}/metrics", timeout=5
    ) as answer:
        assert b"workflowd_raft_term" in answer.read()


def address(cluster: DevCluster, node_id: str, port: str) -> str:
    return str(cluster.entry(node_id)[port]).removeprefix("http://").partition("/")[0]


def both(cluster: DevCluster) -> tuple[str, str]:
    """The leader and another node."""
    return cluster.leader(), cluster.followers()[0]


@pytest.mark.parametrize("port", PORTS)
def test_nonsense(cluster: DevCluster, watch: Watch, port: str, tmp_path: Path) -> None:
    trap = tmp_path / "unpickled"
    kinds = {"grpc": probes.grpc_probes, "raft": probes.raft_probes}
    sent = kinds.get(port, probes.http_probes)(trap)
    told = [cluster.entry(each)[key] for each in cluster.ids() for key in ("raft", "data_dir")]
    for node_id in both(cluster):
        for what, data in sent.items():
            watch.doing = f"{what} to {port} of {node_id}"
            answer = probes.send(address(cluster, node_id, port), data)
            if port == "http":
                assert_refused(what, answer)
            for secret in (*told, "Traceback", ".py"):
                assert str(secret).encode() not in answer, watch.doing
    assert not trap.exists()


def assert_refused(what: str, answer: bytes) -> None:
    """An answer that there is says in the API's words what is wrong."""
    if answer and what not in ("a flood of calls", "an upgrade"):
        status = int(answer.split(b" ", 2)[1])
        assert 400 <= status < 500, (what, answer[:200])
        assert b'"reason":"' in answer, (what, answer[:200])


BODIES = {
    "http": [
        (JSON_HEAD + b"Content-Length: %d\r\n\r\n" % HUGE, bytes(MIB)),
        (JSON_HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"100000\r\n" + bytes(MIB) + b"\r\n"),
    ],
    "metrics": [
        (b"POST /metrics HTTP/1.1\r\nHost: n\r\nContent-Length: %d\r\n\r\n" % HUGE, bytes(MIB))
    ],
    "raft": [(b"\x00\x00\x00\x04\x00\x00\x00\x00", bytes(MIB)), (b"", bytes(MIB))],
    "grpc": [
        (
            probes._PREFACE
            + probes.frame(4, 0, 0, b"")
            + probes.frame(1, 4, 1, probes.call_headers()),
            probes.frame(0, 0, 1, bytes(16_000)) * 64,
        )
    ],
}


@pytest.mark.parametrize("port", PORTS)
def test_bodies_of_100_megabytes(cluster: DevCluster, watch: Watch, port: str) -> None:
    for node_id in both(cluster):
        for begin, piece in BODIES[port]:
            watch.doing = f"100 MB to {port} of {node_id}"
            probes.pour(address(cluster, node_id, port), begin, piece)


def test_a_message_of_100_megabytes_over_grpc(cluster: DevCluster, watch: Watch) -> None:
    watch.doing = "a message of 100 MB"
    with grpc.insecure_channel(cluster.grpc(cluster.leader())) as channel:
        stub: Any = service_pb2_grpc.WorkflowServiceStub(channel)
        with pytest.raises(grpc.RpcError) as refused:
            stub.StartWorkflow(pb.StartWorkflowRequest(type="Order", input=bytes(HUGE)))
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert f"vs. {8 * MIB}" in refused.value.details()


def test_json_that_is_deep_where_json_is_carried(cluster: DevCluster, watch: Watch) -> None:
    watch.doing = "deep JSON"
    deep = '{"a":' * probes.DEEP
    with grpc.insecure_channel(cluster.grpc(cluster.leader())) as channel:
        stub: Any = service_pb2_grpc.WorkflowServiceStub(channel)
        for memo in (deep, deep + "1" + "}" * probes.DEEP):
            with pytest.raises(grpc.RpcError) as refused:
                stub.StartWorkflow(pb.StartWorkflowRequest(type="Order", memo=memo))
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    memo: Any = 1
    for _ in range(900):  # what the parser still reads, and a deeper one might not
        memo = {"a": memo}
    with pytest.raises(HttpError) as told:
        cluster.call(cluster.ids()[0], "POST", "/api/workflows", {"type": "Order", "memo": memo})
    assert told.value.body["reason"] == "INVALID_FIELD"


BEGUN = {
    "http": b"GET /api/health HTTP/1.1\r\nHost: n\r\nx: " + b"y" * 1_000,
    "metrics": b"GET /metrics HTTP/1.1\r\nHost: n\r\nx: " + b"y" * 1_000,
    "grpc": probes._PREFACE,
    "raft": b"\x00\x10\x00\x00" + bytes(1_000),
}


@pytest.mark.parametrize("port", PORTS)
def test_who_is_slow_is_sent_away(cluster: DevCluster, watch: Watch, port: str) -> None:
    leader, follower = both(cluster)
    watch.doing = f"200 slow sockets at {port}"
    with (
        probes.slow_loris(address(cluster, leader, port), BEGUN[port]) as some,
        probes.slow_loris(address(cluster, follower, port), BEGUN[port]) as others,
    ):
        for node_id in (leader, follower):
            must_serve(cluster, node_id)
        for caller in (*some, *others):
            caller.settimeout(30.0)
            assert ends(caller), "it is still there"


def ends(caller: Any) -> bool:
    try:
        while caller.recv(1 << 16):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


def test_bodies_that_never_end_are_sent_away(cluster: DevCluster, watch: Watch) -> None:
    watch.doing = "200 slow bodies"
    begin = JSON_HEAD + b"Content-Length: 1000\r\n\r\n"
    target = address(cluster, cluster.leader(), "http")
    callers = [probes.connected(target) for _ in range(probes.SOCKETS)]
    for caller in callers:
        caller.sendall(begin)
    for caller in callers:
        caller.settimeout(30.0)
        answer = caller.recv(1 << 16)
        assert b" 408 " in answer
        assert b"limits.body_timeout_ms" in answer
        caller.close()
