"""What nobody well-meaning sends, to every port of a real cluster, in the clear and within TLS.
Meanwhile each node answers that it is well, within two seconds; none grows; nobody else leads.
What is not even TLS, and certificates of others, are in test_tls_probes.py."""

from __future__ import annotations

import ssl
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import probes
import pytest
from certs import authority_of, issue, serve_flags
from dev_cluster import HttpError
from node_processes import Nodes, nodes_in
from probes import HUGE, MIB, Watch

from raftflow.proto.workflow.v1 import service_pb2 as pb
from raftflow.proto.workflow.v1 import service_pb2_grpc

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

THREE = ("n1", "n2", "n3")
SCENES = ("in the clear", "within TLS")
PORTS = ("http", "grpc", "raft", "metrics")
# Short enough to see in a test that the slow are sent away. Three nodes, who sends and who watches
# share the processors of one machine: that alone must not look like a leader that is lost.
FLAGS = (
    *("--limits-head-timeout", "3s", "--limits-body-timeout", "6s"),
    *("--election-min", "2s", "--election-max", "4s"),
)
JSON_HEAD = b"POST /api/workflows HTTP/1.1\r\nHost: n\r\nContent-Type: application/json\r\n"
AT_ONCE = 4
# Of a processor, for all that one test sends: more would be a way to keep a node busy.
MOST_S = 4.0


@dataclass
class Scene:
    """``tls`` None: in the clear. ``before`` is what each node had in memory when nobody had sent
    it anything."""

    nodes: Nodes
    trusted: Path | None
    tls: ssl.SSLContext | None
    before: dict[str, int]

    def address(self, node_id: str, port: str) -> str:
        return str(getattr(self.nodes[node_id], port))

    def both(self) -> tuple[str, str]:
        """The leader and another node."""
        leader = self.nodes.leader()
        return leader, next(each for each in THREE if each != leader)

    def stub(self, channel: grpc.Channel) -> Any:
        return service_pb2_grpc.WorkflowServiceStub(channel)

    def channel(self, node_id: str) -> grpc.Channel:
        target = self.nodes[node_id].grpc
        if self.trusted is None:
            return grpc.insecure_channel(target)
        return grpc.secure_channel(target, grpc.ssl_channel_credentials(self.trusted.read_bytes()))

    def must_serve(self, node_id: str) -> None:
        """The two other ports that somebody may ask. In a flood of calls gRPC cancels some, of
        whomever they are: those are made again."""
        with self.channel(node_id) as channel:
            for again in (True, True, False):
                try:
                    self.stub(channel).ListWorkflows(pb.ListWorkflowsRequest(limit=1), timeout=5)
                    break
                except grpc.RpcError as error:
                    if error.code() is not grpc.StatusCode.CANCELLED or not again:
                        raise
                    time.sleep(1)
        scheme = "https" if self.tls else "http"
        url = f"{scheme}://{self.nodes[node_id].metrics}/metrics"
        with urllib.request.urlopen(url, timeout=5, context=self.tls) as answer:
            assert b"workflowd_raft_term" in answer.read()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Who has no certificate does not get as far as to send something to the Raft port."""
    if "port" in metafunc.fixturenames:
        pairs = [(how, port) for how in SCENES for port in PORTS]
        pairs.remove(("within TLS", "raft"))
        metafunc.parametrize(("scene", "port"), pairs, indirect=["scene"], scope="module")
    elif "scene" in metafunc.fixturenames:
        metafunc.parametrize("scene", SCENES, indirect=True, scope="module")


@pytest.fixture(scope="module")
def scene(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    directory = tmp_path_factory.mktemp("probes")
    trusted, tls, more = None, None, dict.fromkeys(THREE, FLAGS)
    with nodes_in(directory) as nodes:
        if request.param == "within TLS":
            authority = authority_of(directory / "certs", "probed")
            issue(authority, *THREE)
            trusted = authority.trusted
            tls = ssl.create_default_context(cafile=trusted)
            for each in THREE:
                nodes[each].trusted = trusted
                more[each] = (*FLAGS, "--cluster-id", "probed", *serve_flags(authority, each))
        for each in THREE:
            nodes[each].start("--peers", nodes.peers(*THREE), *more[each])
        nodes.wait_settled(*THREE)
        before = {each: probes.resident_bytes(pid_of(nodes, each)) for each in THREE}
        yield Scene(nodes, trusted, tls, before)


def pid_of(nodes: Nodes, node_id: str) -> int:
    process = nodes[node_id].process
    assert process is not None
    return process.pid


@pytest.fixture
def watch(scene: Scene) -> Iterator[Watch]:
    nodes = {each: (scene.nodes[each].http, pid_of(scene.nodes, each)) for each in THREE}
    spent = {each: probes.processor_s(pid) for each, (_, pid) in nodes.items()}
    with Watch(nodes, scene.before, scene.trusted).running() as watching:
        yield watching
        for node_id in THREE:
            scene.must_serve(node_id)
    watching.must_be_untouched()
    for node_id, (_, pid) in nodes.items():
        took_s = probes.processor_s(pid) - spent[node_id]
        assert took_s < MOST_S, f"{watching.doing}: {took_s:.1f} s of {node_id}'s processor"


def test_nonsense(scene: Scene, watch: Watch, port: str, tmp_path: Path) -> None:
    trap = tmp_path / "unpickled"
    kinds = {"grpc": probes.grpc_probes, "raft": probes.raft_probes}
    sent = kinds.get(port, probes.http_probes)(trap)
    secrets = [getattr(scene.nodes[each], key) for each in THREE for key in ("raft", "directory")]
    watch.doing = f"nonsense to {port}"

    def probe(what: str, node_id: str) -> None:
        answer = probes.send(scene.address(node_id, port), sent[what], tls=scene.tls)
        if port == "http":
            assert_refused(what, answer)
        for secret in (*secrets, "probed", "Traceback", ".py"):
            assert str(secret).encode() not in answer, (what, answer[:500])

    with ThreadPoolExecutor(AT_ONCE) as pool:
        probing = [pool.submit(probe, what, node_id) for node_id in scene.both() for what in sent]
    for each in probing:
        each.result()
    assert not trap.exists()


def assert_refused(what: str, answer: bytes) -> None:
    """An answer that there is says in the API's words what is wrong."""
    if answer and what not in ("a flood of calls", "an upgrade"):
        status = int(answer.split(b" ", 2)[1])
        assert 400 <= status < 500, (what, answer[:200])
        assert b'"reason":"' in answer, (what, answer[:200])


