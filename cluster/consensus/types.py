"""The words that the core, the driver and the simulator share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NoReturn, Protocol

from raftflow.cluster.consensus.membership import Configuration
from raftflow.cluster.consensus.prevote import Objection
from raftflow.cluster.consensus.watchdog import LoopLag
from raftflow.raftlog.journal import LogEntry


class Role(Enum):
    FOLLOWER = "follower"
    CANDIDATE = "candidate"
    LEADER = "leader"


class NotLeader(Exception):  # an answer, not a fault
    """This node cannot propose; `leader` is who probably can."""

    def __init__(self, leader: str | None) -> None:
        super().__init__(f"not the leader; the leader is {leader or 'unknown'}")
        self.leader = leader


class ChangeRefused(Exception):  # an answer, not a fault
    """This configuration must not follow the present one, or not yet; says why."""


class Unavailable(Exception):
    """No leader could confirm a read index in time."""


class ConsensusBroken(Exception):
    """An invariant of Raft does not hold. The process must end: going on could lose writes."""


@dataclass(frozen=True, slots=True)
class Proposed:
    """Where a proposal stands in the log; it is committed iff this term is committed there."""

    index: int
    term: int


@dataclass(frozen=True, slots=True)
class SnapshotManifest:
    """What a follower needs to fetch a copy of the store and to check it.

    The leader adds the newest configuration that is committed, and the index of its entry: it may
    be newer than the copy. None: the leader is of a release before 0.3.
    """

    index: int
    term: int
    size: int
    sha256: str
    snapshot_id: str
    configuration: Configuration | None = None
    configuration_index: int = 0


@dataclass(frozen=True, slots=True)
class Timing:
    heartbeat_ms: int = 50
    election_min_ms: int = 400
    election_max_ms: int = 800

    def __post_init__(self) -> None:
        if self.heartbeat_ms < 1:
            raise ValueError("heartbeat_ms must be at least 1")
        if self.election_min_ms <= 3 * self.heartbeat_ms:
            raise ValueError("election_min_ms must be more than three heartbeats")
        if self.election_max_ms <= self.election_min_ms:
            raise ValueError("election_max_ms must be more than election_min_ms")


@dataclass(frozen=True, slots=True)
class Election:
    """One change of who leads, as this node saw it."""

    at_s: float
    term: int
    leader: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class Ballot:
    """What this node answered to one that would lead; a pre-vote changes nothing. The logs are
    (last term, last index)."""

    at_s: float
    term: int
    candidate: str
    pre: bool
    objection: Objection | None  # None: it said yes
    candidate_log: tuple[int, int]
    own_log: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Votes:
    """What this node knows of the election that is under way: its own vote of this term, its own
    campaign (``asked_term`` 0: none; a pre-vote asks for the next term) and what it answered to
    others lately, oldest first."""

    voted_for: str | None
    asked_term: int
    granted_by: frozenset[str]
    ballots: tuple[Ballot, ...]


@dataclass(frozen=True, slots=True)
class PeerStatus:
    connected: bool
    match_index: int
    next_index: int
    last_contact_s: float | None
    mode: str
    voter: bool = True


@dataclass(slots=True)
class Counters:
    """Since the process began."""

    entries_proposed: int = 0
    entries_received: int = 0
    messages_sent: int = 0
    messages_received: int = 0
    payload_bytes_sent: int = 0
    payload_bytes_received: int = 0
    pre_votes: int = 0
    elections: int = 0


@dataclass(frozen=True, slots=True)
class ConsensusStatus:
    node_id: str
    role: Role
    term: int
    leader: str | None
    commit_index: int
    heard_commit_index: int  # what the leader said, be our log that far or not
    delivered_index: int
    first_index: int
    last_index: int
    flushed_index: int
    leader_contact_s: float | None
    peers: dict[str, PeerStatus]
    elections: tuple[Election, ...]
    counters: Counters
    configuration: Configuration
    configuration_index: int
    committed_configuration_index: int

    def leader_heard(self, within_ms: int) -> str | None:
        """The leader, if it was heard of lately: without a majority nobody else is elected, and the
        last one's name stays."""
        silence_s = self.leader_contact_s
        return self.leader if silence_s is not None and silence_s * 1_000 < within_ms else None


class Listener(Protocol):
    """The layer above. Both are called on the loop and only hand over."""

    def on_apply(self, entries: Sequence[LogEntry]) -> None: ...
    def on_role(self, role: Role, term: int, leader: str | None) -> None: ...


class Callbacks(Protocol):
    """What the core asks of its surroundings. Called on the thread that called the core."""

    def on_commit(self, entries: Sequence[LogEntry]) -> None:
        """Committed entries, in order, each exactly once since `applied_index`.

        Only hands over, and must not raise. A no-op or a configuration comes with the payload
        b"".
        """

    def on_role(self, role: Role, term: int, leader: str | None) -> None:
        """Role, term or leader is not what it was."""

    def on_configuration(self, index: int, configuration: Configuration, committed: bool) -> None:
        """Who belongs to the cluster from now on: an entry was appended (or cut off, and an older
        one counts again), or is committed. A committed one must be on disk when this returns."""

    def on_snapshot_needed(self, peer: str) -> None:
        """Leader: `peer` needs entries that are compacted; answer with `Core.snapshot_ready`."""

    def on_snapshot_offer(self, leader: str, manifest: SnapshotManifest) -> None:
        """Follower: fetch this, install it, then call `Core.snapshot_installed`.

        Comes again about once a second until it is installed or something newer is offered.
        """

    def wants_flush(self) -> None:
        """The journal holds entries that are not on disk. Flush it, then call `Core.flushed`."""

    def fatal(self, error: BaseException) -> NoReturn:
        """The node must end now; nothing may be acknowledged any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerInfo:
    """A member as it introduced itself; empty addresses until it has."""

    id: str
    http: str
    grpc: str
    raft: str
    metrics: str
    version: str
    feature_level: int
    connected: bool
    voter: bool
    incarnation: str  # of the process that was met, which may not be the recorded one


@dataclass(frozen=True, slots=True)
class DriverStats:
    ticks: int
    flushes: int
    flush_seconds: float
    messages_sent: int
    messages_received: int
    messages_dropped: int
    bytes_sent: int
    bytes_received: int
    loop_lag: LoopLag
