"""What the parts of a node are told of its configuration."""

from __future__ import annotations

from importlib.metadata import version

from raftflow.cluster.config import Config
from raftflow.cluster.consensus.settings import ConsensusConfig
from raftflow.cluster.consensus.types import Timing
from raftflow.cluster.tls import Credentials
from raftflow.engine.commands import FEATURE_LEVEL
from raftflow.engine.limits import Limits


def engine_limits(config: Config) -> Limits:
    limits = config.limits
    return Limits(
        max_payload_bytes=limits.payload_bytes,
        max_history_events=limits.history_events,
        max_history_bytes=limits.history_bytes,
        max_open_steps=limits.open_steps,
        max_untaken_signals=limits.untaken_signals,
        suggest_continue_as_new_at=limits.suggest_continue_as_new_at,
    )


def consensus_config(config: Config, tls: Credentials | None) -> ConsensusConfig:
    return ConsensusConfig(
        cluster_id=config.cluster_id,
        node_id=config.node_id,
        data_dir=str(config.data_dir),
        listen=str(config.raft_addr),
        voters={peer.id: str(peer.raft) for peer in config.voters},
        raft=str(config.advertise_raft_addr),
        http=str(config.advertise_http_addr),
        grpc=str(config.advertise_grpc_addr),
        metrics=str(config.advertise_metrics_addr),
        version=version("raftflow"),
        feature_level=FEATURE_LEVEL,
        timing=Timing(
            heartbeat_ms=config.heartbeat_ms,
            election_min_ms=config.election_min_ms,
            election_max_ms=config.election_max_ms,
        ),
        segment_bytes=config.storage.segment_bytes,
        tls=tls,
    )
