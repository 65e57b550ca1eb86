"""Why a node is behind, cut off or about to end itself."""

from __future__ import annotations

from raftflow.cluster.why.facts import ClusterFacts
from raftflow.cluster.why.leader import links_of_leader
from raftflow.cluster.why.model import Link


def links_of_node(facts: ClusterFacts, node_id: str) -> tuple[Link, ...]:
    """``node_id`` is one of ``facts.nodes``."""
    return links_of_leader(facts)
