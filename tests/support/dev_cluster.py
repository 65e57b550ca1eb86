"""A real cluster under `raftflow dev`, for tests that kill and freeze real processes."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PORT_BASES = (8233, 7233, 9233, 9090)
PROGRAM = (sys.executable, "-m", "raftflow.cluster.cli.main")


def wait_for(what: str, condition: Callable[[], Any], *, timeout: float = 120.0) -> Any:
    """Return the first true value of ``condition``; fail with ``what`` after ``timeout`` s."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"within {timeout:g} s: {what}")
        time.sleep(0.02)


def free_offset(nodes: int) -> int:
    """A port offset at which every port of ``nodes`` nodes is free. All lie below 32768, where the
    kernel takes ports of outgoing connections: one could be gone when a killed node comes back."""
    for _ in range(200):
        offset = random.randrange(1_000, 23_000)
        if all(_free(base + offset + i) for base in PORT_BASES for i in range(nodes)):
            return offset
    raise RuntimeError("no free range of ports found")


def _free(port: int) -> bool:
    with contextlib.closing(socket.socket()) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


class HttpError(Exception):
    """An answer of 400 or above."""

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        super().__init__(f"{status}: {body}")
        self.status = status
        self.body = body


def call(
    address: str,
    method: str,
    path: str,
    body: Any = None,
    *,
    timeout: float = 40.0,
    trusted: Path | None = None,
    token: str = "",
) -> Any:
    """One JSON call, over TLS if it says whom to trust. Raises HttpError, or OSError when nobody
    answers."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        f"{'http' if trusted is None else 'https'}://{address}{path}",
        data=data,
        method=method,
        headers={
            "Content-Type": "application/json",
            **({"Authorization": f"Bearer {token}"} if token else {}),
        },
    )
    try:
        context = None if trusted is None else ssl.create_default_context(cafile=trusted)
        with urllib.request.urlopen(request, timeout=timeout, context=context) as response:
            raw = response.read()
    except urllib.error.HTTPError as error:
        raw = error.read()
        try:
            parsed = json.loads(raw)
        except ValueError:
            parsed = {"error": raw.decode(errors="replace")}
        raise HttpError(error.code, parsed) from None
    return json.loads(raw) if raw else None


def serve_command(
    node_id: str,
    data_dir: Path | str,
    *,
    http: str,
    grpc: str,
    raft: str,
    metrics: str,
    arguments: Sequence[str] = (),
) -> list[str]:
    """The command line of one node."""
    return [
        *(*PROGRAM, "serve", "--node-id", node_id, "--data-dir", str(data_dir)),
        *("--http-addr", http, "--grpc-addr", grpc, "--raft-addr", raft),
        *("--metrics-addr", metrics, *arguments),
    ]


def workflow_path(workflow_id: str, rest: str = "") -> str:
    return f"/api/workflows/{urllib.parse.quote(workflow_id, safe='')}{rest}"


@dataclass
class DevCluster:
    """Three (or more) nodes in ``directory``; all methods talk to the real thing."""

    directory: Path
    nodes: int = 3
    environment: dict[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    offset: int = 0
    process: subprocess.Popen[str] | None = None

    def start(self, *, timeout: float = 120.0) -> None:
        self.offset = self.offset or free_offset(self.nodes)
        self.directory.mkdir(parents=True, exist_ok=True)
        output = (self.directory / "dev.out").open("a")
        self.process = subprocess.Popen(
            [
                *(*PROGRAM, "dev"),
                *("--nodes", str(self.nodes), "--data-dir", str(self.directory)),
                *("--port-offset", str(self.offset), *self.arguments),
            ],
            stdout=output,
            stderr=output,
            text=True,
            env={**os.environ, **self.environment},
        )
        output.close()
        mark = (self.directory / "dev.out").stat().st_size
        self.wait_ready(timeout=timeout, since=mark)

    def wait_ready(self, *, timeout: float, since: int = 0) -> None:
        def ready() -> bool:
            assert self.process is not None
            text = (self.directory / "dev.out").read_text()
            if self.process.poll() is not None:
                raise AssertionError(f"raftflow dev ended: {text}\n{self.logs()}")
            return "ready" in text[since:]

        try:
            wait_for("raftflow dev prints ready", ready, timeout=timeout)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.logs()}") from None

    def stop(self) -> None:
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def logs(self, *, tail: int = 3_000) -> str:
        return "\n".join(
            f"--- {path.name}\n{path.read_text(errors='replace')[-tail:]}"
            for path in sorted(self.directory.glob("*.log"))
        )

    # ---- who is who -----------------------------------------------------------------------------

    def entries(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = json.loads((self.directory / "dev.json").read_text())[
            "nodes"
        ]
        return listed

    def entry(self, node_id: str) -> dict[str, Any]:
        return next(entry for entry in self.entries() if entry["id"] == node_id)

    def ids(self) -> list[str]:
        return [entry["id"] for entry in self.entries()]

    def http(self, node_id: str) -> str:
        return str(self.entry(node_id)["http"]).removeprefix("http://")

    def grpc(self, node_id: str) -> str:
        return str(self.entry(node_id)["grpc"])

    def addresses(self, *node_ids: str) -> list[str]:
        return [f"http://{self.http(node_id)}" for node_id in node_ids or self.ids()]

    def health(self, node_id: str) -> dict[str, Any] | None:
        try:
            answer: dict[str, Any] = call(self.http(node_id), "GET", "/api/health", timeout=1.0)
        except (OSError, HttpError):
            return None
        return answer

    def leader(self, *, other_than: str = "", timeout: float = 90.0) -> str:
        """The node that itself says that it leads."""

        def found() -> str | None:
            for node_id in self.ids():
                if node_id != other_than:
                    health = self.health(node_id)
                    if health and health["role"] == "leader":
                        return node_id
            return None

        node_id: str = wait_for("a node leads", found, timeout=timeout)
        return node_id

    def wait_all_serve(self) -> None:
        """Every node answers and knows the leader."""
        for node_id in self.ids():
            wait_for(
                f"{node_id} serves",
                lambda node_id=node_id: (self.health(node_id) or {}).get("leader"),
            )

    def followers(self) -> list[str]:
        leader = self.leader()
        return [node_id for node_id in self.ids() if node_id != leader]

    # ---- faults ---------------------------------------------------------------------------------

    def signal(self, node_id: str, number: signal.Signals) -> None:
        os.kill(self.entry(node_id)["pid"], number)

    def kill(self, *node_ids: str) -> None:
        """SIGKILL, all at the same moment."""
        pids = [self.entry(node_id)["pid"] for node_id in node_ids]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        for node_id in node_ids:
            wait_for(
                f"dev.json says that {node_id} is dead",
                lambda node_id=node_id: self.entry(node_id)["pid"] is None,
            )

    def serve_command(self, node_id: str) -> list[str]:
        """The command line with which `dev` starts this node."""
        entry = self.entry(node_id)
        document = json.loads((self.directory / "dev.json").read_text())
        peers = ",".join(f"{each['id']}={each['raft']}" for each in document["nodes"])
        return serve_command(
            node_id,
            entry["data_dir"],
            **{name: entry[name] for name in ("http", "grpc", "raft", "metrics")},
            arguments=("--cluster-id", document["cluster_id"], "--peers", peers),
        )

    def start_node(self, node_id: str) -> None:
        self._dev("node", "start", node_id)

    def _dev(self, *arguments: str) -> None:
        done = subprocess.run(
            [
                *(*PROGRAM, "dev"),
                *("--data-dir", str(self.directory), *arguments),
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"dev {arguments}: {done.stdout}{done.stderr}\n{self.logs()}"

    # ---- runs -----------------------------------------------------------------------------------

    def call(self, node_id: str, method: str, path: str, body: Any = None, **rest: Any) -> Any:
        return call(self.http(node_id), method, path, body, **rest)

    def describe(self, node_id: str, workflow_id: str) -> dict[str, Any]:
        answer: dict[str, Any] = self.call(node_id, "GET", workflow_path(workflow_id))
        return answer

    def wait_status(
        self, node_id: str, workflow_id: str, *statuses: str, timeout: float = 120.0
    ) -> dict[str, Any]:
        last: dict[str, Any] = {}

        def reached() -> dict[str, Any] | None:
            nonlocal last
            try:
                last = self.describe(node_id, workflow_id)
            except (OSError, HttpError):
                return None
            return last if last["status"] in statuses else None

        try:
            found: dict[str, Any] = wait_for(
                f"{workflow_id} is {' or '.join(statuses)}", reached, timeout=timeout
            )
        except AssertionError as error:
            raise AssertionError(f"{error}; it is {json.dumps(last, indent=1)}") from None
        return found


@contextlib.contextmanager
def dev_cluster(directory: Path, **settings: Any) -> Iterator[DevCluster]:
    """A running cluster that is stopped at the end, whatever happened."""
    cluster = DevCluster(directory, **settings)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
