"""A member of ill will on the channel of two real nodes: whatever it asks and tells, each call is
refused or answered, the nodes stay well, and nothing that it sent becomes state."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from dev_cluster import call, wait_for
from hypothesis import given
from hypothesis import strategies as st
from mutations import bent, fuzzed
from shim_cluster import ShimCluster

from raftflow.cluster.consensus import framing
from raftflow.proto.raftflow.internal.v1 import node_pb2

pytestmark = pytest.mark.cluster

METHODS = (
    *("demand", "heartbeat", "clock", "digest", "digest.at", "digest.first", "node.status"),
    *("snapshot.read", "snapshot.done", "propose", "members", "repair.map", "repair.read"),
    *("repair.copy", "no.such.method"),
)
REQUEST, NOTIFY = 1, 4
_HEAD = struct.Struct("<BQH")

CORPUS = [
    node_pb2.Demand().SerializeToString(),
    node_pb2.HeartbeatRequest(workflow_id="w", lease_token="t").SerializeToString(),
    node_pb2.ClockSample(wall_ms=1 << 40).SerializeToString(),
    node_pb2.StateDigest(index=64, digest=bytes(16)).SerializeToString(),
    node_pb2.StateDigests(first=1, digests=bytes(16)).SerializeToString(),
    struct.pack("<QI", 0, 1 << 20) + b"9-2-1",
    b"{}",
    b'{"format": 1, "add": {"id": "n9", "raft": "h:1"}}',
    b"\xff" * 40,
    b"[" * 3_000,
]


class Peer:
    """Connects as n1, which runs nowhere."""

    def __init__(self, cluster: ShimCluster, target: str) -> None:
        host, port = cluster._port(9233, target).split(":")
        self._socket = socket.create_connection((host, int(port)), timeout=5)
        hello = {
            "protocol": 1,
            "cluster_id": "shim",
            "node_id": "n1",
            "incarnation": "11" * 16,
            "boot_id": "22" * 8,
            "feature_level": 2,  # so that no configuration is made of it
            "version": "0.2.0",
            "http": "127.0.0.1:1",
            "grpc": "127.0.0.1:1",
            "raft": cluster._port(9233, "n1"),
            "metrics": "127.0.0.1:1",
            "purpose": "channel",
            "target": target,
        }
        self.send(json.dumps(hello).encode())
        self._reader = framing.FrameReader(max_bytes=64 << 20)
        answer = self.receive()
        assert b"refused" not in answer, answer

    def send(self, payload: bytes) -> None:
        self._socket.sendall(framing.header(payload) + payload)

    def receive(self) -> bytes:
        while True:
            data = self._socket.recv(1 << 16)
            if not data:
                raise ConnectionError("closed")
            for payload in self._reader.feed(data):
                return payload

    def answered(self, number: int) -> None:
        """Wait for what answers this call; pushes of the node go by."""
        while True:
            kind, about, _ = _HEAD.unpack_from(self.receive())
            if about == number and kind in (2, 3):
                return

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShimCluster]:
    made = ShimCluster(tmp_path_factory.mktemp("channel"))
    try:
        for name in ("n2", "n3"):
            made.start(name)
        made.leader()
        yield made
    finally:
        made.stop()


def test_bent_payloads_of_every_method_do_no_harm(cluster: ShimCluster, tmp_path: Path) -> None:
    peers = {name: Peer(cluster, name) for name in ("n2", "n3")}
    counter = iter(range(1, 1 << 40))

    @fuzzed()
    @given(st.sampled_from(METHODS), st.sampled_from(CORPUS) | bent(CORPUS), st.booleans())
    def throw(method: str, payload: bytes, push: bool) -> None:
        for name in peers:
            number = 0 if push else next(counter)
            head = _HEAD.pack(NOTIFY if push else REQUEST, number, len(method))
            try:
                peers[name].send(head + method.encode() + payload)
                if not push and method != "propose":  # waits for its outcome, as long as it takes
                    peers[name].answered(number)
            except ConnectionError:
                peers[name].close()
                peers[name] = Peer(cluster, name)

    throw()
    for peer in peers.values():
        peer.close()
    leader = cluster.leader()
    call(
        cluster.http(leader),
        "POST",
        "/api/workflow-types",
        {"workflow_types": ["Idle"], "worker_id": "t"},
    )
    call(cluster.http("n2"), "POST", "/api/workflows", {"type": "Idle", "workflow_id": "after"})
    wait_for("n3 is as far", lambda: cluster.caught_up("n3"))
    rows = cluster.rows(leader)
    assert {name for name, row in rows.items() if row["applied_index"] is not None} == {"n2", "n3"}
    assert set(rows) == {"n1", "n2", "n3"}, "no member came or went"
    for name in ("n2", "n3"):
        failed = [line for line in cluster.log(name).splitlines() if "peer_handler_failed" in line]
        said = {(told["method"], told["exception"][-300:]) for told in map(json.loads, failed)}
        assert not said
