"""The node and the cluster: namespaces, health, readiness, who leads and how far each node is."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Coroutine
from importlib.metadata import version
from typing import Any

import structlog

from raftflow.cluster.api.handlers.common import execute
from raftflow.cluster.api.payloads import timestamp
from raftflow.cluster.api.services import NodeServices
from raftflow.cluster.api.status import ApiError
from raftflow.cluster.backup.source import Taken
from raftflow.cluster.config import ID_PATTERN, Address
from raftflow.cluster.consensus.channel import PeerError, PeerTimeout, PeerUnavailable
from raftflow.cluster.errors import MembershipRefused, Overloaded, Unavailable
from raftflow.cluster.features import API_NODES, AUDIT, MEMBERSHIP
from raftflow.engine.commands import CreateNamespace, RecordCall, SetQuota, UpdateNamespace
from raftflow.engine.state import NamespaceRecord

log = structlog.get_logger("raftflow.api")

VERSION = version("raftflow")
STATUS_METHOD = "node.status"

# A node further behind than this is not sent new callers.
READY_LAG = 1_000
_PEER_ANSWER_MS = 300
_NOTE_MS = 2_000
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


def _uptime_seconds() -> float:
    return round(time.monotonic() - _STARTED, 3)


async def health(node: NodeServices) -> dict[str, Any]:
    """From this node alone: it answers without a leader."""
    consensus = node.consensus.status()
    queues = node.metrics.queues()
    return {
        "status": "ok",
        "version": VERSION,
        "uptime_seconds": _uptime_seconds(),
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
    index = await _noted(node, "AddNode", node_id, adding)
    return {
        "id": node_id,
        "raft": str(address),
        "member": "api" if api else "learner",
        "index": index,
        "cluster_id": node.config.cluster_id,
    }


async def remove_node(node: NodeServices, node_id: str) -> dict[str, Any]:
    node.levels.require(MEMBERSHIP)
    index = await _noted(node, "RemoveNode", node_id, node.members.remove(node_id))
    return {
        "id": node_id,
        "member": "removed",
        "index": index,
        "cluster_id": node.config.cluster_id,
    }


async def _noted(
    node: NodeServices, call: str, target: str, change: Coroutine[Any, Any, int]
) -> int:
    """Members are no part of the state that the log's commands change: so the audit log says first
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
        index = await change
        outcome = "OK"
        return index
    except MembershipRefused as error:
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
    await node.reads.linearizable()
    return await node.backups.take(feature_level=node.levels.level, caller=caller)


# ---- the cluster page ---------------------------------------------------------------------------


def serve_status(node: NodeServices) -> None:
    """Answer the peers that draw the cluster page."""

    async def answer(_peer: str, _payload: bytes) -> bytes:
        return json.dumps(own_row(node)).encode()

    node.consensus.channel.register(STATUS_METHOD, answer)


def own_row(node: NodeServices) -> dict[str, Any]:
    """What only this node knows: of itself and, when it leads, of its followers."""
    status = node.consensus.status()
    row: dict[str, Any] = {
        "role": status.role.value,
        "term": status.term,
        "commit_index": status.commit_index,
        "applied_index": node.replica.applied_index,
        "state_digest": node.replica.digest.hex(),
        "digest_compared_index": node.digests.compared_index,
        "first_index": status.first_index,
        "snapshot_index": node.store.checkpointed_index,
        "snapshot_age_seconds": round(node.replica.snapshot_age_seconds, 1),
        "disk_free_bytes": shutil.disk_usage(node.config.data_dir).free,
        "version": VERSION,
        "uptime_seconds": _uptime_seconds(),
        "clock_skew_ms": round(node.clock.skew_ms()),
        "peers": {peer.id: str(peer.raft) for peer in node.config.voters},
        "invariants": node.checks.report(),
        "repair": node.consensus.waiting_for or None,
        "no_vote": node.consensus.no_vote or None,
        "certificates": {use: int(left) for use, left in node.metrics.certificates().items()},
        "auth": _auth(node),
    }
    if status.leader == node.config.node_id:
        followers = {peer: _followed(seen) for peer, seen in status.peers.items()}
        own = {"match_index": status.flushed_index, "last_contact_ms": 0}
        row["followers"] = {**followers, node.config.node_id: own}
    return row


def _auth(node: NodeServices) -> str:
    """`exposed`: nobody is asked for a token, and others reach this node."""
    if node.tokens.on:
        return "on"
    return "exposed" if node.config.reached_by_others else "off"


