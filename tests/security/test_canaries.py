"""Secrets that are planted wherever somebody may put one, rightly or by mistake, and that are then
found nowhere: not in logs, answers, metrics, histories, the audit log, nor in any file of a node.

Payloads are secrets of another kind: histories and files hold them, and nothing else does.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import re
import secrets
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import probes
import pytest
from dev_cluster import DevCluster, dev_cluster, wait_for

from raftflow.proto.workflow.v1 import service_pb2 as pb
from raftflow.proto.workflow.v1 import service_pb2_grpc

pytestmark = pytest.mark.cluster

JSON = "application/json"


def canary(where: str) -> str:
    word = re.sub("[^a-z0-9]+", "-", where.lower())
    return f"canary-{word}-{secrets.token_hex(12)}"


@dataclass
class Planted:
    """``tokens`` are to be found nowhere, ``payloads`` in histories and data alone. ``heard`` is
    what nodes said that nobody asked for a secret."""

    tokens: dict[str, bytes] = field(default_factory=dict)
    payloads: dict[str, bytes] = field(default_factory=dict)
    heard: list[tuple[str, bytes]] = field(default_factory=list)

    def token(self, where: str, text: str = "") -> str:
        text = text or canary(where)
        self.tokens[where] = text.encode()
        return text

    def payload(self, where: str) -> str:
        text = canary(where)
        self.payloads[where] = text.encode()
        return text

    def minted(self, where: str, text: str) -> str:
        """Of such a token only the secret is one: the id is for everybody to see."""
        _, _, secret = text.split("_", 2)
        self.tokens[where] = secret.encode()
        raw = base64.urlsafe_b64decode(secret + "=" * (-len(secret) % 4))
        self.tokens[f"{where}, decoded"] = raw
        self.tokens[f"{where}, in hexadecimal"] = raw.hex().encode()
        self.tokens[f"{where}, hashed without salt"] = hashlib.sha256(raw).digest()
        self.tokens[f"{where}, its text hashed"] = hashlib.sha256(secret.encode()).digest()
        return text


@dataclass
class Scene:
    cluster: DevCluster
    planted: Planted
    admin: str

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        node: str = "n1",
        token: str | None = None,
        raw: bytes | None = None,
        port: str = "http",
        **headers: str,
    ) -> tuple[int, Any, dict[str, str]]:
        """One call, whose answer is remembered unless it is one to hand a secret out."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token != "":
            sent.setdefault("Authorization", f"Bearer {token or self.admin}")
        if body is not None:
            raw = json.dumps(body).encode()
        if raw is not None:
            sent.setdefault("Content-Type", JSON)
        target = str(self.cluster.entry(node)[port]).removeprefix("http://")
        connection = http.client.HTTPConnection(target, timeout=30)
        try:
            connection.request(method, path, raw, sent)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        told = dict(answer.getheaders())
        said = f"{method} {path.partition('?')[0]}"
        hands_out = method == "POST" and path in ("/api/tokens", "/api/session")
        if not (hands_out and answer.status < 300):
            self.planted.heard.append((said, repr(told).encode() + content))
        parsed = json.loads(content) if content.startswith(b"{") else content
        return answer.status, parsed, told

    def ok(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        status, answer, _ = self.call(method, path, body, **more)
        assert status < 300, (method, path, answer)
        return answer

    def mint(self, where: str, role: str, **more: Any) -> str:
        made = self.ok("POST", "/api/tokens", {"name": where, "role": role, **more})
        return self.planted.minted(f"the token of {where}", made["token"])


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    directory = tmp_path_factory.mktemp("canaries")
    planted = Planted()
    admin = planted.token("the token file")
    file = directory / "tokens"
    file.write_text(f"{admin} name=ops\n")
    file.chmod(0o600)
    environment = {
        "RAFTFLOW_AUTH_TOKEN_FILE": str(file),
        "RAFTFLOW_LOG_LEVEL": "debug",
        "AWS_SECRET_ACCESS_KEY": planted.token("the environment"),
        "AWS_ACCESS_KEY_ID": planted.token("the environment, too"),
    }
    with dev_cluster(directory / "cluster", environment=environment) as cluster:
        for node_id in cluster.ids():
            wait_for("it serves", lambda node_id=node_id: cluster.health(node_id))
        scene = Scene(cluster, planted, admin)
        plant_in_calls(scene)
        plant_in_tokens(scene)
        plant_in_payloads(scene)
        plant_by_mistake(scene)
        cluster.kill("n3")  # what it reads when it starts is no reason to tell of it either
        cluster.start_node("n3")
        wait_for("it serves again", lambda: cluster.health("n3"))
        yield scene


def plant_in_tokens(scene: Scene) -> None:
    """Tokens that are good, that were, and sessions, on all nodes and both APIs."""
    gone = scene.mint("somebody revoked", "user", sees_payloads=True)
    short = scene.mint("somebody expired", "user", lifetime_ms=1)
    token_id = gone.split("_")[1]
    scene.ok("DELETE", f"/api/tokens/{token_id}")
    for node in scene.cluster.ids():
        for token in (gone, short, gone[:-1] + "x"):
            assert scene.call("GET", "/api/workflows", token=token, node=node)[0] == 401
        scene.ok("GET", "/api/workflows", token=scene.mint(f"a viewer at {node}", "viewer"))
    status, _, headers = scene.call("POST", "/api/session", {"token": scene.admin}, token="")
    assert status < 300
    cookie = re.search("rf_session=([^;]+)", headers["Set-Cookie"])
    assert cookie is not None
    scene.planted.minted("a session", cookie[1])
    scene.ok("GET", "/api/workflows", token="", Cookie=f"rf_session={cookie[1]}")
    scene.call("DELETE", "/api/session", token="", Cookie=f"rf_session={cookie[1]}")
    wrong = scene.planted.token("a login with a wrong token")
    assert scene.call("POST", "/api/session", {"token": wrong}, token="")[0] == 401
    # By its text instead of its id, as it comes to hand.
    mistaken = scene.mint("somebody named by its text", "viewer")
    scene.ok("DELETE", f"/api/tokens/{mistaken}")
    assert scene.call("GET", "/api/workflows", token=mistaken)[0] == 401
    scene.call("DELETE", f"/api/tokens/{mistaken[:-1]}")
    scene.call("DELETE", f"/api/tokens/{scene.admin}")


def plant_in_calls(scene: Scene) -> None:
    """Tokens that are wrong, and tokens in wrong places."""
    planted = scene.planted
    for node in scene.cluster.ids():
        wrong = planted.token(f"a wrong token at {node}")
        basic = base64.b64encode(planted.token("a password").encode()).decode()
        planted.tokens["a password, encoded"] = basic.encode()
        in_query = planted.token("the query")
        in_path = planted.token("the path")
        for port in ("http", "metrics"):
            ask = {"node": node, "port": port}
            path = "/metrics" if port == "metrics" else "/api/workflows"
            assert scene.call("GET", path, token=wrong, **ask)[0] == 401
            scene.call("GET", path, token="", Authorization=f"Basic {basic}", **ask)
            scene.call("GET", path, token="", Authorization=wrong, **ask)
            scene.call("GET", f"{path}?token={in_query}", **ask)
            scene.call("GET", f"/api/workflows?limit={in_query}", **ask)
        scene.call("GET", "/api/workflows", token="", Cookie=f"rf_session={wrong}", node=node)
        scene.call("GET", f"/api/sessions/{in_path}", node=node)
        scene.call("GET", f"/{in_path}", node=node)
        # The methods, bodies and types that are refused.
        scene.call("PATCH", f"/api/workflows?token={in_query}", node=node)
        in_body = planted.token("a body that is no JSON")
        scene.call("POST", "/api/workflows", raw=f'{{"token": "{in_body}"'.encode(), node=node)
        scene.call("POST", "/api/workflows", {"type": "Order", "token": in_body, "x": 1}, node=node)
        scene.call("POST", "/api/workflows", raw=in_body.encode(), Content_Type="text/x", node=node)
        scene.call("GET", "/api/workflows", Host=planted.token("the host"), node=node)
        scene.call("GET", "/api/workflows", Origin=planted.token("the origin"), node=node)
        plant_in_frames(scene, node, planted.token("broken bytes"))
        plant_in_grpc(scene, node, wrong)


def plant_in_frames(scene: Scene, node: str, text: str) -> None:
    """Where not even the protocol is understood."""
    secret = text.encode()
    entry = scene.cluster.entry(node)
    for port in ("http", "grpc", "raft", "metrics"):
        target = str(entry[port]).removeprefix("http://")
        for sent in (
            secret * 200,
            b"GET / HTTP/1.1\r\nAuthorization: Bearer " + secret + b"\x00\r\n\r\n",
            b"GET /" + secret + b" HTTP/9.9\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: n\r\nx: " + secret * 2_000 + b"\r\n\r\n",
            probes.raft_frame(b'{"protocol": 1, "cluster_id": "' + secret + b'"}'),
            probes.raft_frame(b'{"protocol": "' + secret + b'"}'),
        ):
            answer = probes.send(target, sent, patience=0.1)
            scene.planted.heard.append((f"bytes to {port} of {node}", answer))


def plant_in_grpc(scene: Scene, node: str, wrong: str) -> None:
    with grpc.insecure_channel(scene.cluster.grpc(node)) as channel:
        stub: Any = service_pb2_grpc.WorkflowServiceStub(channel)
        for metadata in (
            [("authorization", f"Bearer {wrong}")],
            [("authorization", f"Basic {wrong}")],
            [("authorization", wrong)],
            [("token", wrong)],
            [("authorization", f"Bearer {scene.admin}"), ("x-api-key", wrong)],
        ):
            try:
                stub.ListWorkflows(pb.ListWorkflowsRequest(), metadata=metadata, timeout=10)
            except grpc.RpcError as error:
                said = f"{error.details()} {error.trailing_metadata()}".encode()
                scene.planted.heard.append(("ListWorkflows over gRPC", said))


def plant_in_payloads(scene: Scene) -> None:
    """A run with a secret in each place that a payload can be in."""
    planted, call = scene.planted, scene.ok
    call("POST", "/api/workflow-types", {"workflow_types": ["Order"]})
    start = {
        "type": "Order",
        "workflow_id": "order-1",
        "input": planted.payload("an input"),
        "memo": {"note": planted.payload("a memo")},
        "search_attributes": {"customer": planted.payload("an attribute")},
    }
    call("POST", "/api/workflows", start)
    task = call("GET", "/api/workflow-tasks?types=Order", node="n2")
    activity = {
        "type": "schedule_activity",
        "step_name": "charge",
        "sequence": 1,
        "input": planted.payload("the input of an activity"),
        "retry_policy": {"max_attempts": 2, "initial_backoff_ms": 1},
    }
    marker = {
        "type": "record_marker",
        "step_name": "v",
        "sequence": 2,
        "marker": "side_effect",
        "data": planted.payload("a marker"),
    }
    answer = {"workflow_id": "order-1", "task_token": task["task_token"]}
    call("POST", "/api/workflow-tasks/complete", answer | {"commands": [activity, marker]})
    for attempt in (1, 2):
        task = call("GET", "/api/activity-tasks?activities=charge", node="n3")
        lease = {"workflow_id": "order-1", "lease_token": task["lease_token"]}
        details = planted.payload(f"details of attempt {attempt}")
        call("POST", "/api/activity-tasks/heartbeat", lease | {"details": details})
        error = planted.payload(f"the error of attempt {attempt}")
        done = {"step_name": "charge", "sequence": 1, "error": error}
        call("POST", "/api/activity-tasks/complete", lease | done)
    signal = {"name": "go", "payload": planted.payload("a signal")}
    call("POST", "/api/workflows/order-1/signal", signal)
    task = call("GET", "/api/workflow-tasks?types=Order")
    answer["task_token"] = task["task_token"]
    wrong = activity | {"sequence": 7, "input": planted.payload("a refused decision")}
    scene.call("POST", "/api/workflow-tasks/complete", answer | {"commands": [wrong]})
    call(
        "POST",
        "/api/workflows/order-1/terminate",
        {"reason": planted.payload("a reason")},
    )


def plant_by_mistake(scene: Scene) -> None:
    """Where a node says back to the caller what it sent: then to nobody else."""
    scene.call("GET", "/api/workflows", X_Workflowd_Namespace=scene.planted.token("a namespace"))
    scene.planted.heard.pop()
    scene.call("POST", "/api/workflows", {scene.planted.token("a field"): 1})
    scene.planted.heard.pop()


def found_in(content: bytes, wanted: dict[str, bytes]) -> list[str]:
    return [where for where, secret in wanted.items() if secret in content]


def files(directory: Path) -> Iterator[Path]:
    return (path for path in sorted(directory.rglob("*")) if path.is_file())


def test_no_log_has_them(scene: Scene) -> None:
    logs = [path for path in files(scene.cluster.directory) if path.suffix in (".log", ".out")]
    assert len(logs) >= 3
    for path in logs:
        content = path.read_bytes()
        assert b"call_refused" in content or path.suffix == ".out"
        assert not found_in(content, scene.planted.tokens | scene.planted.payloads), path


def test_no_answer_says_them_back(scene: Scene) -> None:
    assert len(scene.planted.heard) > 100
    for said, content in scene.planted.heard:
        assert not found_in(content, scene.planted.tokens), said


def test_no_metric_has_them(scene: Scene) -> None:
    for node in scene.cluster.ids():
        content = scene.ok("GET", "/metrics", port="metrics", node=node)
        assert b"workflowd_calls_refused_total" in content
        assert not found_in(content, scene.planted.tokens | scene.planted.payloads)


def test_the_audit_log_has_neither(scene: Scene) -> None:
    content = json.dumps(scene.ok("GET", "/api/audit?limit=1000")).encode()
    assert b"order-1" in content
    assert not found_in(content, scene.planted.tokens | scene.planted.payloads)


def test_histories_have_payloads_and_no_tokens(scene: Scene) -> None:
    text = json.dumps(scene.ok("GET", "/api/workflows/order-1/history")).encode()
    connection = http.client.HTTPConnection(scene.cluster.http("n2"), timeout=30)
    path = "/api/workflows/order-1/history?format=binary"
    connection.request("GET", path, headers={"Authorization": f"Bearer {scene.admin}"})
    content = connection.getresponse().read()
    connection.close()
    for history in (text, content):
        assert scene.planted.payloads["an input"] in history
        assert not found_in(history, scene.planted.tokens)


def test_who_does_not_see_payloads_sees_none(scene: Scene) -> None:
    viewer = scene.mint("who sees no payloads", "viewer")
    for path in (
        "/api/workflows/order-1",
        "/api/workflows/order-1/history",
        "/api/workflows/order-1/runs",
        "/api/workflows",
        "/api/workflows/order-1/history?format=binary",
    ):
        _, answer, _ = scene.call("GET", path, token=viewer)
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        found = set(found_in(content, scene.planted.payloads))
        # What runs are found by, and what says why they stand as they do, is for all who look.
        told = {"a memo", "an attribute", "a reason", *[each for each in found if "error" in each]}
        assert not found - told, path


def test_no_file_of_a_node_has_tokens(scene: Scene) -> None:
    """Read while the nodes run: what is in a log or a write-ahead log counts, too."""
    checked = 0
    for path in files(scene.cluster.directory):
        content = path.read_bytes()
        assert not found_in(content, scene.planted.tokens), path
        checked += any(secret in content for secret in scene.planted.payloads.values())
    assert checked >= 3, "payloads are there, so that the search finds what there is"


def test_a_backup_has_payloads_and_no_tokens(scene: Scene) -> None:
    _, content, _ = scene.call("GET", "/api/cluster/backup")
    assert scene.planted.payloads["an input"] in content
    assert not found_in(content, scene.planted.tokens)


def test_no_command_line_has_them(scene: Scene) -> None:
    for node in scene.cluster.ids():
        line = Path(f"/proc/{scene.cluster.entry(node)['pid']}/cmdline").read_bytes()
        assert not found_in(line, scene.planted.tokens)


def test_tokens_are_listed_without_their_secrets(scene: Scene) -> None:
    content = json.dumps(scene.ok("GET", "/api/tokens")).encode()
    assert b"somebody revoked" in content
    assert not found_in(content, scene.planted.tokens)
    quoted = urllib.parse.quote(scene.admin)
    assert quoted.encode() not in content
