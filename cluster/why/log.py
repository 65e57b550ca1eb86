"""Why the log does not grow, is not everywhere, or is not compacted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from raftflow.cluster.why.causes import Cause
from raftflow.cluster.why.facts import ClusterFacts
from raftflow.cluster.why.lagging import FAR_BEHIND_ENTRIES, links_of_lag
from raftflow.cluster.why.leader import links_of_leader
from raftflow.cluster.why.machine import full_disk, late_loop, slow_disk
from raftflow.cluster.why.members import Member, Members
from raftflow.cluster.why.model import Fact, Link, Moment, Severity
from raftflow.cluster.why.reach import is_away, links_of_away
from raftflow.cluster.why.words import count, names, span

# An entry that waits longer than this for its majority is waited for.
SLOW_COMMIT_MS = 500
# A refusal is news for so long.
REFUSED_MS = 60_000
# A checkpoint that is late by so many of its periods is held up.
CHECKPOINTS_LATE = 24
_MIB = 1 << 20


def links_of_log(facts: ClusterFacts) -> tuple[Link, ...]:
    if facts.leader is None:
        return links_of_leader(facts)
    members = Members.of(facts)
    return (
        _backlog(members)
        or _away(members)
        or _not_compacted(members)
        or _behind(members)
        or _filling(members)
        or (_well(members),)
    )


# ---- it does not grow as fast as it is asked to -------------------------------------------------


def _backlog(members: Members) -> tuple[Link, ...]:
    leader = members.leader
    backlog = leader.of("backlog") if leader is not None else {}
    if leader is None or not backlog:
        return ()
    refused_ago = backlog["refused_ago_ms"]
    refused = refused_ago is not None and refused_ago <= REFUSED_MS
    slow = backlog["oldest_entry_ms"] > SLOW_COMMIT_MS
    if not (refused or slow):
        return ()
    waiting = count(backlog["commands"], "command")
    turned = f"; {count(backlog['refused'], 'call')} found no room" if refused else ""
    machine = _slow_majority(members, leader)
    entries = count(backlog["entries"], "entry", "entries")
    seen = Link(
        cause=Cause.BACK_PRESSURE,
        severity=Severity.PROBLEM if refused else Severity.WAITING,
        says=f"{leader.id}, which leads, has {waiting} waiting"
        f" ({backlog['bytes'] / _MIB:.1f} MiB) behind {entries}, of which the oldest waits"
        f" {span(backlog['oldest_entry_ms'])} for a majority{turned}.",
        evidence={
            "leader": leader.id,
            "commands": backlog["commands"],
            "bytes": backlog["bytes"],
            "entries_in_flight": backlog["entries"],
            "oldest_entry_ms": backlog["oldest_entry_ms"],
            "refused": backlog["refused"],
            "last_refused": Moment(members.ago(refused_ago)) if refused else None,
        },
        next=""
        if machine
        else "send less at once, or smaller payloads; more workers do not help here",
    )
    return (seen, *machine)


def _slow_majority(members: Members, leader: Member) -> tuple[Link, ...]:
    """What keeps entries from a majority: the leader's own disk, or too few fast followers."""
    slow = {
        each.id: found
        for each in members.voters
        if (found := slow_disk(members, each) or late_loop(members, each)) is not None
    }
    if leader.id in slow:
        return (slow[leader.id],)
    away = [each.id for each in members.voters if is_away(members, each.id)]
    if slow and len(members.voters) - len(slow) - len(away) < members.majority:
        return (next(iter(slow.values())),)
    return links_of_away(members, away[0]) if away else ()


# ---- it is not everywhere ------------------------------------------------------------------------


def _away(members: Members) -> tuple[Link, ...]:
    for each in members.by_id.values():
        if each.kind != "removed" and is_away(members, each.id):
            return links_of_away(members, each.id)
    return ()


def _behind(members: Members) -> tuple[Link, ...]:
    """The follower that is furthest behind."""
    chains = [chain for each in members.answering if (chain := links_of_lag(members, each))]
    return max(chains, key=lambda chain: _entries(chain[0]), default=())


def _entries(link: Link) -> int:
    behind = link.evidence["entries_behind"]
    assert isinstance(behind, int)
    return behind


# ---- it is not compacted -------------------------------------------------------------------------


def _not_compacted(members: Members) -> tuple[Link, ...]:
    for node in members.answering:
        log = node.of("log")
        if not log:
            continue
        held = log["last_index"] - log["first_index"] + 1
        pinned = _pinned(members, node, log, held) or _held_up(members, node, log, held)
        if pinned:
            return pinned
    return ()


