"""The configurations of one log: which is in force, and which can still be undone (CONSENSUS 21).

A configuration is in force from the moment it stands in the log, and no longer than it stands
there. What is committed is never undone: one is enough, the newest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from raftflow.cluster.consensus.membership import Configuration, decode
from raftflow.raftlog.journal import LogEntry

# The first byte of an entry in the log.
REGULAR = b"\x00"
CONFIGURATION = b"\x02"


@dataclass(frozen=True, slots=True)
class Held:
    """Index 0 = what the cluster was born with."""

    index: int
    configuration: Configuration


class Configurations:
    def __init__(self, index: int, configuration: Configuration) -> None:
        """Begin with one that is committed. It may stand beyond the end of the log: a snapshot
        that is being installed brought it."""
        self.committed = Held(index, configuration)
        self._later: list[Held] = []

    @property
    def newest(self) -> Held:
        """The one in force."""
        return self._later[-1] if self._later else self.committed

    @property
    def open(self) -> bool:
        """Whether the one in force may still be undone."""
        return bool(self._later)

    def append(self, entries: Iterable[LogEntry]) -> None:
        """Raises MembershipError."""
        for entry in entries:
            if entry.payload[:1] == CONFIGURATION and entry.index > self.newest.index:
                self._later.append(Held(entry.index, decode(entry.payload[1:])))

    def truncate_from(self, index: int) -> None:
        while self._later and self._later[-1].index >= index:
            self._later.pop()

    def commit(self, index: int) -> list[Held]:
        """Everything up to `index` is committed; returns what that settles, oldest first."""
        settled = [held for held in self._later if held.index <= index]
        if settled:
            self.committed = settled[-1]
            del self._later[: len(settled)]
        return settled

    def forget(self) -> None:
        """The log begins anew: what it said about who belongs was not committed."""
        self._later.clear()

    def install(self, held: Held) -> None:
        """A snapshot brought this one. It is committed, and may be newer than the snapshot."""
        if held.index > self.committed.index:
            self.committed = held
            self._later = [later for later in self._later if later.index > held.index]
