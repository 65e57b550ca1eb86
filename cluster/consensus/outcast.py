"""Whether this node still belongs to its cluster; and if not, why, in words that name the way out.

A node ends only when it is sure: members that are behind refuse a newcomer as well, and a node that
was removed may be added again. The entry that removes it may be history, too, which a newcomer of
the same name reads through: what takes it in again is still on its way.
"""

from __future__ import annotations

import os

from raftflow.cluster.consensus.configurations import Held
from raftflow.cluster.consensus.membership import Configuration
from raftflow.cluster.consensus.membership_file import MembershipFile
from raftflow.cluster.durable import replace_durably, sync_directory

REMOVED = "removed"
# Refused as long as this, with no leader that has it, a node gives up hope that it was added again.
PATIENCE_S = 1.5


class Outcast(Exception):
    """To start this node again as it is changes nothing."""


def no_vote(configuration: Configuration, node_id: str, incarnation: str) -> str:
    """Why this node, on this disk, counts in no majority; empty when it does."""
    own = configuration.find(node_id)
    if own is None:
        return "it is no member"
    if own.incarnation not in ("", incarnation):
        return "its disk is another than the members know: a leader has to take it in again"
    return "" if own.voter or own.api else "it is a learner: it votes once it has caught up"


class Standing:
    """What this node knows to be committed of its own membership, on the disk that it has.

    `raft/removed` stays on disk after the entry that removed it: the log that said so goes.
    ``level``: this process knew once all that its leader knew to be committed. The leader that took
    it in knew every removal before, so what removes it from then on is news.
    """

    level = False

    def __init__(self, file: MembershipFile, directory: str, node_id: str, disk: str) -> None:
        self._file = file
        self._mark = os.path.join(directory, REMOVED)
        self._node_id = node_id
        self._disk = disk
        self._removed = os.path.exists(self._mark)
        self._refused_since: float | None = None

    @property
    def is_member(self) -> bool:
        held = self._file.held
        own = held.configuration.find(self._node_id) if held is not None else None
        return own is not None and own.incarnation in ("", self._disk)

    @property
    def _known(self) -> int:
        return self._file.held.index if self._file.held is not None else -1

    def settle(self, held: Held, newest: Configuration) -> bool:
        """Write down a committed configuration; True if it surely removes this node. `newest` is
        the last one in the log, committed or not."""
        if held.index <= self._known:
            return False  # a copy brought a newer one
        leaves = self.is_member and held.configuration.find(self._node_id) is None
        if leaves:
            replace_durably(self._mark, b"by the configuration of entry %d\n" % held.index)
            self._removed = True
        self._file.store(held)
        if self._removed and self.is_member:
            os.unlink(self._mark)
            sync_directory(os.path.dirname(self._mark))
            self._removed = False
        return leaves and self.level and newest.find(self._node_id) is None

    def surely_removed(self, *, as_of: int, led: bool, now_s: float) -> bool:
        """A peer says that this node does not belong to the cluster, as of this entry. Who was a
        member by an earlier one was removed; who never was one waits."""
        if led or not (self._removed or (self.is_member and as_of > self._known)):
            self._refused_since = None
            return False
        if self._refused_since is None:
            self._refused_since = now_s
        return now_s - self._refused_since >= PATIENCE_S


def old_copy(directory: str, *, seen_by: str) -> Outcast:
    return Outcast(
        f"the data directory {directory} is an old copy: {seen_by} has seen a later start of it, so"
        " votes and acknowledgements of this node are missing. Run"
        f" `raftflow node rebuild {directory}` and start this node again: it then joins as a new"
        " one and fetches everything from the others"
    )


def no_member(node_id: str, why: str, *, directory: str, address: str) -> Outcast:
    return Outcast(
        f"{node_id} {why}. To have it back, run `raftflow node rebuild {directory}` and"
        f" `raftflow node add {node_id}={address}`, and start it with --join; otherwise nothing"
        " here is needed any more"
    )
