"""What the suite needs of a cluster, wherever its nodes run."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

# What hosts can do to a node beside starting and killing it. A nemesis names what it needs.
CLOCKS = "clocks"  # move a node's wall clock
FSYNC = "fsync"  # make its fsync fail or crawl
NETWORK = "network"  # delay, drop and double packets of one direction of one link
DISK = "disk"  # a filesystem of its own: fill it, cut its power
REPAIR = "repair"  # the product fetches damaged entries from its peers
MEMBERSHIP = "membership"  # the product changes its members at run time
OLD_RELEASE = "old_release"  # an older release is installed beside this tree


class Cluster(Protocol):
    """Deadlines are seconds; one that passes raises AssertionError."""

    @property
    def capabilities(self) -> frozenset[str]: ...

    def ids(self) -> list[str]: ...

    def http(self, node: str) -> str:
        """host:port of the JSON API."""
        ...

    def grpc(self, node: str) -> str:
        """host:port of the gRPC API."""
        ...

    def alive(self, node: str) -> bool:
        """Whether its process is there, frozen or not."""
        ...

    def data_dir(self, node: str) -> Path: ...

    def log(self, node: str) -> Path:
        """The file with all that its processes ever printed."""
        ...

    def health(self, node: str) -> dict[str, Any] | None:
        """/api/health of this node alone, None when it does not answer within a second."""
        ...

    def leader(self, *, deadline: float = 20.0) -> str:
        """The node that itself says that it leads, of the newest term."""
        ...

    def start(self, node: str) -> None: ...

    def kill(self, *nodes: str) -> None:
        """SIGKILL, all at the same moment."""
        ...

    def stop(self, node: str) -> int:
        """SIGTERM; returns the exit status."""
        ...

    def pause(self, *nodes: str) -> None: ...

    def resume(self, *nodes: str) -> None: ...

    def wait_serving(self, deadline: float, nodes: Iterable[str] | None = None) -> None:
        """Each answers and knows a leader."""
        ...


def empty(cluster: Cluster, node: str) -> None:
    """Nothing of a node is left; one that never came as far may have had no directory."""
    if cluster.alive(node):
        cluster.stop(node)
    if cluster.data_dir(node).exists():
        shutil.rmtree(cluster.data_dir(node))
