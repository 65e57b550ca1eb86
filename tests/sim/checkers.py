"""What must hold after every step, whatever happened (CONSENSUS rows; Raft figure 3)."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from raftflow.cluster.consensus.configurations import CONFIGURATION, Held
from raftflow.cluster.consensus.membership import Configuration, Member
from raftflow.cluster.consensus.types import Proposed, Role
from raftflow.cluster.consensus.wire import Message
from raftflow.raftlog import hardstate
from raftflow.raftlog.journal import Journal, LogEntry

if TYPE_CHECKING:
    from tests.sim.node import SimNode


class Violation(AssertionError):
    """A promise of Raft was broken."""


def require(holds: bool, promise: str, **facts: object) -> None:
    if not holds:
        told = ", ".join(f"{name}={value}" for name, value in facts.items())
        raise Violation(f"{promise}: {told}")


class Checks:
    def __init__(self) -> None:
        self._entries: dict[tuple[int, int], tuple[int, int]] = {}  # (payload, term before)
        self.applied: dict[int, tuple[int, int]] = {}  # index -> term, payload
        self._digests: dict[int, int] = {}
        self._leaders: dict[int, str] = {}
        self._votes: dict[tuple[str, int], str] = {}
        self._promised = defaultdict[str, tuple[int, int]](lambda: (0, 0))
        self._commit = defaultdict[str, int](int)
        self._leading = defaultdict[str, int](int)  # the term in which it led after its last step
        self._settled = defaultdict[str, int](int)  # the newest configuration it has as committed
        self._configurations: dict[int, Configuration] = {}  # what was committed, by index
        self._lost: dict[str, Journal] = {}  # what was on a disk when it was lost
        self._cut: dict[str, tuple[int, int | None]] = {}
        self._pending: dict[tuple[str, int, int], bytes] = {}
        self.nodes: list[SimNode] = []
        self.acked = 0
        self.acknowledged: list[bytes] = []
        self.acked_index = 0
        self.reads = 0

    # -- the log

    def on_append(self, node: SimNode, entries: Sequence[LogEntry]) -> None:
        if entries:
            require(
                self._cut.pop(node.name, None) != (entries[0].index, entries[0].term),
                "only what conflicts is cut off",
                node=node.name,
                index=entries[0].index,
            )
        before = node.journal.last_term
        for entry in entries:
            known = (zlib.crc32(entry.payload), before)
            before = entry.term
            found = self._entries.setdefault((entry.index, entry.term), known)
            require(
                found == known,
                "log matching: same index and term, other entry or other history",
                node=node.name,
                index=entry.index,
                term=entry.term,
            )

    def on_truncate(self, node: SimNode, index: int) -> None:
        require(
            index > node.core.commit_index,
            "nothing committed is cut off",
            node=node.name,
            index=index,
            commit=node.core.commit_index,
        )
        self._on_loss(node, index, "a committed entry is never overwritten")
        self._cut[node.name] = (index, node.journal.term(index))

    def on_reset(self, node: SimNode, index: int, term: int) -> None:
        self._on_loss(node, index + 1, "installing a snapshot keeps the log that goes on from it")

    def _on_loss(self, node: SimNode, first: int, promise: str) -> None:
        journal = node.journal
        for index in range(max(first, journal.prev_index + 1), journal.last_index + 1):
            term, _payload = self.applied.get(index, (-1, 0))
            require(journal.term(index) != term, promise, node=node.name, index=index, term=term)
        promised, _term = self._promised[node.name]
        if promised >= first:
            self._promised[node.name] = (first - 1, journal.term(first - 1) or 0)

    # -- messages

    def on_send(self, node: SimNode, target: str, message: Message) -> None:
        kind = message["type"]
        if kind == "next_node_idx" and message["success"]:
            acked = message["next_node_idx"] - 1
            journal = node.journal
            require(
                acked <= journal.flushed_index,
                "nothing is acknowledged before it is on disk",
                node=node.name,
                acked=acked,
                flushed=journal.flushed_index,
            )
            if acked > self._promised[node.name][0]:
                self._promised[node.name] = (acked, journal.term(acked) or 0)
        elif kind in ("request_vote", "response_vote"):
            vote = node.name if kind == "request_vote" else target
            self._check_vote(node, message["term"], vote)
        if kind in ("request_vote", "pre_vote"):
            self._check_candidate(node)

    def _check_vote(self, node: SimNode, term: int, vote: str) -> None:
        first = self._votes.setdefault((node.disk_id, term), vote)
        require(first == vote, "one vote a term", node=node.name, term=term, votes=(first, vote))
        on_disk = hardstate.load(node.disk.after_power_loss(), "/raft")
        require(
            on_disk == (term, vote),
            "a vote is on disk before it is shown",
            node=node.name,
            shown=(term, vote),
            on_disk=on_disk,
        )

    def _check_candidate(self, node: SimNode) -> None:
        """It votes by the newest configuration it has, or by the last one that cannot be undone."""
        held = (node.core.configuration, node.core.committed_configuration)
        found = [each.configuration.find(node.name) for each in held]
        require(
            any(m is not None and m.voter and m.incarnation in ("", node.disk_id) for m in found),
            "only voters campaign, on the disk that they are known by",
            node=node.name,
            disk=node.disk_id,
            known=found,
        )

    def on_start(self, node: SimNode) -> None:
        index, term = self._promised[node.name]
        journal = node.journal
        if node.abstains:
            # What it forgot counts for nothing; that it says so is what keeps the others safe.
            index = min(index, journal.last_index)
            term = journal.term(index) or 0
            self._promised[node.name] = (index, term)
        require(
            journal.prev_index >= index or journal.term(index) == term,
            "what was acknowledged is there after a restart",
            node=node.name,
            acked=(index, term),
            last=journal.last_index,
        )
        self._commit[node.name] = self._leading[node.name] = 0
        self._cut.pop(node.name, None)

    # -- what is committed

    def on_commit(self, node: SimNode, entries: Sequence[LogEntry]) -> None:
        expected = node.delivered
        for entry in entries:
            expected += 1
            require(
                entry.index == expected,
                "each entry is handed over once, in order",
                node=node.name,
                index=entry.index,
                expected=expected,
            )
            if entry.index not in self.applied:
                self._check_majority(node, entry)
            self.on_applied(node, entry.index, (entry.term, zlib.crc32(entry.payload)))
            payload = self._pending.pop((node.name, entry.index, entry.term), None)
            if payload is not None:
                require(payload == entry.payload, "what was proposed is committed", node=node.name)
                self.acked += 1
                self.acked_index = max(self.acked_index, entry.index)

    def on_applied(self, node: SimNode, index: int, value: tuple[int, int]) -> None:
        first = self.applied.setdefault(index, value)
        require(
            first == value,
            "no entry is applied differently",
            node=node.name,
            index=index,
            applied=first,
            now=value,
        )

    def _check_majority(self, node: SimNode, entry: LogEntry) -> None:
        configuration = node.core.configuration.configuration
        holders = [
            member.id
            for member in configuration.members
            if member.voter and self._has(member, entry)
        ]
        require(
            len(holders) >= len(configuration.voters) // 2 + 1,
            "what counts as committed is on the disks of a majority",
            node=node.name,
            index=entry.index,
            term=entry.term,
            holders=holders,
            voters=configuration.voters,
        )

    def _has(self, member: Member, entry: LogEntry) -> bool:
        """Its disk has the entry; one that is lost had it, and nobody else speaks for it."""
        node = next((each for each in self.nodes if each.name == member.id), None)
        if node is None or not node.incarnation:
            return False
        disk = member.incarnation or node.first_disk_id
        if disk == node.disk_id:
            journal = node.journal
        elif disk in self._lost:
            journal = self._lost[disk]
        else:
            return False
        return journal.prev_index >= entry.index or (
            journal.flushed_index >= entry.index and journal.term(entry.index) == entry.term
        )

    # -- who belongs to the cluster

    def on_change(
        self, node: SimNode, before: Held, proposed: Proposed, configuration: Configuration
    ) -> None:
        """Judged by itself, not by the product's own words for it."""
        old = {(m.id, m.incarnation) for m in before.configuration.members if m.voter}
        new = {(m.id, m.incarnation) for m in configuration.members if m.voter}
        changed = {name for name, _disk in old ^ new}
        unknown = {name for name, disk in old if not disk}
        require(
            len({name for name in changed if name not in unknown or name not in dict(new)}) <= 1,
            "one voter differs from one configuration to the next",
            before=sorted(old),
            after=sorted(new),
        )
        require(
            before.index <= node.core.commit_index,
            "a configuration is committed before the next one begins",
            before=before.index,
            commit=node.core.commit_index,
        )
        require(
            node.core.configuration == Held(proposed.index, configuration),
            "a configuration is in force when it is appended",
            node=node.name,
        )

    def on_configuration(
        self, node: SimNode, index: int, configuration: Configuration, committed: bool
    ) -> None:
        if not committed:
            return
        first = self._configurations.setdefault(index, configuration) if index else configuration
        require(first == configuration, "one configuration is committed at an index", index=index)
        self._settled[node.name] = max(self._settled[node.name], index)

    def on_started(self, node: SimNode) -> None:
        """What it knew to be committed, its log or its file still says."""
        require(
            node.core.configuration.index >= self._settled[node.name],
            "who belongs to the cluster survives a restart",
            node=node.name,
            known=self._settled[node.name],
            now=node.core.configuration.index,
        )
        newest = node.core.configuration.index
        for index in range(node.journal.prev_index + 1, node.journal.last_index + 1):
            if node.journal.entry(index).payload[:1] == CONFIGURATION:
                require(index <= newest, "the newest configuration is in force", node=node.name)

    def on_disk_lost(self, node: SimNode) -> None:
        if node.incarnation:
            self._lost[node.disk_id] = node.journal
        for known in (self._promised, self._commit, self._leading, self._settled, self._cut):
            known.pop(node.name, None)  # type: ignore[attr-defined]

    def on_elected(self, node: SimNode, term: int) -> None:
        """By a majority of its newest configuration, each on the disk that it is known by."""
        configuration = node.core.configuration.configuration
        nodes = {each.name: each for each in self.nodes}
        voted = []
        for member in configuration.members:
            if member.voter and member.id in nodes:
                disk = member.incarnation or nodes[member.id].first_disk_id
                if self._votes.get((disk, term)) == node.name:
                    voted.append(member.id)
        alone = configuration.voters == (node.name,)
        require(
            alone or len(voted) >= len(configuration.voters) // 2 + 1,
            "a leader has the votes of a majority",
            node=node.name,
            term=term,
            voted=voted,
            voters=configuration.voters,
        )

    def on_state(self, node: SimNode) -> None:
        digest = self._digests.setdefault(node.state.index, node.state.digest)
        require(
            digest == node.state.digest,
            "states are equal at equal indexes",
            node=node.name,
            index=node.state.index,
        )

    # -- roles, proposals, reads

    def on_role(self, node: SimNode, role: Role, term: int, leader: str | None) -> None:
        if role is Role.LEADER:
            first = self._leaders.setdefault(term, node.name)
            require(first == node.name, "one leader a term", term=term, leaders=(first, node.name))

    def on_propose(self, node: SimNode, proposed: Proposed, payload: bytes) -> None:
        self._pending[node.name, proposed.index, proposed.term] = payload

    def on_read(self, node: SimNode, floor: int, index: int) -> None:
        require(
            index >= floor,
            "a linearizable read sees what was acknowledged before it began",
            node=node.name,
            index=index,
            acknowledged=floor,
        )
        self.reads += 1
        self.acked_index = max(self.acked_index, index)

    def after_step(self, node: SimNode) -> None:
        commit = node.core.commit_index
        require(
            self._commit[node.name] <= commit <= node.journal.last_index,
            "the commit index rises, within the log",
            node=node.name,
            before=self._commit[node.name],
            commit=commit,
            last=node.journal.last_index,
        )
        leading = node.core.term if node.core.role is Role.LEADER else 0
        if leading and leading == self._leading[node.name] and commit > self._commit[node.name]:
            require(
                node.journal.term(commit) == leading,
                "a leader counts answers for entries of its own term only",
                node=node.name,
                commit=commit,
                term=leading,
            )
        self._leading[node.name] = leading
        self._commit[node.name] = commit
