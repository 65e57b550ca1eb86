"""Nodes of real processes that speak TLS on every port, with certificates of a cluster's own."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from certs import authority_of, issue, issue_expired
from dev_cluster import PROGRAM, dev_cluster, wait_for
from node_processes import Load, Nodes, Process, nodes_in

from raftflow.cluster.cli.authority import Authority
from raftflow.proto.workflow.v1 import service_pb2 as pb
from raftflow.proto.workflow.v1 import service_pb2_grpc
from raftflow_sdk import Client, Worker

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

THREE = ("n1", "n2", "n3")
ROOT = "a-token-of-the-operators-own"
GUIDE = Path(__file__).parents[2] / "docs" / "security.md"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    made = authority_of(tmp_path / "certs", "shop")
    issue(made, *THREE)
    return made


@pytest.fixture
def nodes(tmp_path: Path, authority: Authority) -> Iterator[Nodes]:
    with nodes_in(tmp_path) as found:
        for each in THREE:
            give(authority, found[each])
            found[each].trusted = files_of(found[each]) / "ca.crt"
        yield found


def files_of(node: Process) -> Path:
    return node.directory / "tls"


def give(authority: Authority, node: Process, *, name: str = "") -> None:
    """Copy to the node what it needs, as an operator does: file by file, each in one step."""
    name = name or node.id
    files_of(node).mkdir(parents=True, exist_ok=True)
    for source, target in (
        (authority.trusted, "ca.crt"),
        (authority.certificate(name), "node.crt"),
        (authority.key(name), "node.key"),
    ):
        put(source, files_of(node) / target)


def put(source: Path, target: Path) -> None:
    copy = target.with_name(f".{target.name}.new")
    shutil.copyfile(source, copy)
    copy.replace(target)


def flags(node: Process) -> tuple[str, ...]:
    """The settings of the guide, with the files where this node has them."""
    command = next(
        block for block in re.findall(r"```\n(raftflow serve.*?)```", GUIDE.read_text(), re.S)
    )
    words = command.replace("\\\n", " ").split()
    pairs = zip(words[2::2], words[3::2], strict=True)
    kept = {flag: value for flag, value in pairs if re.match("--(tls|peer|cluster)-", flag)}
    assert len(kept) == 6
    return tuple(
        word.replace("/etc/raftflow/n1.", f"{files_of(node)}/node.").replace(
            "/etc/raftflow", str(files_of(node))
        )
        for pair in kept.items()
        for word in pair
    )


def start(nodes: Nodes, *names: str) -> None:
    for each in names:
        nodes[each].start("--peers", nodes.peers(*THREE), *flags(nodes[each]))


def logged(node: Process, event: str) -> list[dict[str, Any]]:
    lines = node.log.read_text(errors="replace").splitlines()
    found = (json.loads(line) for line in lines if line.startswith("{"))
    return [each for each in found if each.get("event") == event]


def hurry(node: Process) -> None:
    assert node.process is not None
    node.process.send_signal(signal.SIGHUP)


def metrics(node: Process) -> dict[str, float]:
    context = ssl.create_default_context(cafile=node.trusted)
    request = urllib.request.Request(
        f"https://{node.metrics}/metrics", headers={"Authorization": f"Bearer {node.token}"}
    )
    with urllib.request.urlopen(request, timeout=5, context=context) as response:
        lines = response.read().decode().splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in pairs}


def shown_at(address: str, authority: Authority) -> bytes:
    """The certificate that a port shows."""
    context = ssl.create_default_context(cafile=authority.trusted)
    plain = socket.create_connection(address_of(address), timeout=5)
    with context.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
        found = connection.getpeercert(binary_form=True)
    assert found
    return found


def test_who_does_not_belong_is_not_heard_until_it_does(
    nodes: Nodes, authority: Authority, tmp_path: Path
) -> None:
    """n3 comes with the certificate of a foreign authority, with one that is over, and with that of
    another node. With its own at last it joins, in the process that had the wrong one."""
    foreign = authority_of(tmp_path / "foreign", "shop")
    issue(foreign, "n3")
    start(nodes, "n1", "n2")
    third = nodes["n3"]
    wait_for("two of three serve", lambda: nodes["n1"].is_ready() and nodes["n2"].is_ready())

    give(foreign, third)
    start(nodes, "n3")
    wait_for("n1 does not trust it", lambda: dial_failures(nodes["n1"]))
    wait_for("it hears that n1 hung up", lambda: logged(third, "tls_abandoned"))
    assert state_at(nodes["n1"])["n3"]["connected"] is False

    give(authority, third)
    hurry(third)
    nodes.wait_settled(*THREE)
    assert loaded(third)

    third.stop()
    issue_expired(authority, "n3")
    give(authority, third)
    start(nodes, "n3")
    wait_for("it says so", lambda: logged(third, "certificate_expired"))
    wait_for(
        "the others refuse it",
        lambda: [
            each
            for each in logged(nodes["n1"], "dial_failed") + logged(nodes["n1"], "tls_refused")
            if "expired" in str(each)
        ],
    )
    issue(authority, "n3")
    give(authority, third)
    nodes.wait_settled(*THREE)  # without a signal: it looks by itself

    third.stop()
    give(authority, third, name="n2")
    start(nodes, "n3")
    status, last = third.ended()
    assert status == 78
    assert "must name raftflow:shop/n3, but names raftflow:shop/n2" in last
    assert nodes["n1"].is_ready()


def dial_failures(node: Process) -> list[dict[str, Any]]:
    return [each for each in logged(node, "dial_failed") if "CERTIFICATE" in str(each["error"])]


def state_at(node: Process) -> dict[str, Any]:
    return {row["id"]: row for row in node.call("GET", "/api/cluster")["nodes"]}


class GrpcLoad:
    """Calls over one channel that is kept, and over a new one each time."""

    def __init__(self, nodes: Nodes) -> None:
        self._node = nodes["n2"]
        self._metadata = (("authorization", f"Bearer {self._node.token}"),)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.done = 0
        self.failed: list[str] = []

    def __enter__(self) -> GrpcLoad:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(30)

    def _channel(self) -> grpc.Channel:
        assert self._node.trusted is not None
        credentials = grpc.ssl_channel_credentials(self._node.trusted.read_bytes())
        options = [("grpc.use_local_subchannel_pool", 1)]
        return grpc.secure_channel(self._node.grpc, credentials, options=options)

    def _run(self) -> None:
        kept = self._channel()
        while not self._stopping.is_set():
            fresh = self._channel()
            for channel in (kept, fresh):
                stub: Any = service_pb2_grpc.WorkflowServiceStub(channel)
                try:
                    request = pb.ListWorkflowsRequest(limit=1)
                    stub.ListWorkflows(request, timeout=10, metadata=self._metadata)
                    self.done += 1
                except grpc.RpcError as error:
                    self.failed.append(str(error))
            fresh.close()
            time.sleep(0.05)
        kept.close()


def test_certificates_are_rotated_and_tokens_minted_under_load_without_a_failed_call(
    nodes: Nodes, authority: Authority, tmp_path: Path
) -> None:
    """Authority, certificates and keys are all others in the end, and nobody noticed."""
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{ROOT} name=root\n")
    for each in THREE:
        nodes[each].token = ROOT
        flagged = (*flags(nodes[each]), "--auth-token-file", str(tokens))
        nodes[each].start("--peers", nodes.peers(*THREE), *flagged)
    nodes.wait_settled(*THREE)
    before = nodes.state()
    assert before is not None
    trusted = nodes["n1"].trusted
    addresses = [nodes[each].address for each in THREE]
    worker = Worker(addresses, ca_file=trusted, token=ROOT)

    @worker.workflow("Echo")
    def echo(ctx: Any) -> Any:
        return ctx.activity("say", ctx.input)

    @worker.activity("say")
    def say(text: str) -> str:
        return text

    def works_with_a_new_token() -> None:
        for each in THREE:
            body = {"name": f"at-{each}", "role": "user", "sees_payloads": True}
            minted = nodes[each].call("POST", "/api/tokens", body)["token"]
            client = Client(addresses, ca_file=trusted, token=minted)
            started = client.start("Echo", input="hello")
            assert client.result(started.workflow_id, wait=60) == "hello"

    with worker, Load(nodes) as load, GrpcLoad(nodes) as calls:
        rotate(nodes, authority, works_with_a_new_token)
        at = len(load.acknowledged)
        wait_for("the load goes on", lambda: len(load.acknowledged) > at + 5)
    assert load.failed == [], nodes.logs()
    assert calls.failed == []
    assert calls.done > 10
    after = nodes.state()
    assert after is not None
    assert (after["term"], after["leader"]) == (before["term"], before["leader"])
    for each in THREE:
        left = metrics(nodes[each])
        assert left['workflowd_certificate_expiry_seconds{use="peer_ca"}'] > 35 * 86400
        assert not logged(nodes[each], "link_closed")
    print(f"slowest call {load.slowest_s:.2f} s of {len(load.acknowledged)} and {calls.done}")


def rotate(nodes: Nodes, authority: Authority, between: Callable[[], None]) -> None:
    """The three steps of `raftflow cert rotate`, each finished everywhere before the next one."""

    def everywhere(what: str, done: Callable[[Process], object] | None = None) -> None:
        loads = {each: len(loaded(nodes[each])) for each in THREE}
        for each in THREE:
            give(authority, nodes[each])
            hurry(nodes[each])
        for each in THREE:
            node = nodes[each]
            wait_for(f"{each} {what}", lambda node=node: len(loaded(node)) > loads[node.id])
            if done is not None:
                wait_for(f"{each} {what}", lambda node=node: done(node))
        between()

    authority.succeed(days=40)
    everywhere("trusts both")
    for each in THREE:
        authority.renew(each, days=30)
    everywhere(
        "shows the new one",
        lambda node: all(
            shown_at(at, authority) == der(authority, node.id) for at in (node.http, node.metrics)
        ),
    )
    assert authority.drop_old() == []
    everywhere("trusts one")


def loaded(node: Process) -> list[dict[str, Any]]:
    return [each for each in logged(node, "certificate_loaded") if each["use"] == "peer"]


def der(authority: Authority, name: str) -> bytes:
    return ssl.PEM_cert_to_DER_cert(authority.certificate(name).read_text())


def test_a_running_cluster_gets_tls_node_by_node_without_a_failed_call(
    nodes: Nodes, authority: Authority
) -> None:
    """The two rounds of restarts that the guide tells of."""
    for each in THREE:
        nodes[each].trusted = None
        nodes[each].start("--peers", nodes.peers(*THREE), "--cluster-id", "shop")
    nodes.wait_settled(*THREE)
    with Load(nodes) as load:
        for optional in (("--peer-tls", "optional"), ()):
            for each in THREE:
                node = nodes[each]
                node.stop()
                peer = [*flags(node)]
                at = peer.index("--tls-cert-file")
                del peer[at : at + 4]  # the APIs of this test stay in the clear
                node.start("--peers", nodes.peers(*THREE), *peer, *optional)
                nodes.wait_settled(*THREE)
    assert load.failed == [], nodes.logs()
    assert answer_in_the_clear(nodes["n1"].raft) == b""
    print(f"slowest call {load.slowest_s:.2f} s of {len(load.acknowledged)}")


def answer_in_the_clear(address: str) -> bytes:
    with socket.create_connection(address_of(address), 5) as plain:
        plain.sendall(bytes(16))
        try:
            return plain.recv(100)
        except ConnectionError:
            return b""


def address_of(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def test_dev_makes_its_certificates_and_says_how_to_call_it(tmp_path: Path) -> None:
    with dev_cluster(tmp_path, nodes=1, arguments=("--tls",)) as cluster:
        said = (tmp_path / "dev.out").read_text()
        line = next(each for each in said.splitlines() if each.startswith("export "))
        told = dict(each.split("=", 1) for each in shlex.split(line)[1:])
        done = subprocess.run(
            [*PROGRAM, "cluster", "status"],
            env={**os.environ, **told},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        client = Client([told["RAFTFLOW_ADDRESS"]], ca_file=told["RAFTFLOW_CA_FILE"])
        assert client.list()["total"] == 0
        with (
            pytest.raises(OSError),
            contextlib.closing(
                urllib.request.urlopen(f"http://{cluster.http('n1')}/api/health", timeout=5)
            ),
        ):
            pass
        cluster.stop()
        cluster.arguments = ()
        cluster.start()  # a directory keeps to TLS
        assert client.list()["total"] == 0
