"""Node processes: started, killed, frozen, watched. Where they live is a subclass's affair."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

from tests.jepsen.cluster import CLOCKS, FSYNC, MEMBERSHIP, OLD_RELEASE, REPAIR
from tests.jepsen.hosts.shim import Control, build, compiler
from tests.support.released import unpack

SERVE = (sys.executable, "-P", "-m", "raftflow.cluster.cli.main", "serve")
STOP_S = 30.0
# Waits for the runner's end, however it comes, and takes its whole process group with it.
GUARD = ("sh", "-c", "read _; kill -9 0")


def wait_for(what: str, condition: Callable[[], Any], *, deadline: float) -> Any:
    """The first true value of ``condition``; AssertionError with ``what`` after the deadline."""
    until = time.monotonic() + deadline
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > until:
            raise AssertionError(f"within {deadline:g} s: {what}")
        time.sleep(0.02)


def state_of(pid: int) -> str:
    """The letter that the kernel gives a process: R, S, D, T (stopped), Z; empty when gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def of_the_product() -> frozenset[str]:
    """What this tree can do that earlier releases could not."""
    modules = {
        MEMBERSHIP: "raftflow.cluster.cli.node",
        REPAIR: "raftflow.cluster.consensus.repair",
    }
    return frozenset(name for name, module in modules.items() if find_spec(module))


class ProcessCluster:
    """Nodes n1..nN as processes of this machine."""

    left_out: tuple[str, ...] = ()

    def __init__(
        self,
        directory: Path,
        nodes: int,
        *,
        settings: Mapping[str, str] | None = None,
        release: str = "",
    ) -> None:
        self.capabilities = of_the_product()
        self.directory = directory
        self.settings = dict(settings or {})
        self._ids = [f"n{number}" for number in range(1, nodes + 1)]
        # What runs a node; tests of the suite put one with a bug here.
        self.program: tuple[str, ...] = SERVE
        self._joined: set[str] = set()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        directory.mkdir(parents=True, exist_ok=True)
        # Which nodes run an older release than this tree.
        self.releases: dict[str, str] = {}
        if release:
            self.releases = dict.fromkeys(self._ids, release)
            self._packages = unpack(release, directory / "releases")
            self.capabilities = frozenset({OLD_RELEASE})
        self.controls: dict[str, Control] = {}
        self._shim: Path | None = None
        if compiler() is not None:
            self._shim = build(directory)
            self.controls = {node: Control(directory / f"{node}.control") for node in self._ids}
            self.capabilities |= {CLOCKS, FSYNC}
        self._guard = subprocess.Popen(GUARD, stdin=subprocess.PIPE, process_group=0)

    # ---- where they are; subclasses say ---------------------------------------------------------

    def address(self, node: str, service: str) -> str:
        """host:port of http, grpc, raft or metrics."""
        raise NotImplementedError

    def environment(self, node: str) -> dict[str, str]:
        environment = {**os.environ, **self.settings}
        if node in self.releases:
            environment["PYTHONPATH"] = str(self._packages)
        if self._shim is not None:
            environment["LD_PRELOAD"] = str(self._shim)
            environment["JEPSEN_CONTROL"] = str(self.controls[node].path)
        return environment

    def wrapper(self, node: str) -> tuple[str, ...]:
        """Words before the command that put the process where it belongs; they must exec it."""
        return ()

    def data_dir(self, node: str) -> Path:
        return self.directory / node

    # ---- the cluster ----------------------------------------------------------------------------

    def ids(self) -> list[str]:
        return list(self._ids)

    def http(self, node: str) -> str:
        return self.address(node, "http")

    def grpc(self, node: str) -> str:
        return self.address(node, "grpc")

    def log(self, node: str) -> Path:
        return self.directory / f"{node}.log"

    def pid(self, node: str) -> int:
        return self._processes[node].pid

    def alive(self, node: str) -> bool:
        process = self._processes.get(node)
        return process is not None and process.poll() is None

    def exit_status(self, node: str) -> int | None:
        process = self._processes.get(node)
        return None if process is None else process.poll()

    def health(self, node: str) -> dict[str, Any] | None:
        answer = self.get(node, "/api/health", patience=1.0)
        return None if answer is None else dict(json.loads(answer))

    def get(
        self, node: str, path: str, *, service: str = "http", patience: float = 5.0
    ) -> bytes | None:
        """The body of a good answer of this node, else None."""
        connection = http.client.HTTPConnection(self.address(node, service), timeout=patience)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()
        return body if answer.status == 200 else None

    def leaders(self) -> dict[int, str]:
        """Who says of itself that it leads which term."""
        found = {}
        for node in self._ids:
            health = self.health(node) if self.alive(node) else None
            if health and health["role"] == "leader":
                found[int(health["term"])] = node
        return found

    def leader(self, *, deadline: float = 20.0) -> str:
        leaders = wait_for("a node leads", self.leaders, deadline=deadline)
        return str(leaders[max(leaders)])

    # ---- life and death -------------------------------------------------------------------------

    def command(self, node: str) -> list[str]:
        # Who was taken out and comes back empty joins the others; its directory then knows them.
        joins = node in self._joined
        members = [each for each in self._ids if not (joins and each == node)]
        peers = ",".join(f"{each}={self.address(each, 'raft')}" for each in members)
        return [
            *self.wrapper(node),
            *self.program,
            *("--node-id", node, "--data-dir", str(self.data_dir(node)), "--cluster-id", "jepsen"),
            *("--join" if joins else "--peers", peers),
            *("--http-addr", self.http(node), "--grpc-addr", self.grpc(node)),
            *("--raft-addr", self.address(node, "raft")),
            *("--metrics-addr", self.address(node, "metrics")),
        ]

    def start(self, node: str) -> None:
        assert not self.alive(node), f"{node} runs already"
        with self.log(node).open("ab") as output:
            self._processes[node] = self._spawn(node, output)

    def _spawn(self, node: str, output: BinaryIO) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.command(node),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=self.environment(node),
            process_group=self._guard.pid,
        )

    def join(self, node: str) -> None:
        """Start it with an empty directory, as a node that was added while the cluster runs."""
        self._joined.add(node)
        self.start(node)

    def start_all(self) -> None:
        for node in self._ids:
            if not self.alive(node):
                self.start(node)

    def signal(self, node: str, number: signal.Signals) -> None:
        if self.alive(node):
            self._processes[node].send_signal(number)

    def kill(self, *nodes: str) -> None:
        for node in nodes:
            self.signal(node, signal.SIGKILL)
        for node in nodes:
            if node in self._processes:
                self._processes[node].wait()

    def stop(self, node: str) -> int:
        self.signal(node, signal.SIGTERM)
        return self._processes[node].wait(STOP_S)

    def pause(self, *nodes: str) -> None:
        for node in nodes:
            self.signal(node, signal.SIGSTOP)

    def resume(self, *nodes: str) -> None:
        for node in nodes:
            self.signal(node, signal.SIGCONT)

    def wait_serving(self, deadline: float, nodes: Iterable[str] | None = None) -> None:
        until = time.monotonic() + deadline
        for node in nodes or self._ids:
            wait_for(
                f"{node} serves (its last words: {self.last_words(node)})",
                lambda node=node: (self.health(node) or {}).get("leader"),
                deadline=max(0.1, until - time.monotonic()),
            )

    def last_words(self, node: str) -> str:
        log = self.log(node)
        return log.read_text(errors="replace")[-800:] if log.exists() else ""

    def close(self) -> None:
        self.kill(*self._ids)
        self._guard.kill()
        self._guard.wait()