def _kept(node: Member, log: Mapping[str, Any], held: int) -> Link:
    return Link(
        cause=Cause.LOG_NOT_COMPACTING,
        severity=Severity.WAITING,
        says=f"The log of {node.id} holds {count(held, 'entry', 'entries')}, from"
        f" {log['first_index']} on, and does not get shorter.",
        evidence={
            "node": node.id,
            "first_index": log["first_index"],
            "last_index": log["last_index"],
            "entries": held,
            "bytes": node.row.get("log_bytes"),
            "tail_entries": log["tail_entries"],
            "checkpointed_index": log["checkpointed_index"],
        },
    )


def _pinned(members: Members, node: Member, log: Mapping[str, Any], held: int) -> tuple[Link, ...]:
    """A follower fetches a copy, and needs the entries that follow it."""
    bound = log["checkpointed_index"] - log["tail_entries"]
    pins = [pin for pin in log["pins"] if pin["index"] < bound]
    if not pins:
        return ()
    pin = min(pins, key=lambda each: each["index"])
    readers = tuple(pin["readers"])
    whom = f"{names(readers)} fetches it" if readers else "whoever fetched it may need what follows"
    copy = "a copy that is being made" if not pin["size"] else "a copy of the state"
    known = [members[reader] for reader in readers if reader in members.by_id]
    # How far the first of them is, and what it waits for.
    more = links_of_lag(members, known[0])[1:] if known else ()
    seen = Link(
        cause=Cause.LOG_PINNED,
        severity=Severity.WAITING,
        says=f"{copy.capitalize()} at entry {pin['index']} keeps everything after it for"
        f" {span(pin['for_ms'])}: {whom}.",
        evidence={
            "node": node.id,
            "pinned_index": pin["index"],
            "readers": readers,
            "size_bytes": pin["size"],
            "since": Moment(members.ago(pin["for_ms"])),
        },
        next="" if more else "wait: a copy that nobody reads is given up within a minute",
    )
    return (_kept(node, log, held), seen, *more)


def _held_up(members: Members, node: Member, log: Mapping[str, Any], held: int) -> tuple[Link, ...]:
    """The store has not made durable what it holds, so that the log is still needed."""
    late = log["checkpoint_age_ms"] > CHECKPOINTS_LATE * log["checkpoint_every_ms"]
    behind = log["applied_index"] - log["checkpointed_index"]
    if not late or behind <= min(FAR_BEHIND_ENTRIES, log["tail_entries"]):
        return ()
    machine = slow_disk(members, node)
    seen = Link(
        cause=Cause.CHECKPOINT_HELD_UP,
        severity=Severity.PROBLEM,
        says=f"The state of {node.id} was last durable {span(log['checkpoint_age_ms'])} and"
        f" {count(behind, 'entry', 'entries')} ago: its checkpoints do not come to an end.",
        evidence={
            "node": node.id,
            "checkpointed_index": log["checkpointed_index"],
            "applied_index": log["applied_index"],
            "checkpoint_age_ms": log["checkpoint_age_ms"],
            "checkpoint_every_ms": log["checkpoint_every_ms"],
        },
        next=""
        if machine
        else f"end what reads state.db of {node.id} (`fuser -v DATA_DIR/state.db`): its log says"
        " checkpoint_held_up; a backup that hangs does it, too",
    )
    return (_kept(node, log, held), seen, *((machine,) if machine else ()))


# ---- there is little room for it -----------------------------------------------------------------


def _filling(members: Members) -> tuple[Link, ...]:
    found = [link for each in members.answering if (link := full_disk(members, each))]
    worst = min(found, key=_free, default=None)
    return () if worst is None else (worst,)


def _free(link: Link) -> int:
    free = link.evidence["free_bytes"]
    assert isinstance(free, int)
    return free


# ---- nothing is wrong ----------------------------------------------------------------------------


def _well(members: Members) -> Link:
    leader = members.leader
    assert leader is not None
    log = leader.of("log")
    commit = leader.number("commit_index")
    evidence: dict[str, Fact] = {
        "leader": leader.id,
        "commit_index": None if commit is None else round(commit),
        "bytes": leader.row.get("log_bytes"),
    }
    says = f"The log is committed up to entry {evidence['commit_index']}, and all nodes are close."
    if log:
        evidence |= {name: log[name] for name in ("first_index", "last_index", "tail_entries")}
        says += f" {leader.id} keeps it from entry {log['first_index']} on."
    return Link(cause=Cause.LOG_WELL, severity=Severity.OK, says=says, evidence=evidence)
