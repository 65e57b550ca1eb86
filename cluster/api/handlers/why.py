"""Why something does not go on: facts are gathered, and a pure function makes the chain."""

from __future__ import annotations

import contextlib

from raftflow.cluster.api.handlers.common import check_namespace
from raftflow.cluster.api.services import NodeServices
from raftflow.cluster.api.status import ApiError
from raftflow.cluster.errors import Unavailable
from raftflow.cluster.why import gather
from raftflow.cluster.why.facts import RunFacts
from raftflow.cluster.why.leader import links_of_leader
from raftflow.cluster.why.log import links_of_log
from raftflow.cluster.why.model import Answer
from raftflow.cluster.why.node import is_known, links_of_node
from raftflow.cluster.why.queue import links_of_queue
from raftflow.cluster.why.run import links_of_run
from raftflow.cluster.why.task import links_of_step


async def run(
    node: NodeServices, namespace: str, workflow_id: str, run_id: str, visible: frozenset[str]
) -> Answer:
    """``visible``: the namespaces that the asker may see, none being all."""
    await _check_namespace(node, namespace)
    facts = await gather.run_facts(node, namespace, workflow_id, run_id, visible=visible)
    subject = {"kind": "run", **_subject_of(facts)}
    return Answer.of(subject, links_of_run(facts))


async def task(
    node: NodeServices,
    namespace: str,
    workflow_id: str,
    run_id: str,
    step: str,
    visible: frozenset[str],
) -> Answer:
    """``step``: its name or its sequence."""
    await _check_namespace(node, namespace)
    choose = gather.choose_step(step)
    facts = await gather.run_facts(
        node, namespace, workflow_id, run_id, visible=visible, choose=choose
    )
    subject = {"kind": "task", **_subject_of(facts), "step": step}
    return Answer.of(subject, links_of_step(facts, step))


async def queue(node: NodeServices, namespace: str, name: str, visible: frozenset[str]) -> Answer:
    await _check_namespace(node, namespace)
    facts = await gather.queue_facts(node, namespace, name, visible=visible)
    subject = {"kind": "queue", "namespace": namespace, "queue": name}
    return Answer.of(subject, links_of_queue(facts))


async def _check_namespace(node: NodeServices, namespace: str) -> None:
    """An unknown one is 404, when somebody can say so for sure."""
    with contextlib.suppress(Unavailable):
        await check_namespace(node, namespace)


def _subject_of(facts: RunFacts) -> dict[str, str]:
    return {
        "namespace": facts.namespace,
        "workflow_id": facts.workflow_id,
        "run_id": facts.run_id if facts.run is None else facts.run.key.run_id,
    }


async def log(node: NodeServices) -> Answer:
    return Answer.of({"kind": "log"}, links_of_log(await gather.cluster_facts(node)))


async def leader(node: NodeServices) -> Answer:
    facts = await gather.cluster_facts(node)
    return Answer.of({"kind": "leader"}, links_of_leader(facts))


async def one_node(node: NodeServices, node_id: str) -> Answer:
    facts = await gather.cluster_facts(node)
    if not is_known(facts, node_id):
        raise ApiError("NODE_NOT_FOUND", f"node {node_id} is no member of this cluster")
    subject = {"kind": "node", "node": node_id}
    return Answer.of(subject, links_of_node(facts, node_id))
