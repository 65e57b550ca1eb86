"""Why a node that is reached is behind the leader: what it waits for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from raftflow.cluster.why.causes import Cause
from raftflow.cluster.why.machine import late_loop, slow_disk
from raftflow.cluster.why.members import Member, Members
from raftflow.cluster.why.model import Fact, Link, Moment, Severity
from raftflow.cluster.why.reach import reason_of_away
from raftflow.cluster.why.words import count, span

BEHIND_ENTRIES = 64  # more than are under way on a cluster that is well
FAR_BEHIND_ENTRIES = 1_000  # beyond that no new callers are sent to it
SILENT_MS = 1_000
_MIB = 1 << 20


def links_of_lag(members: Members, node: Member) -> tuple[Link, ...]:
    """That it is behind, and why; nothing when it is not."""
    leader = members.leader
    if leader is None or leader.id == node.id:
        return ()
    acknowledged = _acknowledged(leader, node)
    last = _last_index(leader)
    applied = node.number("applied_index")
    missing = max(0, last - acknowledged) if acknowledged is not None else 0
    unapplied = max(0, int(leader.number("commit_index") or 0) - int(applied or 0))
    copied = _is_copied(leader, node)
    if max(missing, unapplied) <= BEHIND_ENTRIES and not copied:
        return ()
    behind = max(missing, unapplied)
    seen = Link(
        cause=Cause.FOLLOWER_BEHIND,
        severity=Severity.PROBLEM if behind > FAR_BEHIND_ENTRIES else Severity.WAITING,
        says=f"{node.id} is {count(behind, 'entry', 'entries')} behind {leader.id}, which leads.",
        evidence={
            "node": node.id,
            "leader": leader.id,
            "leader_last_index": last,
            "match_index": acknowledged,
            "applied_index": None if applied is None else int(applied),
            "entries_behind": behind,
        },
    )
    return (seen, *_reasons(members, leader, node, copied=copied, missing=missing))


def _reasons(
    members: Members, leader: Member, node: Member, *, copied: bool, missing: int
) -> tuple[Link, ...]:
    machine = slow_disk(members, node) or late_loop(members, node)
    tail = () if machine is None else (machine,)
    contact = leader.contact(node.id)
    if contact and not contact["connected"]:
        return (_cut_off(members, leader, node),)
    if copied:
        return (_copy(members, leader, node, last=not tail), *tail)
    silent = node.number("last_contact_ms")
    if silent is not None and silent > SILENT_MS:
        return (_silent(leader, node, round(silent)),)
    if missing > BEHIND_ENTRIES:
        return tail or (_slow_way(leader, node, missing),)
    return (_slow_apply(node, last=not tail), *tail)


def _is_copied(leader: Member, node: Member) -> bool:
    follower = leader.of("followers").get(node.id) or {}
    return bool(node.of("fetch")) or follower.get("mode") == "snapshot"


def _acknowledged(leader: Member, node: Member) -> int | None:
    follower: Mapping[str, Any] = leader.of("followers").get(node.id) or node.row
    found = follower.get("match_index")
    return None if found is None else int(found)


def _last_index(leader: Member) -> int:
    return int(leader.of("log").get("last_index") or leader.number("commit_index") or 0)


def _cut_off(members: Members, leader: Member, node: Member) -> Link:
    """Others may reach it: the leader does not."""
    reason = reason_of_away(members, node.id)
    since = leader.contact(node.id)["for_ms"]
    return Link(
        cause=Cause.LINK_DOWN,
        severity=Severity.PROBLEM,
        says=f"{leader.id}, which leads, has no connection with {node.id} for {span(since)}.",
        evidence={
            "node": node.id,
            "leader": leader.id,
            "since": Moment(members.ago(since)),
            **reason.evidence,
        },
        next=reason.next,
    )


def _copy(members: Members, leader: Member, node: Member, *, last: bool) -> Link:
    """Its log ended before the leader's begins: it needs the state."""
    fetch = node.of("fetch")
    evidence: dict[str, Fact] = {
        "node": node.id,
        "leader": leader.id,
        "leader_first_index": leader.number("first_index"),
    }
    then = "wait; keep the node that it fetches from running" if last else ""
    if not fetch:
        return Link(
            cause=Cause.SNAPSHOT_UNDER_WAY,
            severity=Severity.WAITING,
            says=f"The log of {leader.id} begins after what {node.id} has: {leader.id} makes a copy"
            " of its state for it.",
            evidence=evidence,
            next=then,
        )
    received, size = fetch["received"], fetch["size"]
    evidence |= {
        "source": fetch["source"],
        "index": fetch["index"],
        "received_bytes": received,
        "size_bytes": size,
        "since": Moment(members.ago(fetch["for_ms"])),
        "installing": fetch["installing"],
    }
    whole = fetch["installing"] or received == size
    progress = (
        f"has all {size / _MIB:.1f} MiB and installs it"
        if whole
        else f"has {received / _MIB:.1f} of {size / _MIB:.1f} MiB after {span(fetch['for_ms'])}"
    )
    return Link(
        cause=Cause.SNAPSHOT_UNDER_WAY,
        severity=Severity.WAITING,
        says=f"The log of {leader.id} begins after what {node.id} has: it fetches a copy of the"
        f" state at entry {fetch['index']} from {fetch['source']}, and {progress}.",
        evidence=evidence,
        next=then,
    )


def _silent(leader: Member, node: Member, silent_ms: int) -> Link:
    return Link(
        cause=Cause.NODE_FROZEN,
        severity=Severity.PROBLEM,
        says=f"{node.id} is connected with {leader.id}, and has answered nothing for"
        f" {span(silent_ms)}.",
        evidence={"node": node.id, "leader": leader.id, "last_contact_ms": silent_ms},
        next=f"look at the process of {node.id} (state T: `kill -CONT PID`; state D: its disk)",
    )


def _slow_way(leader: Member, node: Member, missing: int) -> Link:
    return Link(
        cause=Cause.LINK_SLOW,
        severity=Severity.WAITING,
        says=f"{node.id} answers, but {count(missing, 'entry', 'entries')} are not with it yet: the"
        f" way from {leader.id} is slow, or it has only just come back.",
        evidence={
            "node": node.id,
            "leader": leader.id,
            "entries_missing": missing,
            "mode": (leader.of("followers").get(node.id) or {}).get("mode"),
        },
        next="ask again in a moment; if it does not catch up, measure the network between them"
        " (`ping`, `iperf3`)",
    )


def _slow_apply(node: Member, *, last: bool) -> Link:
    log = node.of("log")
    waits = log.get("store_has_room") is False
    why = "its store takes no more until it has written" if waits else "it has not caught up yet"
    return Link(
        cause=Cause.APPLY_SLOW,
        severity=Severity.WAITING,
        says=f"{node.id} has the entries and applies them more slowly than they come: {why}.",
        evidence={
            "node": node.id,
            "flushed_index": log.get("flushed_index"),
            "applied_index": node.row.get("applied_index"),
            "store_has_room": log.get("store_has_room"),
        },
        next=f"ask again in a moment; if it does not catch up, look at the disk and the processor"
        f" of {node.id}"
        if last
        else "",
    )
