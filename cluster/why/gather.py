"""Collects the facts: from this node, the leader, and the others as far as they answer. All the
I/O of `why` is here."""

from __future__ import annotations

from raftflow.cluster.api.handlers import admin
from raftflow.cluster.api.services import NodeServices
from raftflow.cluster.why.facts import ClusterFacts


async def cluster_facts(node: NodeServices) -> ClusterFacts:
    state = await admin.cluster(node)
    return ClusterFacts(
        node=state["node"],
        leader=state["leader"],
        term=state["term"],
        nodes=state["nodes"],
        elections=state["elections"],
    )
