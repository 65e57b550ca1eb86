"""Three real nodes whose disks fail on demand, and a load that remembers what was acknowledged."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import disk_shim
from dev_cluster import HttpError, call, free_offset, serve_command, wait_for
from disk_shim import FaultFile

NODES = ("n1", "n2", "n3")
SMALL = {
    "RAFTFLOW_STORAGE_SEGMENT_BYTES": "65536",
    "RAFTFLOW_STORAGE_LOG_TAIL_ENTRIES": "20",
    "RAFTFLOW_STORAGE_CHECKPOINT_INTERVAL_MS": "200",
    "RAFTFLOW_LOG_LEVEL": "info",
}


class ShimCluster:
    """Node ids are directories below the root, so a fault's pattern begins with the node's id."""

    def __init__(self, folder: Path, nodes: tuple[str, ...] = NODES) -> None:
        self.root = folder / "disks"
        self.nodes = nodes
        self.logs = folder
        self.faults = FaultFile(folder / "fault")
        self._offset = free_offset(len(nodes))
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        for name in nodes:
            (self.root / name).mkdir(parents=True)

    def _port(self, base: int, name: str) -> str:
        return f"127.0.0.1:{base + self._offset + self.nodes.index(name)}"

    def http(self, name: str) -> str:
        return self._port(8233, name)

    def data_dir(self, name: str) -> Path:
        return self.root / name

    def start(self, name: str) -> subprocess.Popen[bytes]:
        peers = ",".join(f"{each}={self._port(9233, each)}" for each in self.nodes)
        command = serve_command(
            name,
            self.data_dir(name),
            http=self.http(name),
            grpc=self._port(7233, name),
            raft=self._port(9233, name),
            metrics=self._port(9090, name),
            arguments=("--cluster-id", "shim", "--peers", peers),
        )
        shim = disk_shim.environment(self.root, faults=self.faults.path)
        with (self.logs / f"{name}.log").open("ab") as output:
            process = self._running[name] = subprocess.Popen(
                command, stdout=output, stderr=output, env={**os.environ, **SMALL, **shim}
            )
        return process

    def stop(self) -> None:
        for process in self._running.values():
            process.kill()
        for process in self._running.values():
            process.wait()

    def kill(self, name: str) -> None:
        process = self._running.pop(name)
        process.kill()
        process.wait()

    def pause(self, name: str) -> None:
        self._running[name].send_signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        self._running[name].send_signal(signal.SIGCONT)

    def ended(self, name: str, *, timeout: float) -> int:
        """The exit status of a process that ends by itself."""
        return self._running.pop(name).wait(timeout)

    def log(self, name: str) -> str:
        return (self.logs / f"{name}.log").read_text(errors="replace")

    # ---- asking ---

    def health(self, name: str) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = call(self.http(name), "GET", "/api/health", timeout=1.0)
        except (OSError, HttpError):
            return {}
        return answer

    def leader(self) -> str:
        def found() -> str | None:
            leads = [each for each in self._running if self.health(each).get("role") == "leader"]
            return leads[0] if len(leads) == 1 else None

        name: str = wait_for("a node leads", found)
        return name

    def rows(self, name: str) -> dict[str, dict[str, Any]]:
        """The cluster as this node sees it, by node id; empty when it does not answer."""
        try:
            nodes = call(self.http(name), "GET", "/api/cluster", timeout=2.0)["nodes"]
        except (OSError, HttpError):
            return {}
        return {each["id"]: each for each in nodes}

    def caught_up(self, name: str) -> bool:
        """As far as the leader, with the same digest where both stand at one index."""
        rows = self.rows(name)
        leads = [row for row in rows.values() if row["role"] == "leader"]
        own = rows.get(name, {}).get("applied_index")
        return bool(leads) and own is not None and own + 5 >= leads[0]["applied_index"]

    def same_state(self) -> bool:
        seen = {
            (row["applied_index"], row["state_digest"]) for row in self.rows(self.leader()).values()
        }
        return len(seen) == 1 and None not in seen.pop()


class Load:
    """Starts runs through every node until told to stop; remembers each acknowledgement."""

    def __init__(self, cluster: ShimCluster, writers: int = 1) -> None:
        self._cluster = cluster
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self.acknowledged: dict[str, float] = {}  # workflow id -> when, monotonic
        self._threads = [
            threading.Thread(target=self._run, args=(name, number), daemon=True)
            for name in cluster.nodes
            for number in range(writers)
        ]

    def start(self) -> None:
        types = {"workflow_types": ["Idle"], "worker_id": "t"}
        call(self._cluster.http(self._cluster.leader()), "POST", "/api/workflow-types", types)
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def acknowledged_since(self, moment: float) -> int:
        with self._lock:
            return sum(at > moment for at in self.acknowledged.values())

    def _run(self, name: str, writer: int) -> None:
        address, count = self._cluster.http(name), 0
        while not self._stop.is_set():
            count += 1
            workflow_id = f"{name}-{writer}-{count}"
            body = {"type": "Idle", "workflow_id": workflow_id, "input": "x" * 4_000}
            try:
                call(address, "POST", "/api/workflows", body, timeout=8)
            except (OSError, HttpError, json.JSONDecodeError, ValueError):
                time.sleep(0.05)
                continue
            with self._lock:
                self.acknowledged[workflow_id] = time.monotonic()
            time.sleep(0.01)  # leave the processor to the nodes
