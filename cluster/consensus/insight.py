"""What a node can tell of its consensus to whoever asks why something does not go on.

It only looks, and at any time: a node that repairs its log has no core yet, and says what it lacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from raftflow.cluster.consensus.contacts import Contact
from raftflow.cluster.consensus.core import Core
from raftflow.cluster.consensus.mesh import Mesh
from raftflow.cluster.consensus.recovery import Recovery
from raftflow.cluster.consensus.snapshots import Fetch, Pin, SnapshotFetcher, SnapshotSource
from raftflow.cluster.consensus.types import Votes
from raftflow.raftlog.journal import Journal


@dataclass(frozen=True, slots=True)
class LogSpan:
    """The log on this node's disk, and what its start waits for beside the store."""

    first_index: int
    last_index: int
    flushed_index: int
    pins: tuple[Pin, ...]


@dataclass(frozen=True, slots=True)
class Damage:
    """What was found to be damaged in the log, and what is waited for."""

    waiting_for: str
    wounds: tuple[str, ...]
    abstains: bool


class Insight:
    def __init__(self, recovery: Recovery) -> None:
        self._recovery = recovery
        self.mesh: Mesh | None = None
        self._core: Core | None = None
        self._journal: Journal | None = None
        self._source: SnapshotSource | None = None
        self._fetcher: SnapshotFetcher | None = None

    def begin(
        self, core: Core, journal: Journal, source: SnapshotSource, fetcher: SnapshotFetcher
    ) -> None:
        self._core, self._journal = core, journal
        self._source, self._fetcher = source, fetcher

    def contacts(self) -> dict[str, Contact]:
        """How every other node is reached from here."""
        return self.mesh.contacts.all() if self.mesh is not None else {}

    def refused_hosts(self) -> Mapping[str, tuple[float, str]]:
        """Hosts of the last callers with whom TLS failed: when, and why."""
        return self.mesh.refused_hosts if self.mesh is not None else {}

    def votes(self) -> Votes | None:
        return self._core.votes() if self._core is not None else None

    def log(self) -> LogSpan | None:
        if self._journal is None or self._source is None:
            return None
        journal = self._journal
        return LogSpan(
            first_index=journal.first_index,
            last_index=journal.last_index,
            flushed_index=journal.flushed_index,
            pins=tuple(self._source.pins()),
        )

    def fetch(self) -> Fetch | None:
        """The copy of the state that this node is fetching."""
        return self._fetcher.fetch if self._fetcher is not None else None

    def damage(self) -> Damage | None:
        """None: the node is whole."""
        recovery, core = self._recovery, self._core
        if not recovery.waiting_for:
            return None
        return Damage(
            waiting_for=recovery.waiting_for,
            wounds=recovery.wounds,
            abstains=core is not None and core.abstaining and not core.awaiting_copy,
        )
