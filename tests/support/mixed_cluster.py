"""Real nodes of several releases in one cluster, released ones from their wheels."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dev_cluster import HttpError, call, free_offset, serve_command, wait_for
from released import unpack

TREE = "tree"  # the release under test: what the environment has installed


@dataclass
class MixedCluster:
    """Nodes n1.. in ``directory``, each started in the release that the test names."""

    directory: Path
    nodes: int = 3
    settings: dict[str, str] = field(default_factory=dict)  # environment of all nodes
    own: dict[str, dict[str, str]] = field(default_factory=dict)  # environment of one node
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.offset = free_offset(self.nodes)

    @property
    def ids(self) -> list[str]:
        return [f"n{number}" for number in range(1, self.nodes + 1)]

    def _port(self, base: int, node_id: str) -> str:
        return f"127.0.0.1:{base + self.offset + int(node_id[1:]) - 1}"

    def http(self, node_id: str) -> str:
        return self._port(8233, node_id)

    def grpc(self, node_id: str) -> str:
        return self._port(7233, node_id)

    def metrics(self, node_id: str) -> str:
        return self._port(9090, node_id)

    def data_dir(self, node_id: str) -> Path:
        return self.directory / node_id

    def log(self, node_id: str) -> str:
        return (self.directory / f"{node_id}.log").read_text(errors="replace")

    # ---- processes ------------------------------------------------------------------------------

    def start(self, node_id: str, release: str = TREE) -> None:
        peers = ",".join(f"{each}={self._port(9233, each)}" for each in self.ids)
        command = serve_command(
            node_id,
            self.data_dir(node_id),
            http=self.http(node_id),
            grpc=self.grpc(node_id),
            raft=self._port(9233, node_id),
            metrics=self.metrics(node_id),
            arguments=("--peers", peers, "--cluster-id", "mixed"),
        )
        environment = {**os.environ, **self.settings, **self.own.get(node_id, {})}
        if release != TREE:
            environment["PYTHONPATH"] = str(unpack(release, self.directory.parent / "releases"))
        with (self.directory / f"{node_id}.log").open("ab") as output:
            # Not in the repository: its folder would come before the packages of the release.
            self.processes[node_id] = subprocess.Popen(
                command, stdout=output, stderr=output, env=environment, cwd=self.directory
            )

    def start_all(self, release: str = TREE) -> None:
        for node_id in self.ids:
            self.start(node_id, release)
        for node_id in self.ids:
            self.wait_serving(node_id)

    def stop(self, node_id: str) -> int:
        """In order; the exit status."""
        process = self.processes[node_id]
        process.send_signal(signal.SIGTERM)
        return process.wait(30)

    def kill(self, node_id: str) -> None:
        self.processes[node_id].kill()
        self.processes[node_id].wait()

    def close(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()

    def ended(self, node_id: str, *, timeout: float = 90.0) -> int:
        """The exit status of a node that stops by itself."""
        return self.processes[node_id].wait(timeout)

    def all_run(self) -> None:
        for node_id, process in self.processes.items():
            assert process.poll() is None, f"{node_id} ended\n{self.log(node_id)[-3_000:]}"

    # ---- what they say --------------------------------------------------------------------------

    def call(self, node_id: str, method: str, path: str, body: Any = None, **rest: Any) -> Any:
        return call(self.http(node_id), method, path, body, **rest)

    def health(self, node_id: str) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = self.call(node_id, "GET", "/api/health", timeout=2.0)
        except (OSError, HttpError):
            return {}
        return answer

    def wait_serving(self, node_id: str) -> None:
        def serving() -> bool:
            assert self.processes[node_id].poll() is None, self.log(node_id)[-3_000:]
            return bool(self.health(node_id).get("leader"))

        wait_for(f"{node_id} serves", serving)

    def wait_ready(self, node_id: str) -> None:
        """As who upgrades does, before the next node."""

        def ready() -> bool:
            try:
                return bool(self.call(node_id, "GET", "/api/ready", timeout=2.0)["ready"])
            except (OSError, HttpError):
                return False

        wait_for(f"{node_id} is ready", ready)

    def leader(self) -> str:
        def found() -> str:
            for node_id, process in self.processes.items():
                if process.poll() is None and self.health(node_id).get("role") == "leader":
                    return node_id
            return ""

        return str(wait_for("a node leads", found))

    def make_lead(self, node_id: str) -> None:
        """Ask whoever leads to hand over, by stopping and starting it in its own release."""
        deadline = 20
        while (leader := self.leader()) != node_id:
            assert deadline, f"{node_id} never leads"
            deadline -= 1
            process = self.processes[leader]
            process.send_signal(signal.SIGSTOP)
            wait_for("another one leads", lambda leader=leader: self._other_leads(leader))
            process.send_signal(signal.SIGCONT)

    def _other_leads(self, leader: str) -> bool:
        others = [node_id for node_id in self.processes if node_id != leader]
        return any(self.health(node_id).get("role") == "leader" for node_id in others)

    def states(self) -> dict[str, tuple[int, str]]:
        """Index and digest of each node's state, by its own word."""
        return {node_id: self.state(node_id) for node_id in self.ids}

    def state(self, node_id: str) -> tuple[int, str]:
        listed = self.call(node_id, "GET", "/api/cluster")["nodes"]
        row = next(row for row in listed if row["id"] == node_id)
        return row["applied_index"], row["state_digest"]

    def wait_equal(self) -> None:
        """All nodes are at one index with one digest."""
        last: dict[str, Any] = {}

        def equal() -> bool:
            last.update(self.states())
            return len(set(last.values())) == 1

        try:
            wait_for("all nodes have one state", equal)
        except AssertionError as error:
            raise AssertionError(f"{error}: {last}") from None

    def gauge(self, node_id: str, name: str) -> float:
        import urllib.request

        with urllib.request.urlopen(f"http://{self.metrics(node_id)}/metrics", timeout=5) as answer:
            text = answer.read().decode()
        found = re.search(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)
        assert found, f"{name} is not among the metrics"
        return float(found[1])


_TABLES = ("runs", "steps", "signals", "events", "timers", "requests", "arrivals", "outbox")


def stored_rows(data_dir: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of a stopped node's state, as its bytes are."""
    db = sqlite3.connect(f"file:{data_dir / 'state.db'}?mode=ro", uri=True)
    try:
        return {
            table: sorted(db.execute(f"SELECT * FROM {table}").fetchall(), key=repr)
            for table in _TABLES
        }
    finally:
        db.close()


@contextlib.contextmanager
def mixed_cluster(directory: Path, **settings: Any) -> Iterator[MixedCluster]:
    """Nothing of it runs any more at the end."""
    cluster = MixedCluster(directory, **settings)
    try:
        yield cluster
    finally:
        cluster.close()
