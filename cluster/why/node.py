"""Why a node is away, behind, without a vote, or about to be one of these."""

from __future__ import annotations

from dataclasses import replace

from raftflow.cluster.why.belonging import links_of_repair, links_of_standing
from raftflow.cluster.why.causes import Cause
from raftflow.cluster.why.facts import ClusterFacts
from raftflow.cluster.why.lagging import links_of_lag
from raftflow.cluster.why.machine import also, links_of_machine
from raftflow.cluster.why.members import Member, Members
from raftflow.cluster.why.model import Link, Severity
from raftflow.cluster.why.reach import is_away, links_of_away, not_a_member
from raftflow.cluster.why.words import count, names, span


def is_known(facts: ClusterFacts, node_id: str) -> bool:
    """Whether anything can be said of it: it is a member, was one, or has called."""
    rows = {str(row["id"]) for row in facts.nodes}
    called = {name for told in facts.told.values() for name in told.get("peers") or {}}
    return node_id in rows | called


def links_of_node(facts: ClusterFacts, node_id: str) -> tuple[Link, ...]:
    """``node_id`` is known (`is_known`)."""
    members = Members.of(facts)
    node = members.by_id.get(node_id)
    if node is None or node.kind == "removed":
        return (not_a_member(members, node_id),)
    if is_away(members, node_id):
        waits = links_of_standing(members, node) if node.kind == "learner" else ()
        return waits or links_of_away(members, node_id)
    if not node.answers:
        return _mute(members, node)
    if not _heard_here(members, node):
        return links_of_away(members, node_id)
    chain = (
        links_of_repair(members, node)
        or links_of_standing(members, node)
        or links_of_lag(members, node)
    )
    machine = links_of_machine(members, node)
    if not chain and machine:
        chain, machine = (machine[0],), machine[1:]
    chain = chain or (_well(members, node),)
    told = {link.cause for link in chain}
    rest = [link for link in machine if link.cause not in told]
    if not rest:
        return chain
    first = replace(chain[0], evidence={**chain[0].evidence, "also": also(rest)})
    return (first, *chain[1:])


def _heard_here(members: Members, node: Member) -> bool:
    """It answers over one connection, and may have lost that of Raft messages."""
    asked = members.asked
    contact = asked.contact(node.id)
    return node.id == asked.id or not contact or bool(contact["connected"] or node.of("repair"))


def _mute(members: Members, node: Member) -> tuple[Link, ...]:
    """Somebody is connected with it, and it answers nobody: its process stands still, as yet."""
    by = [each.id for each in members.others(node.id) if each.reaches(node.id)]
    return (
        Link(
            cause=Cause.NODE_FROZEN,
            severity=Severity.PROBLEM,
            says=f"{node.id} is connected with {names(by)}, and does not answer: its process is"
            " stopped, or cannot get on.",
            evidence={"node": node.id, "connected_with": tuple(by)},
            next=f"look at the process of {node.id} (state T: `kill -CONT PID`; state D: its disk)",
        ),
    )


def _well(members: Members, node: Member) -> Link:
    role = node.row.get("role") or "follower"
    kind = "an API node, which never votes" if node.kind == "api" else f"a {role}"
    lag = node.number("lag")
    up = node.number("uptime_seconds")
    since = "" if up is None else f", up for {span(round(up * 1_000))}"
    behind = "" if lag is None else f", {count(round(lag), 'entry', 'entries')} behind"
    partly = "" if node.told else " Its release tells no more."
    return Link(
        cause=Cause.NODE_WELL,
        severity=Severity.OK,
        says=f"{node.id} is {kind}{since}{behind}, and nothing is wrong with it.{partly}",
        evidence={
            "node": node.id,
            "role": role,
            "member": node.kind,
            "release": node.release,
            "lag": None if lag is None else round(lag),
            "leader": members.facts.leader,
        },
    )
