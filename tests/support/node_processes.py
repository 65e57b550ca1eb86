"""Nodes as single real processes, each with its own command line: for clusters whose members
change, which `raftflow dev` does not do."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dev_cluster import (
    PORT_BASES,
    PROGRAM,
    HttpError,
    call,
    free_offset,
    serve_command,
    wait_for,
)


@dataclass
class Process:
    """One node; its data is in ``directory/data``, what it says in ``directory/log``."""

    id: str
    directory: Path
    http: str
    grpc: str
    raft: str
    metrics: str
    process: subprocess.Popen[bytes] | None = None
    trusted: Path | None = None  # where it speaks TLS
    token: str = ""  # where it asks for one

    @property
    def address(self) -> str:
        """As the command line takes it."""
        return f"https://{self.http}" if self.trusted else self.http

    def call(self, method: str, path: str, body: Any = None, *, timeout: float = 40.0) -> Any:
        return call(
            self.http, method, path, body, timeout=timeout, trusted=self.trusted, token=self.token
        )

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def log(self) -> Path:
        return self.directory / "log"

    def start(self, *arguments: str) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as output:
            command = serve_command(
                self.id,
                self.data,
                http=self.http,
                grpc=self.grpc,
                raft=self.raft,
                metrics=self.metrics,
                arguments=arguments,
            )
            self.process = subprocess.Popen(command, stdout=output, stderr=output)

    def is_ready(self) -> bool:
        try:
            return bool(self.call("GET", "/api/ready", timeout=5.0)["ready"])
        except (OSError, HttpError):
            return False

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        status = self.process.wait(20)
        self.process = None
        return status

    def ended(self, *, timeout: float = 90.0) -> tuple[int, str]:
        """The exit status of a process that ends by itself, and its last line."""
        assert self.process is not None
        status = self.process.wait(timeout)
        self.process = None
        return status, self.log.read_text(errors="replace").splitlines()[-1]


@dataclass
class Nodes:
    directory: Path
    most: int = 6
    found: dict[str, Process] = field(default_factory=dict)
    offset: int = 0

    def __post_init__(self) -> None:
        self.offset = free_offset(self.most)

    def __getitem__(self, node_id: str) -> Process:
        """Node n1 has the first ports, n2 the next ones."""
        if node_id not in self.found:
            number = int(node_id.lstrip("n")) - 1
            http, grpc, raft, metrics = (
                f"127.0.0.1:{base + self.offset + number}" for base in PORT_BASES
            )
            self.found[node_id] = Process(
                node_id, self.directory / node_id, http, grpc, raft, metrics
            )
        return self.found[node_id]

    def peers(self, *ids: str) -> str:
        return ",".join(f"{each}={self[each].raft}" for each in ids)

    def bear(self, *ids: str, arguments: tuple[str, ...] = ()) -> None:
        """A new cluster of these, with all disks recorded."""
        for each in ids:
            self[each].start("--peers", self.peers(*ids), *arguments)
        self.wait_settled(*ids)

    def running(self) -> list[Process]:
        return [
            each
            for each in self.found.values()
            if each.process is not None and each.process.poll() is None
        ]

    def state(self) -> dict[str, Any] | None:
        """The cluster as a node sees it that knows who leads."""
        for node in self.running():
            with contextlib.suppress(OSError, HttpError):
                state: dict[str, Any] = node.call("GET", "/api/cluster", timeout=2.0)
                if state["leader"]:
                    return state
        return None

    def members(self) -> dict[str, str]:
        """Whether each one votes, "" being a learner whose disk is not recorded."""
        state = self.state() or {"nodes": []}
        return {row["id"]: row["member"] for row in state["nodes"] if row["member"] != "removed"}

    def leader(self) -> str:
        found: str = wait_for("a node leads", lambda: (self.state() or {}).get("leader"))
        return found

    def wait_settled(self, *voters: str, timeout: float = 120.0) -> None:
        """These vote and nobody else is a member; nothing is under way, every disk is recorded."""

        def settled() -> bool:
            state = self.state()
            return (
                state is not None
                and not state["pending_change"]
                and state["feature_level"] >= 3
                and state["configuration_index"] > 0
                and {r["id"]: r["member"] for r in state["nodes"] if r["member"] != "removed"}
                == dict.fromkeys(voters, "voter")
                and all(r["connected"] or r["id"] == state["node"] for r in state["nodes"])
                # One that is back with another disk is a voter still, until the leader sees it.
                and all(self[voter].is_ready() for voter in voters)
            )

        try:
            wait_for(f"{', '.join(voters)} vote", settled, timeout=timeout)
        except AssertionError as error:
            raise AssertionError(f"{error}; {self.state()}\n{self.logs()}") from None

    def cli(self, *arguments: str, check: bool = True, timeout: float = 120.0) -> str:
        """`raftflow` with the addresses of all nodes that run; its output."""
        done = self.try_cli(*arguments, timeout=timeout)
        assert not check or done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def try_cli(self, *arguments: str, timeout: float = 120.0) -> subprocess.CompletedProcess[str]:
        addresses = ",".join(each.address for each in self.running())
        trusted = next((str(each.trusted) for each in self.running() if each.trusted), "")
        return subprocess.run(
            [*PROGRAM, *arguments],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            env={
                **os.environ,
                "RAFTFLOW_ADDRESS": addresses,
                **({"RAFTFLOW_CA_FILE": trusted} if trusted else {}),
            },
        )

    def add(self, node_id: str, *, timeout: str = "60s") -> str:
        """With `raftflow node add`, started as that says."""
        node = self[node_id]
        said = self.cli("node", "add", f"{node_id}={node.raft}", "--no-wait")
        line = next(each for each in said.splitlines() if "raftflow serve" in each)
        node.start(*_arguments(line, but=("--node-id",)))
        return said + self.cli("node", "add", f"{node_id}={node.raft}", "--timeout", timeout)

    def logs(self, tail: int = 3_000) -> str:
        return "\n".join(
            f"--- {each.id}\n{each.log.read_text(errors='replace')[-tail:]}"
            for each in self.found.values()
            if each.log.exists()
        )

    def stop(self) -> None:
        for node in self.running():
            assert node.process is not None
            node.process.send_signal(signal.SIGCONT)
            node.process.terminate()
        for node in self.found.values():
            if node.process is not None:
                try:
                    node.process.wait(15)
                except subprocess.TimeoutExpired:
                    node.process.kill()
                    node.process.wait()


def _arguments(line: str, *, but: tuple[str, ...]) -> list[str]:
    words = line.split()[2:]
    pairs = zip(words[::2], words[1::2], strict=True)
    return [word for pair in pairs if pair[0] not in but for word in pair]


@contextlib.contextmanager
def nodes_in(directory: Path, **settings: Any) -> Iterator[Nodes]:
    nodes = Nodes(directory, **settings)
    try:
        yield nodes
    finally:
        nodes.stop()


class Load:
    """A client that starts runs one after the other and signals them, at whichever node answers.
    As clients do it moves on from a node that is gone, with the same request id; any other answer
    than success is a failed call."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.acknowledged: list[str] = []
        self.failed: list[str] = []
        self.slowest_s = 0.0

    def __enter__(self) -> Load:
        self.call("POST", "/api/workflow-types", {"workflow_types": ["Load"], "worker_id": "l"})
        self._thread.start()
        wait_for("the load runs", lambda: len(self.acknowledged) > 5)
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(30)

    def _run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            number += 1
            began = time.monotonic()
            run = f"load-{number}"
            body = {"type": "Load", "workflow_id": run, "request_id": run}
            try:
                self.call("POST", "/api/workflows", body)
                signalled = {"name": "s", "payload": "x", "request_id": f"s-{number}"}
                self.call("POST", f"/api/workflows/{run}/signal", signalled)
            except (HttpError, OSError) as error:
                self.failed.append(f"{run}: {error}")
            else:
                self.acknowledged.append(run)
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)

    def call(self, method: str, path: str, body: Any) -> Any:
        """Only "nobody is there" and "this node is stopping" send it to the next node."""
        deadline = time.monotonic() + 20
        while True:
            for node in self._nodes.running():
                try:
                    return node.call(method, path, body, timeout=15.0)
                except HttpError as error:
                    if error.status != 503 or time.monotonic() > deadline:
                        raise
                    if "shutting down" not in str(error.body):
                        raise
                except OSError:
                    if time.monotonic() > deadline:
                        raise
            time.sleep(0.02)
