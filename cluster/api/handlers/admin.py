"""The node and its cluster: namespaces, health, readiness, members, backups."""

from __future__ import annotations

import time
from collections.abc import Coroutine
from importlib.metadata import version
from typing import Any, TypeVar

import structlog

from raftflow.cluster.api.handlers.common import execute
from raftflow.cluster.api.services import NodeServices
from raftflow.cluster.api.status import ApiError
from raftflow.cluster.backup.source import Taken
from raftflow.cluster.config import ID_PATTERN, Address
from raftflow.cluster.errors import (
    MembershipRefused,
    OperationRefused,
    Overloaded,
    Unavailable,
)
from raftflow.cluster.features import API_NODES, AUDIT, MEMBERSHIP
from raftflow.engine.commands import CreateNamespace, RecordCall, SetQuota, UpdateNamespace
from raftflow.engine.state import NamespaceRecord

log = structlog.get_logger("raftflow.api")

T = TypeVar("T")

VERSION = version("raftflow")
# A node further behind than this is not sent new callers.
READY_LAG = 1_000
_NOTE_MS = 2_000
STARTED_MS = time.time_ns() // 1_000_000
_STARTED = time.monotonic()


async def change_namespace(
    node: NodeServices, command: CreateNamespace | UpdateNamespace | SetQuota
) -> None:
    await execute(node, command)


async def namespaces(node: NodeServices) -> list[NamespaceRecord]:
    """All there are, by name."""
    await node.reads.linearizable()
    records = node.replica.catalog.namespaces.values()
    return sorted(records, key=lambda record: record.name)


def leader_of(node: NodeServices) -> str | None:
    """The leader this node heard of within two election timeouts."""
    heard: str | None = node.consensus.status().leader_heard(2 * node.config.election_max_ms)
    return heard


def uptime_seconds() -> float:
    return round(time.monotonic() - _STARTED, 3)


async def health(node: NodeServices) -> dict[str, Any]:
    """From this node alone: it answers without a leader."""
    consensus = node.consensus.status()
    queues = node.metrics.queues()
    return {
        "status": "ok",
        "version": VERSION,
        "uptime_seconds": uptime_seconds(),
        "workflows_active": sum(node.replica.catalog.open_runs.values()),
        "task_queue_depth": queues.activity_tasks,
        "workflow_task_queue_depth": queues.workflow_tasks,
        "node": node.config.node_id,
        "role": consensus.role.value,
        "leader": leader_of(node),
        "term": consensus.term,
    }


def readiness(node: NodeServices) -> dict[str, Any]:
    status = node.consensus.status()
    lag = max(0, status.heard_commit_index - node.replica.applied_index)
    leader = leader_of(node)
    waits = f"; {node.consensus.waiting_for}" if node.consensus.waiting_for else ""
    if leader is None:
        error = "no leader is known" + waits
    elif lag > READY_LAG:
        error = f"{lag} entries are not applied yet" + waits
    else:
        # Whoever waits for this takes the next node down then: the majority must not need it.
        error = node.consensus.no_vote
    state: dict[str, Any] = {"ready": not error, "leader": leader, "lag": lag}
    if error:
        state |= {"error": error}
        state |= {"code": "UNAVAILABLE", "reason": "UNAVAILABLE", "maybe_applied": False}
    return state


# ---- who belongs to the cluster -----------------------------------------------------------------


async def add_node(
    node: NodeServices, node_id: str, raft: str, *, api: bool = False
) -> dict[str, Any]:
    if not ID_PATTERN.fullmatch(node_id):
        raise ApiError(
            "INVALID_FIELD",
            "id: use 1 to 64 letters, digits, '.', '_' or '-', a letter or digit first",
        )
    try:
        address = Address.parse(raft)
    except ValueError as error:
        raise ApiError("INVALID_FIELD", f"raft: {error}") from None
    if address.is_wildcard:
        raise ApiError(
            "INVALID_FIELD", f"raft: nobody can connect to {address}; name a host that others reach"
        )
    node.levels.require(API_NODES if api else MEMBERSHIP)
    adding = node.members.add(node_id, str(address), api=api)
    index = await noted(node, "AddNode", node_id, adding)
    return {
        "id": node_id,
        "raft": str(address),
        "member": "api" if api else "learner",
        "index": index,
        "cluster_id": node.config.cluster_id,
    }


async def remove_node(node: NodeServices, node_id: str) -> dict[str, Any]:
    node.levels.require(MEMBERSHIP)
    index = await noted(node, "RemoveNode", node_id, node.members.remove(node_id))
    return {
        "id": node_id,
        "member": "removed",
        "index": index,
        "cluster_id": node.config.cluster_id,
    }


async def noted(node: NodeServices, call: str, target: str, change: Coroutine[Any, Any, T]) -> T:
    """Nodes are no part of the state that the log's commands change: so the audit log says first
    that the change is asked for, and then what came of it."""
    if not node.levels.allows(AUDIT):
        return await change
    try:
        await execute(node, RecordCall(call=call, target=target, outcome="ASKED"))
    except BaseException:
        change.close()
        raise
    outcome = "UNKNOWN"
    try:
        done = await change
        outcome = "OK"
        return done
    except (MembershipRefused, OperationRefused) as error:
        outcome = error.reason
        raise
    finally:
        await _note_outcome(node, RecordCall(call=call, target=target, outcome=outcome))


async def _note_outcome(node: NodeServices, noted: RecordCall) -> None:
    """Not at any price: a node that has removed itself cannot, and its caller hears that."""
    try:
        await node.forwarder.execute(noted, deadline_ms=_NOTE_MS)
    except (Unavailable, Overloaded) as error:
        log.warning("outcome_not_noted", call=noted.call, target=noted.target, reason=str(error))


async def take_backup(node: NodeServices, *, caller: str) -> Taken:
    """A copy of the state with everything that was acknowledged, anywhere, before the call."""
    if node.levels.allows(AUDIT):
        # Nothing changes, but whoever takes it has everything.
        noted = RecordCall(call="TakeBackup", target=node.config.node_id, outcome="ASKED")
        await execute(node, noted)
    await node.reads.linearizable()
    return await node.backups.take(feature_level=node.levels.level, caller=caller)
