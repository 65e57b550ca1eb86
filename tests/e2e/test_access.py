"""Tokens on three real nodes: good everywhere at once, gone everywhere at once, found nowhere."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import signal
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from certs import authority_of, issue, serve_flags
from dev_cluster import PROGRAM, DevCluster, dev_cluster, wait_for
from node_processes import nodes_in

from raftflow.proto.workflow.v1 import service_pb2 as pb
from raftflow.proto.workflow.v1 import service_pb2_grpc

pytestmark = pytest.mark.cluster

GUIDE = Path(__file__).parents[2] / "docs" / "security.md"
ROOT = "canary-root-token-of-the-file-7f3a"


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[DevCluster]:
    file = tmp_path / "tokens"
    file.write_text(f"{ROOT} name=root\n")
    file.chmod(0o600)
    arguments = ("--auth-token-file", str(file))
    with dev_cluster(tmp_path / "cluster", arguments=arguments) as running:
        yield running


def ask(
    cluster: DevCluster, node: str, method: str, path: str, token: str = "", body: Any = None
) -> tuple[int, Any]:
    request = urllib.request.Request(
        f"http://{cluster.http(node)}{path}",
        data=None if body is None else json.dumps(body).encode(),
        method=method,
        headers={"Content-Type": "application/json"}
        | ({"Authorization": f"Bearer {token}"} if token else {}),
    )
    try:
        with urllib.request.urlopen(request, timeout=40) as answer:
            content = answer.read()
            return answer.status, json.loads(content) if content else None
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def cli(cluster: DevCluster, *arguments: str, node: str = "n1") -> str:
    done = subprocess.run(
        [*PROGRAM, *arguments, "--address", cluster.http(node)],
        env=os.environ | {"RAFTFLOW_TOKEN": ROOT},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def start(cluster: DevCluster, node: str, token: str, workflow_id: str) -> tuple[int, Any]:
    body = {"type": "Order", "workflow_id": workflow_id}
    return ask(cluster, node, "POST", "/api/workflows", token, body)


def polls(cluster: DevCluster, node: str) -> int:
    url = f"http://{cluster.entry(node)['metrics']}/metrics"
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {ROOT}"})
    with urllib.request.urlopen(request, timeout=5) as answer:
        text = answer.read().decode()
    (line,) = [each for each in text.splitlines() if each.startswith("workflowd_polls_waiting")]
    return int(float(line.split()[1]))


def stream_ends(cluster: DevCluster, node: str, token: str) -> grpc.StatusCode:
    """Demands tasks until the node ends the stream; with which status."""

    def said() -> Iterator[pb.WorkerMessage]:
        demand = pb.WorkerDemand(
            demand_id="d", kind="TASK_KIND_ACTIVITY", worker_id="w", in_flight=1
        )
        yield pb.WorkerMessage(id=1, demand=demand)
        time.sleep(30)

    with grpc.insecure_channel(cluster.grpc(node)) as channel:
        stub: Any = service_pb2_grpc.WorkflowServiceStub(channel)  # type: ignore[no-untyped-call]
        metadata = (("authorization", f"Bearer {token}"),)
        try:
            for _ in stub.WorkerStream(said(), metadata=metadata, timeout=30):
                pass
        except grpc.RpcError as error:
            code: grpc.StatusCode = error.code()
            return code
    return grpc.StatusCode.OK


def test_tokens_on_three_nodes(guarded: DevCluster) -> None:
    nodes = guarded.ids()
    for node in nodes:
        assert ask(guarded, node, "GET", "/api/workflows")[0] == 401
        assert ask(guarded, node, "GET", "/api/health")[0] == 200
    user = cli(guarded, "token", "mint", "ci", "--role", "user").strip()
    worker = cli(guarded, "token", "mint", "pack", "--role", "worker").strip()
    types = {"workflow_types": ["Order"]}
    assert ask(guarded, "n2", "POST", "/api/workflow-types", worker, types)[0] == 200
    # Who was told a token can use it, whichever node it goes to.
    for node in nodes:
        assert start(guarded, node, user, f"by-{node}")[0] == 201
    revoked_while_they_wait(guarded, worker)
    revoked_while_a_node_stands_still(guarded, user)
    logs = [ask(guarded, node, "GET", "/api/audit?order=oldest", ROOT)[1] for node in nodes]
    assert logs[0] == logs[1] == logs[2]
    calls = [(each["call"], each["node"], each["outcome"]) for each in logs[0]["entries"]]
    assert [each for each in calls if each[0] == "StartWorkflow"][:3] == [
        ("StartWorkflow", node, "OK") for node in nodes
    ]
    actors = {each["actor"] for each in logs[0]["entries"]}
    assert actors == {"file:root", user.split("_")[1], worker.split("_")[1]}
    exported = cli(guarded, "audit", "export", node="n3").splitlines()
    assert [json.loads(line) for line in exported] == logs[0]["entries"]
    guarded.stop()
    secrets = [ROOT, user, worker, *(each.split("_", 2)[2] for each in (user, worker))]
    for path in sorted(guarded.directory.rglob("*")):
        content = path.read_bytes() if path.is_file() else b""
        for secret in secrets:
            assert secret.encode() not in content, path


def test_tokens_minted_under_load(guarded: DevCluster) -> None:
    """No call fails meanwhile, and each token is good on every node as soon as it is shown."""
    nodes = guarded.ids()
    types = {"workflow_types": ["Order"]}
    assert ask(guarded, "n1", "POST", "/api/workflow-types", ROOT, types)[0] == 200
    stop = threading.Event()

    def load(name: str) -> list[int]:
        seen = []
        for number in itertools.count():
            if stop.is_set():
                return seen
            node = nodes[number % len(nodes)]
            seen.append(start(guarded, node, ROOT, f"{name}-{number}")[0])
            time.sleep(0.01)
        raise AssertionError

    with ThreadPoolExecutor() as pool:
        loads = [pool.submit(load, f"load{each}") for each in range(2)]
        try:
            for number in range(9):
                at, elsewhere = nodes[number % 3], nodes[(number + 1) % 3]
                body = {"name": f"t{number}", "role": "user", "lifetime_ms": 600_000}
                status, minted = ask(guarded, at, "POST", "/api/tokens", ROOT, body)
                assert (status, minted["not_yet"]) == (201, [])
                assert start(guarded, elsewhere, minted["token"], f"by-{number}")[0] == 201
                path = f"/api/tokens/{minted['id']}"
                status, revoked = ask(guarded, elsewhere, "DELETE", path, ROOT)
                assert (status, revoked["not_yet"]) == (200, [])
                assert start(guarded, at, minted["token"], f"late-{number}")[0] == 401
        finally:
            stop.set()
        for each in loads:
            assert set(each.result()) == {201}


def test_the_cookie_of_a_page_over_tls(tmp_path: Path) -> None:
    """It is for TLS alone, and the page that it came to may use it."""
    authority = authority_of(tmp_path / "certs", "shop")
    issue(authority, "n1")
    (tmp_path / "tokens").write_text(f"{ROOT} name=root\n")
    with nodes_in(tmp_path / "nodes") as nodes:
        node = nodes["n1"]
        flags = ("--cluster-id", "shop", "--auth-token-file", str(tmp_path / "tokens"))
        node.start(*flags, *serve_flags(authority, "n1"))
        node.trusted = authority.trusted
        wait_for("n1 is ready", node.is_ready)
        trust = ssl.create_default_context(cafile=str(authority.trusted))

        def asked(method: str, path: str, body: Any = None, **headers: str) -> Any:
            request = urllib.request.Request(
                f"{node.address}{path}",
                data=None if body is None else json.dumps(body).encode(),
                method=method,
                headers={"Content-Type": "application/json"}
                | {name.replace("_", "-"): value for name, value in headers.items()},
            )
            return urllib.request.urlopen(request, timeout=20, context=trust)

        with asked("POST", "/api/session", {"token": ROOT}, Origin=node.address) as answer:
            cookie = answer.headers["Set-Cookie"]
        assert cookie.endswith("; Secure")
        session = cookie.partition(";")[0]
        ours = {"Origin": node.address, "X_Raftflow_Session": "1"}
        with asked("POST", "/api/namespaces", {"name": "a"}, Cookie=session, **ours) as answer:
            assert answer.status == 201
        with pytest.raises(urllib.error.HTTPError) as refused:
            asked("POST", "/api/namespaces", {"name": "b"}, Cookie=session)
        assert refused.value.code == 403


def test_the_commands_of_the_guide(guarded: DevCluster) -> None:
    cli(guarded, "namespace", "create", "shop")
    minted = ""
    for line in commands():
        words = shlex.split(line.partition(" > ")[0].replace("a2b3c4d5e6f7", minted))[1:]
        if "-f" in words:
            words[-1] = str(guarded.directory / "audit.jsonl")
        said = cli(guarded, *words)
        if words[:2] == ["token", "mint"]:
            minted = said.strip().split("_")[1]
    assert "MintToken" in (guarded.directory / "audit.jsonl").read_text()


def commands() -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", GUIDE.read_text(), re.S)
    found = [line for block in blocks for line in block.splitlines()]
    said = [line for line in found if re.match("raftflow (token|audit) ", line)]
    assert len(said) == 8
    return said


def revoked_while_they_wait(cluster: DevCluster, worker: str) -> None:
    nodes = cluster.ids()
    before = [polls(cluster, node) for node in nodes]  # a node polls for what it hosts
    with ThreadPoolExecutor() as pool:
        waiting = [
            pool.submit(ask, cluster, node, "GET", "/api/activity-tasks?wait=20000", worker)
            for node in nodes
        ]
        stream = pool.submit(stream_ends, cluster, nodes[-1], worker)
        more = [1, 1, 2]
        wait_for(
            "polls are parked",
            lambda: (
                [polls(cluster, each) for each in nodes]
                == [a + b for a, b in zip(before, more, strict=True)]
            ),
        )
        begun = time.monotonic()
        said = cli(cluster, "token", "revoke", worker)
        assert "revoked on n1, n2, n3" in said
        for poll in waiting:
            assert poll.result(timeout=5)[0] == 401
        assert stream.result(timeout=5) is grpc.StatusCode.UNAUTHENTICATED
        assert time.monotonic() - begun < 5
    for node in nodes:
        assert ask(cluster, node, "GET", "/api/activity-tasks?wait=1000", worker)[0] == 401


def revoked_while_a_node_stands_still(cluster: DevCluster, user: str) -> None:
    """It says who has not heard of it; and nothing goes through that node, however far behind."""
    still = cluster.followers()[-1]
    others = [node for node in cluster.ids() if node != still]
    token_id = user.split("_")[1]
    cluster.signal(still, signal.SIGSTOP)
    try:
        status, said = ask(cluster, others[0], "DELETE", f"/api/tokens/{token_id}", ROOT)
        assert (status, said["not_yet"]) == (200, [still])
        for node in others:
            assert start(cluster, node, user, "too-late")[0] == 401
    finally:
        cluster.signal(still, signal.SIGCONT)
    status, refused = start(cluster, still, user, "too-late")
    assert (status, refused["reason"]) == (401, "UNAUTHENTICATED")
    assert ask(cluster, others[0], "GET", "/api/workflows/too-late", ROOT)[0] == 404
