"""Why something does not go on: facts are gathered, and a pure function makes the chain."""

from __future__ import annotations

from raftflow.cluster.api.services import NodeServices
from raftflow.cluster.api.status import ApiError
from raftflow.cluster.why import gather
from raftflow.cluster.why.leader import links_of_leader
from raftflow.cluster.why.log import links_of_log
from raftflow.cluster.why.model import Answer
from raftflow.cluster.why.node import is_known, links_of_node


async def log(node: NodeServices) -> Answer:
    return Answer(subject={"kind": "log"}, links=links_of_log(await gather.cluster_facts(node)))


async def leader(node: NodeServices) -> Answer:
    facts = await gather.cluster_facts(node)
    return Answer(subject={"kind": "leader"}, links=links_of_leader(facts))


async def one_node(node: NodeServices, node_id: str) -> Answer:
    facts = await gather.cluster_facts(node)
    if not is_known(facts, node_id):
        raise ApiError("NODE_NOT_FOUND", f"node {node_id} is no member of this cluster")
    subject = {"kind": "node", "node": node_id}
    return Answer(subject=subject, links=links_of_node(facts, node_id))
