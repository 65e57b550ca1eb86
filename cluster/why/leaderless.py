"""Why the newest state could not be had: nobody leads, or this node does not hear who does."""

from __future__ import annotations

from raftflow.cluster.why.facts import ClusterFacts
from raftflow.cluster.why.leader import links_of_leader
from raftflow.cluster.why.model import Link
from raftflow.cluster.why.node import links_of_node


def links_without_leader(facts: ClusterFacts) -> tuple[Link, ...]:
    if facts.leader is None:
        return links_of_leader(facts)
    return links_of_node(facts, facts.node)
