"""DIR/dev.json: which nodes of a `raftflow dev` cluster run, and where.

The supervisor alone writes it, and holds a lock on DIR/dev.lock while it lives. Other commands ask:
to start a node they leave DIR/ID.start behind, which the supervisor takes away.
"""

import fcntl
import json
import os
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from raftflow.cluster.cli.errors import EXIT_USAGE, CommandError

PORTS = {"http": 8233, "grpc": 7233, "raft": 9233, "metrics": 9090}
ANSWER_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class DevNode:
    """A node of the cluster; `pid` is None while it is dead."""

    id: str
    pid: int | None
    http: str
    grpc: str
    raft: str
    metrics: str
    data_dir: str


@dataclass(frozen=True, slots=True)
class DevCluster:
    directory: Path
    cluster_id: str
    nodes: tuple[DevNode, ...]
    tls: bool = False

    @property
    def certificates(self) -> Path:
        """Its authority and its pairs, where it speaks TLS."""
        return self.directory / "tls"

    def url(self, node: DevNode) -> str:
        return f"{'https' if self.tls else 'http'}://{node.http}"

    def node(self, node_id: str) -> DevNode:
        for each in self.nodes:
            if each.id == node_id:
                return each
        known = ", ".join(each.id for each in self.nodes)
        raise CommandError(f"no node {node_id!r} here; there are {known}", status=EXIT_USAGE)

    def with_pid(self, node_id: str, pid: int | None) -> "DevCluster":
        nodes = (replace(each, pid=pid) if each.id == node_id else each for each in self.nodes)
        return replace(self, nodes=tuple(nodes))


def plan(directory: Path, *, count: int | None, port_offset: int, tls: bool = False) -> DevCluster:
    """The cluster to run: a directory keeps its cluster id, its number of nodes, and TLS."""
    existing = read(directory) if (directory / "dev.json").exists() else None
    if existing and count not in (None, len(existing.nodes)):
        raise CommandError(
            f"{directory} holds a cluster of {len(existing.nodes)} nodes, not of {count}; "
            "use another --data-dir",
            status=EXIT_USAGE,
        )
    count = len(existing.nodes) if existing else count or 3
    if port_offset + max(PORTS.values()) + count > 65536:
        raise CommandError(f"--port-offset {port_offset} is too high", status=EXIT_USAGE)
    nodes = []
    for index in range(count):
        at = {name: f"127.0.0.1:{port + index + port_offset}" for name, port in PORTS.items()}
        node_id = f"n{index + 1}"
        nodes.append(DevNode(node_id, None, **at, data_dir=str(directory / node_id)))
    cluster_id = existing.cluster_id if existing else f"dev-{uuid.uuid4().hex[:8]}"
    return DevCluster(directory, cluster_id, tuple(nodes), tls or bool(existing and existing.tls))


def read(directory: Path) -> DevCluster:
    path = directory / "dev.json"
    try:
        document = json.loads(path.read_text("utf-8"))
        nodes = tuple(DevNode(**node) for node in document["nodes"])
        return DevCluster(directory, document["cluster_id"], nodes, document.get("tls", False))
    except FileNotFoundError:
        raise CommandError(f"{path} does not exist: no `raftflow dev` ran there") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CommandError(f"{path} cannot be read: {error}") from None


def write(cluster: DevCluster) -> None:
    """Whole or not at all: a reader never sees half of it."""
    document = {
        "cluster_id": cluster.cluster_id,
        "tls": cluster.tls,
        "supervisor": os.getpid(),
        "nodes": [
            {name: getattr(node, name) for name in DevNode.__slots__} for node in cluster.nodes
        ],
    }
    path = cluster.directory / "dev.json"
    temporary = path.with_name(".dev.json.tmp")
    temporary.write_text(json.dumps(document, indent=2) + "\n", "utf-8")
    temporary.replace(path)


@contextmanager
def supervisor_lock(directory: Path) -> Iterator[None]:
    """Held while a supervisor lives; the kernel gives it back however that ends."""
    with (directory / "dev.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CommandError(f"a `raftflow dev` runs in {directory} already") from None
        yield


def start_node(directory: Path, node_id: str) -> str:
    """Asks the supervisor for the node; returns what happened."""
    node = _supervised(directory, node_id)
    if node.pid is not None:
        return f"{node_id} runs already (pid {node.pid})"
    request = start_request(directory, node_id)
    request.touch()
    try:
        pid = _wait_for(directory, node_id, lambda pid: pid is not None)
    finally:
        request.unlink(missing_ok=True)
    return f"{node_id} started (pid {pid})"


def kill_node(directory: Path, node_id: str) -> str:
    """SIGKILL to the node; returns when dev.json says so."""
    node = _supervised(directory, node_id)
    if node.pid is None:
        return f"{node_id} is dead already"
    try:
        os.kill(node.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it died a moment ago and the supervisor is about to notice
    _wait_for(directory, node_id, lambda pid: pid != node.pid)
    return f"{node_id} killed (pid {node.pid})"


def start_request(directory: Path, node_id: str) -> Path:
    return directory / f"{node_id}.start"


def _supervised(directory: Path, node_id: str) -> DevNode:
    """The node, of a cluster whose supervisor lives: only then are its pids true."""
    node = read(directory).node(node_id)
    try:
        with supervisor_lock(directory):
            pass
    except CommandError:
        return node
    raise CommandError(
        f"no `raftflow dev` runs in {directory}; start it with: raftflow dev --data-dir {directory}"
    )


def _wait_for(directory: Path, node_id: str, reached: Callable[[int | None], bool]) -> int | None:
    give_up_at = time.monotonic() + ANSWER_TIMEOUT_S
    while time.monotonic() < give_up_at:
        pid = read(directory).node(node_id).pid
        if reached(pid):
            return pid
        time.sleep(0.02)
    raise CommandError(f"the supervisor of {directory} does not answer")