def _followed(seen: Any) -> dict[str, int | None]:
    contact_s = seen.last_contact_s
    return {
        "match_index": seen.match_index,
        "last_contact_ms": None if contact_s is None else round(contact_s * 1_000),
    }


async def cluster(node: NodeServices) -> dict[str, Any]:
    """Every voter as it says itself, as far as it answers; match index and last contact as the
    leader sees them."""
    status = node.consensus.status()
    peers = node.consensus.peers()
    found = await asyncio.gather(*(_report(node, peer) for peer in peers))
    reports = dict(zip(peers, found, strict=True))
    followers = reports.get(status.leader or "", {}).get("followers", {})
    rows = [
        _row(info, reports[peer], followers.get(peer, {}), status) for peer, info in peers.items()
    ]
    return {
        "cluster_id": node.config.cluster_id,
        "node": node.config.node_id,
        "leader": leader_of(node),
        "term": status.term,
        "auth": "on" if node.tokens.on else "off",
        "feature_level": node.levels.level,
        "configuration_index": status.configuration_index,
        "pending_change": _pending_change(status, rows),
        "nodes": rows,
        "elections": [
            {
                "at": timestamp(_wall_ms(node, election.at_s)),
                "term": election.term,
                "leader": election.leader,
                "reason": election.reason,
            }
            for election in status.elections
        ],
    }


def _pending_change(status: Any, rows: list[dict[str, Any]]) -> str | None:
    """What is under way with the members, in words."""
    if status.configuration_index > status.committed_configuration_index:
        return f"the members of entry {status.configuration_index} are not committed yet"
    learner = next((row for row in rows if row["member"] == "learner"), None)
    if learner is None:
        return None
    if not learner["connected"]:
        return f"{learner['id']} votes once it has the log: it is not connected"
    matched, behind = learner["match_index"], ""
    if matched is not None:
        behind = f": {max(0, status.commit_index - matched)} entries to go"
    return f"{learner['id']} votes once it has the log{behind}"


def _row(
    info: Any, report: dict[str, Any], followed: dict[str, Any], status: Any
) -> dict[str, Any]:
    applied_index = report.get("applied_index")
    member = status.configuration.find(info.id)
    commit_index = status.commit_index
    return {
        "id": info.id,
        "role": report.get("role", "unknown"),
        "member": "removed" if member is None else member.kind,
        "incarnation": (member.incarnation if member else "") or info.incarnation or None,
        "http": info.http,
        "grpc": info.grpc,
        "raft": info.raft,
        "metrics": info.metrics,
        "term": report.get("term"),
        "commit_index": report.get("commit_index"),
        "applied_index": applied_index,
        "match_index": followed.get("match_index"),
        "lag": None if applied_index is None else max(0, commit_index - applied_index),
        "last_contact_ms": followed.get("last_contact_ms"),
        "state_digest": report.get("state_digest"),
        "digest_compared_index": report.get("digest_compared_index"),
        "first_index": report.get("first_index"),
        "snapshot_index": report.get("snapshot_index"),
        "snapshot_age_seconds": report.get("snapshot_age_seconds"),
        "disk_free_bytes": report.get("disk_free_bytes"),
        "version": report.get("version") or info.version,
        "uptime_seconds": report.get("uptime_seconds"),
        "feature_level": info.feature_level,
        "clock_skew_ms": report.get("clock_skew_ms"),
        "peers": report.get("peers"),
        "invariants": report.get("invariants"),
        "repair": report.get("repair"),
        "no_vote": report.get("no_vote"),
        "certificates": report.get("certificates"),
        "auth": report.get("auth"),
        "connected": bool(info.connected),
    }


def _wall_ms(node: NodeServices, monotonic_s: float) -> int:
    """When that was by this node's wall clock."""
    return node.clock.wall_ms() - round((time.monotonic() - monotonic_s) * 1_000)


async def _report(node: NodeServices, peer: str) -> dict[str, Any]:
    """A peer's own row, empty when it does not answer in time."""
    if peer == node.config.node_id:
        return own_row(node)
    try:
        answer = await node.consensus.channel.call(
            peer, STATUS_METHOD, b"", timeout_ms=_PEER_ANSWER_MS
        )
        report: dict[str, Any] = json.loads(answer)
    except (PeerUnavailable, PeerTimeout, PeerError):
        return {}
    return report
