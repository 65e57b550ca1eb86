"""Plain processes on 127.0.0.1: no root needed, and no faults of networks and disks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.jepsen.hosts.processes import ProcessCluster
from tests.support.dev_cluster import PORT_BASES, free_offset

SERVICES = dict(zip(("http", "grpc", "raft", "metrics"), PORT_BASES, strict=True))


class Loopback(ProcessCluster):
    left_out = (
        "network faults (partitions, delay, loss, duplication): they need root",
        "power loss and full disks: they need root",
    )

    def __init__(
        self,
        directory: Path,
        nodes: int,
        *,
        settings: Mapping[str, str] | None = None,
        release: str = "",
    ) -> None:
        super().__init__(directory, nodes, settings=settings, release=release)
        self._offset = free_offset(nodes)

    def address(self, node: str, service: str) -> str:
        return f"127.0.0.1:{SERVICES[service] + self._offset + self._ids.index(node)}"
