"""What a leader knows of each follower's log, and what a follower knows of its leader's."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum

from pysyncobj.node import Node

from raftflow.cluster.consensus.types import SnapshotManifest

LONG_AGO = float("-inf")


class Mode(Enum):
    PROBING = "probing"  # one message at a time, until the follower has said where the logs meet
    STREAMING = "streaming"  # a bounded pipeline
    SNAPSHOT = "snapshot"  # it needs what is compacted


class Progress:
    """One follower, as the leader sees it."""

    __slots__ = (
        "asked_at",
        "connected",
        "incarnation",
        "inflight",
        "last_contact",
        "leaving",
        "match_index",
        "member",
        "mode",
        "next_index",
        "node",
        "offer",
        "probe_sent",
        "sent_at",
        "sent_commit",
        "sent_round",
    )

    def __init__(self, node: Node) -> None:
        self.node = node
        self.connected = False
        self.incarnation = ""  # of the disk behind the newest connection
        self.member = False  # of the configuration in force
        self.leaving = 0  # the index of the entry that removes it, until it was told
        self.lead(next_index=1, now=LONG_AGO)

    def lead(self, *, next_index: int, now: float) -> None:
        """A new leadership begins: nothing is known."""
        self.match_index = 0
        self.last_contact = now
        self.probe(next_index)

    def reconnect(self) -> None:
        """A new connection: what was acknowledged must be acknowledged anew."""
        next_index = self.match_index + 1 if self.match_index else self.next_index
        self.match_index = 0
        self.probe(next_index)

    def probe(self, next_index: int) -> None:
        self.mode = Mode.PROBING
        self.next_index = next_index
        self.probe_sent = False
        self.inflight: deque[int] = deque()  # the last index of each batch
        self.sent_commit = self.sent_round = 0
        self.sent_at = LONG_AGO
        self.offer: SnapshotManifest | None = None
        self.asked_at = LONG_AGO


@dataclass(slots=True)
class Following:
    """The leader of one term, as a follower sees it. A new term begins with a new one."""

    # Up to here our log is known to be the leader's; acks and commits never go beyond (rows 3, 5).
    # -1: nothing is known.
    verified: int = -1
    commit: int = 0  # the highest commit index that the leader spoke of
    # The lowest index at which our log is known to differ from the leader's (row 7).
    conflict: int | None = None
    round: int = 0  # the newest read round that reached us; 0 = the leader has not spoken yet
    replied_round: int = 0
    replied_at: float = LONG_AGO
    reply_due: bool = False
    offered: str | None = None
    offered_at: float = LONG_AGO
