"""Every port of a cluster that speaks TLS, and what nobody well-meaning sends there: in the clear,
with a foreign certificate, and with one of the cluster's own that is another's."""

from __future__ import annotations

import json
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path

import probes
import pytest
from certs import authority_of, issue
from dev_cluster import DevCluster, call, dev_cluster, wait_for
from peers import hello_of
from probes import Watch

from raftflow.cluster.cli.authority import Authority
from raftflow.cluster.consensus.handshake import Purpose, encode

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

SETTINGS = {"RAFTFLOW_LIMITS_HEAD_TIMEOUT_MS": "3000"}
PORTS = ("http", "grpc", "raft", "metrics")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    directory = tmp_path_factory.mktemp("probes") / "cluster"
    with dev_cluster(directory, environment=SETTINGS, arguments=("--tls",)) as running:
        yield running


@pytest.fixture(scope="module")
def own(cluster: DevCluster) -> Authority:
    return Authority(cluster.directory / "tls")


@pytest.fixture(scope="module")
def before(cluster: DevCluster) -> dict[str, int]:
    return {each: probes.resident_bytes(cluster.entry(each)["pid"]) for each in cluster.ids()}


@pytest.fixture
def watch(cluster: DevCluster, own: Authority, before: dict[str, int]) -> Iterator[Watch]:
    nodes = {each: (cluster.http(each), cluster.entry(each)["pid"]) for each in cluster.ids()}
    with Watch(nodes, before, own.trusted).running() as watching:
        yield watching
    watching.must_be_untouched()


def showing(authority: Authority, name: str) -> ssl.SSLContext:
    """A caller that takes whom it meets for granted, and shows this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(authority.certificate(name), authority.key(name))
    return context


def at(cluster: DevCluster, node: str, port: str) -> str:
    return str(cluster.entry(node)[port])


@pytest.mark.parametrize("port", PORTS)
def test_in_the_clear(cluster: DevCluster, watch: Watch, port: str, tmp_path: Path) -> None:
    trap = tmp_path / "unpickled"
    kinds = {"grpc": probes.grpc_probes, "raft": probes.raft_probes}
    for what, data in kinds.get(port, probes.http_probes)(trap).items():
        watch.doing = f"{what} to {port}"
        answer = probes.send(at(cluster, "n1", port), data, patience=0.1)
        assert b"HTTP/" not in answer, watch.doing
        assert b"n1" not in answer, watch.doing
    assert not trap.exists()


def test_a_foreign_certificate_hears_nothing_on_the_raft_port(
    cluster: DevCluster, watch: Watch, tmp_path: Path
) -> None:
    foreign = authority_of(tmp_path / "foreign", cluster_id(cluster))
    issue(foreign, "n1")
    for what, data in probes.raft_probes(tmp_path / "trap").items():
        watch.doing = f"{what} with a foreign certificate"
        for node in cluster.ids():
            tls = showing(foreign, "n1")
            assert probes.send(at(cluster, node, "raft"), data, patience=0.2, tls=tls) == b""
    assert not (tmp_path / "trap").exists()


def test_one_of_the_clusters_own_certificates_makes_nobody_another_node(
    cluster: DevCluster, watch: Watch, own: Authority, tmp_path: Path
) -> None:
    """A client's, and one of a node that was removed or never was: the hello is that of n1."""
    own.issue("reports", client=True, days=3)
    own.issue("n9", hosts=("127.0.0.1",), days=3)
    hello = hello_of("n1", cluster_id=cluster_id(cluster)).to("n2", Purpose.RAFT)
    before = nodes_seen(cluster, own)
    for name in ("reports", "n9"):
        watch.doing = f"the certificate of {name}"
        said = probes.raft_frame(encode(hello))
        answer = probes.send(at(cluster, "n2", "raft"), said, tls=showing(own, name))
        assert json.loads(answer[8:])["refused"] == "wrong_certificate"
        assert str(cluster.entry("n2")["data_dir"]).encode() not in answer
        for what, data in probes.raft_probes(tmp_path / "trap").items():
            watch.doing = f"{what} with the certificate of {name}"
            probes.send(at(cluster, "n2", "raft"), data, patience=0.2, tls=showing(own, name))
    assert not (tmp_path / "trap").exists()
    assert nodes_seen(cluster, own) == before


@pytest.mark.parametrize("port", PORTS)
def test_200_handshakes_that_go_on_for_ever(
    cluster: DevCluster, watch: Watch, own: Authority, port: str
) -> None:
    """They keep out neither those who mean well nor the nodes themselves, and are sent away."""
    watch.doing = f"200 slow handshakes at {port}"
    hello = client_hello()
    with probes.slow_loris(at(cluster, "n1", port), hello) as callers:
        assert nodes_seen(cluster, own) == dict.fromkeys(cluster.ids(), True)
        for caller in callers:
            caller.settimeout(30.0)
            wait_for("it is sent away", lambda caller=caller: ended(caller), timeout=30.0)


def ended(caller: ssl.SSLSocket) -> bool:
    try:
        return caller.recv(1 << 16) == b""
    except ConnectionError:
        return True


def client_hello() -> bytes:
    """What a caller says first, which is right but for its pace."""
    back, there = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(back, there).do_handshake()
    return there.read()


def cluster_id(cluster: DevCluster) -> str:
    found: str = json.loads((cluster.directory / "dev.json").read_text())["cluster_id"]
    return found


def nodes_seen(cluster: DevCluster, own: Authority) -> dict[str, bool]:
    """By n1: whom it knows, and whether it hears them."""
    state = call(cluster.http("n1"), "GET", "/api/cluster", trusted=own.trusted)
    return {row["id"]: row["connected"] for row in state["nodes"]}
