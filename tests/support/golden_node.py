"""A single node over one data directory, and what it says of its state."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dev_cluster import HttpError, call, free_offset, serve_command, wait_for, workflow_path


class GoldenNode:
    """`raftflow serve` without peers."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        offset = free_offset(1)
        self.http = f"127.0.0.1:{8233 + offset}"
        self._command = serve_command(
            "n1",
            data_dir,
            http=self.http,
            grpc=f"127.0.0.1:{7233 + offset}",
            raft=f"127.0.0.1:{9233 + offset}",
            metrics=f"127.0.0.1:{9090 + offset}",
        )

    def start(self) -> None:
        self.log = self.data_dir.with_suffix(".log")
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(self._command, stdout=output, stderr=output)
        wait_for(f"the node leads\n{self.log.read_text()}", self._leads)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        return call(self.http, method, path, body)

    def status(self, workflow_id: str) -> str:
        return str(self.call("GET", workflow_path(workflow_id))["status"])

    def _leads(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        try:
            return bool(self.call("GET", "/api/health")["role"] == "leader")
        except (OSError, HttpError):
            return False

    def observed(self, workflows: Iterable[str]) -> dict[str, Any]:
        """These runs, their histories, and the digest of the whole state at its index."""
        (row,) = self.call("GET", "/api/cluster")["nodes"]
        return {
            "applied_index": row["applied_index"],
            "state_digest": row["state_digest"],
            "runs": {
                workflow_id: {
                    "run": self.call("GET", workflow_path(workflow_id)),
                    "history": self.call("GET", workflow_path(workflow_id, "/history")),
                }
                for workflow_id in workflows
            },
        }
