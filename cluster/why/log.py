"""Why the log does not grow, or is not compacted."""

from __future__ import annotations

from raftflow.cluster.why.facts import ClusterFacts
from raftflow.cluster.why.leader import links_of_leader
from raftflow.cluster.why.model import Link


def links_of_log(facts: ClusterFacts) -> tuple[Link, ...]:
    return links_of_leader(facts)
