"""What a consensus node is told at its start, and what it tells its peers of itself."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from raftflow.cluster.consensus.certified import PeerTls
from raftflow.cluster.consensus.handshake import Hello
from raftflow.cluster.consensus.identity import Identity
from raftflow.cluster.consensus.link import LinkLimits
from raftflow.cluster.consensus.membership import Configuration, Member
from raftflow.cluster.consensus.types import PeerInfo, Timing


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsensusConfig:
    cluster_id: str
    node_id: str
    data_dir: str
    listen: str
    # Raft addresses by node id. An empty directory begins with these as the voters: all of a new
    # cluster, this node included, or without it those of one that it joins. Later they only say
    # where to dial, in preference to what the log says.
    voters: Mapping[str, str]
    raft: str = ""  # where the others reach this node, if `voters` does not say
    http: str = ""
    grpc: str = ""
    metrics: str = ""
    version: str = ""
    feature_level: int = 1
    timing: Timing = field(default_factory=Timing)
    limits: LinkLimits = field(default_factory=LinkLimits)
    segment_bytes: int = 64 << 20
    journal_cache_bytes: int = 64 << 20
    max_entry_bytes: int = 16 << 20
    tls: PeerTls | None = None

    def __post_init__(self) -> None:
        if not self.advertised:
            raise ValueError(f"node {self.node_id!r} is not among the voters {sorted(self.voters)}")
        if self.max_entry_bytes * 2 > self.limits.max_frame_bytes:
            raise ValueError("max_entry_bytes must be at most half of max_frame_bytes")

    @property
    def advertised(self) -> str:
        return self.raft or self.voters.get(self.node_id, "")

    @property
    def birth(self) -> Configuration:
        """The members before any entry of the log says otherwise."""
        return Configuration(tuple(Member(id=i, raft=at) for i, at in sorted(self.voters.items())))


def hello_of(config: ConsensusConfig, identity: Identity) -> Hello:
    return Hello(
        cluster_id=identity.cluster_id,
        node_id=identity.node_id,
        incarnation=identity.incarnation,
        boot_id=secrets.token_hex(8),
        feature_level=config.feature_level,
        version=config.version,
        http=config.http,
        grpc=config.grpc,
        raft=config.advertised,
        metrics=config.metrics,
        boots=identity.boots,
    )


def peer_info(member: Member, known: Hello | None, *, connected: bool) -> PeerInfo:
    """A member, and what it said of itself."""
    return PeerInfo(
        id=member.id,
        http=known.http if known else "",
        grpc=known.grpc if known else "",
        raft=known.raft if known else member.raft,
        metrics=known.metrics if known else "",
        version=known.version if known else "",
        feature_level=known.feature_level if known else 0,
        connected=connected,
        voter=member.voter,
        incarnation=known.incarnation if known else "",
    )
