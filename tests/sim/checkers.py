"""What must hold after every step, whatever happened (CONSENSUS rows; Raft figure 3)."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from raftflow.cluster.consensus.types import Proposed, Role
from raftflow.cluster.consensus.wire import Message
from raftflow.raftlog import hardstate
from raftflow.raftlog.journal import LogEntry

if TYPE_CHECKING:
    from tests.sim.node import SimNode


class Violation(AssertionError):
    """A promise of Raft was broken."""


def require(holds: bool, promise: str, **facts: object) -> None:
    if not holds:
        told = ", ".join(f"{name}={value}" for name, value in facts.items())
        raise Violation(f"{promise}: {told}")


class Checks:
    def __init__(self, names: list[str]) -> None:
        self._majority = len(names) // 2 + 1
        self._entries: dict[tuple[int, int], tuple[int, int]] = {}  # (payload, term before)
        self.applied: dict[int, tuple[int, int]] = {}  # index -> term, payload
        self._digests: dict[int, int] = {}
        self._leaders: dict[int, str] = {}
        self._votes: dict[tuple[str, int], str] = {}
        self._promised = dict.fromkeys(names, (0, 0))
        self._commit = dict.fromkeys(names, 0)
        self._leading = dict.fromkeys(names, 0)  # the term in which a node led after its last step
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

    def _check_vote(self, node: SimNode, term: int, vote: str) -> None:
        first = self._votes.setdefault((node.name, term), vote)
        require(first == vote, "one vote a term", node=node.name, term=term, votes=(first, vote))
        on_disk = hardstate.load(node.disk.after_power_loss(), "/raft")
        require(
            on_disk == (term, vote),
            "a vote is on disk before it is shown",
            node=node.name,
            shown=(term, vote),
            on_disk=on_disk,
        )

    def on_start(self, node: SimNode) -> None:
        index, term = self._promised[node.name]
        journal = node.journal
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
        holders = [
            other.name
            for other in self.nodes
            if other.incarnation
            and (
                other.journal.prev_index >= entry.index
                or (
                    other.journal.flushed_index >= entry.index
                    and other.journal.term(entry.index) == entry.term
                )
            )
        ]
        require(
            len(holders) >= self._majority,
            "what counts as committed is on the disks of a majority",
            node=node.name,
            index=entry.index,
            term=entry.term,
            holders=holders,
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
