"""Why there is no leader, or why this one leads."""

from __future__ import annotations

from raftflow.cluster.why.causes import Cause
from raftflow.cluster.why.facts import ClusterFacts
from raftflow.cluster.why.model import Link, Severity


def links_of_leader(facts: ClusterFacts) -> tuple[Link, ...]:
    if facts.leader is None:
        return (Link(cause=Cause.NO_LEADER, severity=Severity.PROBLEM, says="There is no leader."),)
    return (
        Link(
            cause=Cause.LEADER_KNOWN,
            severity=Severity.OK,
            says=f"{facts.leader} leads since term {facts.term}.",
            evidence={"leader": facts.leader, "term": facts.term},
        ),
    )
