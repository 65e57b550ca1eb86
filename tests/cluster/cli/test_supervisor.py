"""The supervisor, with processes that only answer /api/health in place of nodes."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

FAKE_NODE = Path(__file__).with_name("fake_node.py")
SUPERVISE = """
import sys
from pathlib import Path
from raftflow.cluster.cli import devfile
from raftflow.cluster.cli.dev import _say
from raftflow.cluster.cli.supervisor import Supervisor
directory, offset, fake_node, restart = sys.argv[1:]
plan = devfile.plan(Path(directory), count=2, port_offset=int(offset))
with devfile.supervisor_lock(Path(directory)):
    Supervisor(
        plan, restart=restart == "True", config=None, say=_say, serve=(sys.executable, fake_node)
    ).run()
"""
DEADLINE_S = 20.0


def eventually(condition: Callable[[], Any]) -> Any:
    give_up_at = time.monotonic() + DEADLINE_S
    while not (found := condition()):
        assert time.monotonic() < give_up_at, "the condition did not come true in time"
        time.sleep(0.02)
    return found


def free_offset() -> int:
    """An offset at which the eight ports of two nodes are free."""
    for offset in range(20_000, 50_000, 17):
        try:
            for port in (8233, 8234, 7233, 7234, 9233, 9234, 9090, 9091):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port + offset))
        except OSError:
            continue
        return offset
    raise AssertionError("no free ports")


class Dev:
    def __init__(self, directory: Path, offset: int, restart: bool, **env: str) -> None:
        self.directory = directory
        command = [sys.executable, "-c", SUPERVISE, directory, offset, FAKE_NODE, restart]
        self.process = subprocess.Popen(
            [str(part) for part in command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=os.environ | env,
        )

    def pid(self, node_id: str) -> int | None:
        nodes = json.loads((self.directory / "dev.json").read_text())["nodes"]
        return {node["id"]: node["pid"] for node in nodes}[node_id]

    def until(self, line: str) -> list[str]:
        """What is printed up to a line that begins so."""
        assert self.process.stdout is not None
        seen: list[str] = []
        for raw in self.process.stdout:
            seen.append(raw.decode().rstrip())
            if seen[-1].startswith(line):
                return seen
        raise AssertionError(f"it ended without {line!r}: {seen}")

    def node(self, verb: str, node_id: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "raftflow.cluster.cli.main", "dev", "node", verb, node_id]
        return subprocess.run(
            [*command, "--data-dir", str(self.directory)],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[Callable[..., Dev]]:
    started: list[Dev] = []

    def start(*, restart: bool = False, offset: int | None = None, **env: str) -> Dev:
        started.append(Dev(tmp_path, offset or free_offset(), restart, **env))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.communicate()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


pytestmark = pytest.mark.slow


def test_a_node_dies_and_is_started_again(dev: Callable[..., Dev]) -> None:
    cluster = dev()
    cluster.until("ready")
    first = cluster.pid("n1")
    assert first
    assert alive(first)
    killed = cluster.node("kill", "n1")
    assert killed.stdout == f"n1 killed (pid {first})\n", killed.stderr
    assert cluster.pid("n1") is None
    assert "was killed by SIGKILL; it stays dead" in cluster.until("n1 ")[-1]
    assert cluster.node("kill", "n1").stdout == "n1 is dead already\n"
    started = cluster.node("start", "n1")
    second = cluster.pid("n1")
    assert second not in (None, first)
    assert started.stdout == f"n1 started (pid {second})\n", started.stderr
    assert cluster.node("start", "n1").stdout == f"n1 runs already (pid {second})\n"
    assert cluster.node("start", "n9").returncode == 2


def test_a_signal_stops_all_nodes_gracefully_even_paused_ones(dev: Callable[..., Dev]) -> None:
    cluster = dev()
    cluster.until("ready")
    pids = [cluster.pid("n1"), cluster.pid("n2")]
    assert pids[0]
    os.kill(pids[0], signal.SIGSTOP)
    cluster.process.send_signal(signal.SIGTERM)
    assert cluster.process.wait(DEADLINE_S) == 0
    assert not any(pid and alive(pid) for pid in pids)
    assert [cluster.pid("n1"), cluster.pid("n2")] == [None, None]
    for node_id in ("n1", "n2"):
        assert (cluster.directory / f"{node_id}.log").read_text().endswith("stopped\n")
    refused = cluster.node("start", "n1")
    assert refused.returncode == 1
    assert "no `raftflow dev` runs in" in refused.stderr


def test_nodes_die_with_a_supervisor_that_is_killed(dev: Callable[..., Dev]) -> None:
    cluster = dev()
    cluster.until("ready")
    pids = [cluster.pid("n1"), cluster.pid("n2")]
    cluster.process.kill()
    cluster.process.wait()
    eventually(lambda: not any(pid and alive(pid) for pid in pids))


def test_restart_brings_a_dead_node_back(dev: Callable[..., Dev]) -> None:
    cluster = dev(restart=True)
    cluster.until("ready")
    first = cluster.pid("n2")
    assert first
    os.kill(first, signal.SIGKILL)
    assert cluster.until("n2 ")[-1] == "n2 was killed by SIGKILL; it is started again"
    eventually(lambda: cluster.pid("n2") not in (None, first))


def test_nothing_comes_up(dev: Callable[..., Dev]) -> None:
    cluster = dev(FAKE_NODE="broken")
    printed = "\n".join(cluster.until("raftflow.cluster.cli.errors.CommandError: no node came up"))
    assert "n1 ended with status 1 (cannot start); it stays dead" in printed
    assert cluster.process.wait(DEADLINE_S) == 1


def test_a_port_in_use_is_named(dev: Callable[..., Dev]) -> None:
    offset = free_offset()
    with socket.socket() as other:
        other.bind(("127.0.0.1", 7234 + offset))
        other.listen()
        cluster = dev(offset=offset)
        said = cluster.until("raftflow.cluster.cli.errors.CommandError: port")[-1]
    assert f"port {7234 + offset} (grpc of n2) cannot be used: Address already in use" in said


def test_one_supervisor_a_directory(dev: Callable[..., Dev]) -> None:
    dev(FAKE_NODE="mute").until("n2")
    dev().until("raftflow.cluster.cli.errors.CommandError: a `raftflow dev` runs in")


def test_a_directory_keeps_its_cluster(tmp_path: Path) -> None:
    from raftflow.cluster.cli import devfile
    from raftflow.cluster.cli.errors import CommandError

    first = devfile.plan(tmp_path, count=None, port_offset=5)
    assert [node.id for node in first.nodes] == ["n1", "n2", "n3"]
    assert first.nodes[2].http == "127.0.0.1:8240"
    devfile.write(first)
    again = devfile.plan(tmp_path, count=3, port_offset=0)
    assert again.cluster_id == first.cluster_id
    assert again.nodes[0].http == "127.0.0.1:8233"
    with pytest.raises(CommandError, match="holds a cluster of 3 nodes, not of 5"):
        devfile.plan(tmp_path, count=5, port_offset=0)
