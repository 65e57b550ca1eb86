"""Why the newest state could not be had: nobody leads, or this node does not hear who does."""

from __future__ import annotations

from raftflow.cluster.why.facts import ClusterFacts
from raftflow.cluster.why.leader import links_of_leader
from raftflow.cluster.why.model import Link, Severity
from raftflow.cluster.why.node import links_of_node


def links_without_leader(facts: ClusterFacts | None) -> tuple[Link, ...]:
    """None: the state was confirmed. Nothing, too, where this node knows who leads and nothing is
    wrong with it: it was busy for a moment, and what it says is as good as new."""
    if facts is None:
        return ()
    if facts.leader is None:
        return links_of_leader(facts)
    found = links_of_node(facts, facts.node)
    return found if found[-1].severity is Severity.PROBLEM else ()
