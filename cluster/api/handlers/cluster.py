"""The cluster page: every node as it says itself, who leads since when, and why."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import asdict
from typing import Any

from raftflow.cluster.api.handlers.admin import (
    STARTED_MS,
    VERSION,
    leader_of,
    noted,
    uptime_seconds,
)
from raftflow.cluster.api.payloads import timestamp
from raftflow.cluster.api.services import NodeServices
from raftflow.cluster.consensus.types import Election
from raftflow.cluster.peer_reports import Report


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
        **asdict(node.figures.now()),
        "version": VERSION,
        "uptime_seconds": uptime_seconds(),
        "started_at": timestamp(STARTED_MS),
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
        row["leader_since"] = _since(node)
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


def _since(node: NodeServices) -> str | None:
    """From when on the present leader leads, as far as this node knows."""
    since_s = node.elections.led_since_s
    return None if since_s is None else timestamp(_wall_ms(node, since_s))


async def describe(node: NodeServices, *, silent: Collection[str] = ()) -> dict[str, Any]:
    """Every member as it says itself, as far as it answers; match index and last contact as the
    leader sees them. Nobody waits for those known to be ``silent``."""
    reports = await node.peer_reports.all(silent=silent)
    status, peers = node.consensus.status(), node.consensus.peers()
    by_leader = reports[status.leader].said if status.leader in reports else {}
    followers = by_leader.get("followers", {})
    rows = [
        _row(info, reports[peer], followers.get(peer, {}), status)
        for peer, info in peers.items()
        if peer in reports
    ]
    leader = leader_of(node)
    return {
        "cluster_id": node.config.cluster_id,
        "node": node.config.node_id,
        "leader": leader,
        "leader_since": by_leader.get("leader_since") or _since(node) if leader else None,
        "term": status.term,
        "auth": "on" if node.tokens.on else "off",
        "feature_level": node.levels.level,
        "configuration_index": status.configuration_index,
        "pending_change": _pending_change(status, rows),
        "nodes": rows,
        "elections": [_election(node, election) for election in node.elections.all()],
    }


async def transfer(node: NodeServices, to: str) -> dict[str, Any]:
    """Another voter leads afterwards; "": whichever has most of the log."""
    handed = await noted(node, "TransferLeadership", to, node.handover.transfer(to))
    return {"from": handed.before, "leader": handed.leader, "term": handed.term}


async def snapshot(node: NodeServices, node_id: str) -> dict[str, Any]:
    """That node makes its state durable now, and drops what its log needs no longer."""
    made = await noted(node, "SnapshotNode", node_id, node.checkpoints.make(node_id))
    return {"id": node_id, **asdict(made)}


def history(node: NodeServices, minutes: int) -> dict[str, Any]:
    """This node's samples of the last minutes."""
    first_ago_ms, series = node.samples.last(minutes)
    return {
        "node": node.config.node_id,
        "every_ms": node.samples.every_ms,
        "from": timestamp(node.clock.wall_ms() - first_ago_ms),
        "samples": series,
    }


def seen_by(shown: dict[str, Any], namespaces: Collection[str]) -> dict[str, Any]:
    """What names runs is for those who may see their namespaces; without any that is everybody."""
    if not namespaces:
        return shown
    return {**shown, "nodes": [_row_seen_by(row, namespaces) for row in shown["nodes"]]}


def _row_seen_by(row: dict[str, Any], namespaces: Collection[str]) -> dict[str, Any]:
    checks = row["invariants"]
    if not checks:
        return row
    seen = [each for each in checks["violations"] if each["namespace"] in namespaces]
    return {**row, "invariants": {**checks, "violations": seen}}


def _election(node: NodeServices, election: Election) -> dict[str, Any]:
    return {
        "at": timestamp(_wall_ms(node, election.at_s)),
        "term": election.term,
        "leader": election.leader,
        "reason": election.reason,
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


def _row(info: Any, answer: Report, followed: Mapping[str, Any], status: Any) -> dict[str, Any]:
    report = answer.said
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
        "log_bytes": report.get("log_bytes"),
        "store_bytes": report.get("store_bytes"),
        "disk_free_bytes": report.get("disk_free_bytes"),
        "fsync_ms": report.get("fsync_ms"),
        "loop_lag_ms": report.get("loop_lag_ms"),
        "version": report.get("version") or info.version,
        "uptime_seconds": report.get("uptime_seconds"),
        "started_at": report.get("started_at"),
        "feature_level": info.feature_level,
        "clock_skew_ms": report.get("clock_skew_ms"),
        "peers": report.get("peers"),
        "invariants": report.get("invariants"),
        "repair": report.get("repair"),
        "no_vote": report.get("no_vote"),
        "certificates": report.get("certificates"),
        "auth": report.get("auth"),
        "connected": bool(info.connected),
        "reachable": answer.reachable,
    }


def _wall_ms(node: NodeServices, monotonic_s: float) -> int:
    """When that was by this node's wall clock."""
    return node.clock.wall_ms() - round((time.monotonic() - monotonic_s) * 1_000)