_CALL = probes.call_begun()
BODIES = {
    "http": [
        (JSON_HEAD + b"Content-Length: %d\r\n\r\n" % HUGE, bytes(MIB)),
        (JSON_HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"100000\r\n" + bytes(MIB) + b"\r\n"),
    ],
    "metrics": [
        (b"POST /metrics HTTP/1.1\r\nHost: n\r\nContent-Length: %d\r\n\r\n" % HUGE, bytes(MIB))
    ],
    "raft": [(b"\x00\x00\x00\x04\x00\x00\x00\x00", bytes(MIB)), (b"", bytes(MIB))],
    "grpc": [(_CALL, probes.data_frames(MIB)), (_CALL + probes.message_begun(HUGE), bytes(MIB))],
}


def test_bodies_of_100_megabytes(scene: Scene, watch: Watch, port: str) -> None:
    for node_id in scene.both():
        for begin, piece in BODIES[port]:
            watch.doing = f"100 MB to {port} of {node_id}"
            probes.pour(scene.address(node_id, port), begin, piece, tls=scene.tls)


def test_a_message_of_100_megabytes_over_grpc(scene: Scene, watch: Watch) -> None:
    watch.doing = "a message of 100 MB"
    with scene.channel(scene.nodes.leader()) as channel:
        request = pb.StartWorkflowRequest(type="Order", input=bytes(HUGE))
        with pytest.raises(grpc.RpcError) as refused:
            scene.stub(channel).StartWorkflow(request)
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert f"vs. {8 * MIB}" in refused.value.details()


def test_json_that_is_deep_where_json_is_carried(scene: Scene, watch: Watch) -> None:
    watch.doing = "deep JSON"
    deep = '{"a":' * probes.DEEP
    with scene.channel(scene.nodes.leader()) as channel:
        for memo in (deep, deep + "1" + "}" * probes.DEEP):
            with pytest.raises(grpc.RpcError) as refused:
                scene.stub(channel).StartWorkflow(pb.StartWorkflowRequest(type="Order", memo=memo))
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    nested: Any = 1
    for _ in range(900):  # what the parser still reads, and might not where it stands deeper
        nested = {"a": nested}
    with pytest.raises(HttpError) as told:
        scene.nodes["n1"].call("POST", "/api/workflows", {"type": "Order", "memo": nested})
    assert told.value.body["reason"] == "INVALID_FIELD"


BEGUN = {
    "http": b"GET /api/health HTTP/1.1\r\nHost: n\r\nx: " + b"y" * 1_000,
    "metrics": b"GET /metrics HTTP/1.1\r\nHost: n\r\nx: " + b"y" * 1_000,
    "grpc": probes.PREFACE,
    "raft": b"\x00\x10\x00\x00" + bytes(1_000),
}


def test_who_is_slow_is_sent_away(scene: Scene, watch: Watch, port: str) -> None:
    leader, follower = scene.both()
    watch.doing = f"200 slow sockets at {port}"
    with (
        probes.slow_loris(scene.address(leader, port), BEGUN[port], scene.tls) as some,
        probes.slow_loris(scene.address(follower, port), BEGUN[port], scene.tls) as others,
    ):
        for node_id in (leader, follower):
            scene.must_serve(node_id)
        for caller in (*some, *others):
            caller.settimeout(30.0)
            assert ends(caller), "it is still there"


def ends(caller: Any) -> bool:
    try:
        while caller.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    except OSError:  # a reset, or an end in the middle of what TLS was saying
        return True
    return True


def test_bodies_that_never_end_are_sent_away(scene: Scene, watch: Watch) -> None:
    watch.doing = "200 slow bodies"
    begin = JSON_HEAD + b"Content-Length: 1000\r\n\r\n"
    target = scene.address(scene.nodes.leader(), "http")
    callers = []
    for _ in range(probes.SOCKETS):
        callers.append(probes.connected(target, tls=scene.tls))
        callers[-1].sendall(begin)
    for caller in callers:
        caller.settimeout(30.0)
        answer = caller.recv(1 << 16)
        assert b" 408 " in answer
        assert b"limits.body_timeout_ms" in answer
        caller.close()
