"""Each node with a network, a disk, a clock and an fsync that can be broken; needs root.

To be used within `isolation` only: what it makes ends with the runner.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.jepsen.cluster import DISK, NETWORK
from tests.jepsen.hosts.disks import Disk
from tests.jepsen.hosts.isolation import isolated
from tests.jepsen.hosts.network import Network
from tests.jepsen.hosts.processes import ProcessCluster

PORTS = {"http": 8233, "grpc": 7233, "raft": 9233, "metrics": 9090}


class Netns(ProcessCluster):
    def __init__(
        self,
        directory: Path,
        nodes: int,
        *,
        settings: Mapping[str, str] | None = None,
        release: str = "",
        filesystem: str = "ext4",
    ) -> None:
        assert isolated(), "the machine's own network and mounts are not touched"
        super().__init__(directory, nodes, settings=settings, release=release)
        self.capabilities |= {NETWORK, DISK}
        self.network = Network(self.ids())
        self._images = tempfile.TemporaryDirectory(prefix="disks-", dir=directory)
        self.disks = {
            node: Disk(
                Path(self._images.name) / node,
                Path(self._images.name) / "at" / node,
                kind=filesystem,
            )
            for node in self.ids()
        }

    def address(self, node: str, service: str) -> str:
        return f"{self.network.address(node)}:{PORTS[service]}"

    def wrapper(self, node: str) -> tuple[str, ...]:
        return self.network.wrapper(node)

    def data_dir(self, node: str) -> Path:
        return self.disks[node].mount / "data"

    def cut_power(self, *nodes: str) -> None:
        """As when the cable is pulled: first the processes stand still, so that none sees an
        error of the disk that died under it, then unsynced data is gone, then they are."""
        self.pause(*nodes)
        for node in nodes:
            self.disks[node].cut_power()
        self.kill(*nodes)

    def restore_power(self, *nodes: str) -> list[str]:
        """Disks as they were; who had lost something that was not synced. Starts nobody."""
        return [node for node in nodes if self.disks[node].restore_power()]

    def close(self) -> None:
        super().close()
        self.network.close()
        for disk in self.disks.values():
            disk.remove()
        self._images.cleanup()
