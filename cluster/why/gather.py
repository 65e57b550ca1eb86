"""Collects the facts: from this node, the leader, and the others as far as they answer. All the
I/O of `why` is here."""

from __future__ import annotations

import asyncio

from raftflow.cluster.api.handlers import admin
from raftflow.cluster.api.services import NodeServices
from raftflow.cluster.why.facts import ClusterFacts


async def cluster_facts(node: NodeServices) -> ClusterFacts:
    state, told = await asyncio.gather(admin.cluster(node), node.told_by_all())
    return ClusterFacts(
        node=state["node"],
        leader=state["leader"],
        term=state["term"],
        nodes=state["nodes"],
        elections=state["elections"],
        told=told,
        now_ms=node.clock.wall_ms(),
        election_max_ms=node.config.election_max_ms,
        configuration_index=state["configuration_index"],
        feature_level=state["feature_level"],
    )
