"""Why a node counts in no majority: it repairs its data, abstains, has another disk, or learns."""

from __future__ import annotations

from raftflow.cluster.steward import CAUGHT_UP_ENTRIES, NotYet
from raftflow.cluster.why.causes import Cause
from raftflow.cluster.why.lagging import links_of_lag
from raftflow.cluster.why.machine import old_release
from raftflow.cluster.why.members import Member, Members
from raftflow.cluster.why.model import Fact, Link, Severity
from raftflow.cluster.why.reach import is_away, links_of_away, reason_of_away
from raftflow.cluster.why.words import names

_DAMAGE = 'docs/operating.md, "Damaged disks"'
_ABSTAINING = 'docs/operating.md, "A majority abstains"'


def links_of_repair(members: Members, node: Member) -> tuple[Link, ...]:
    """What is damaged and what it waits for; nothing when it is whole."""
    repair = node.of("repair")
    waiting = str(repair.get("waiting_for") or node.row.get("repair") or "")
    if not waiting:
        return ()
    if repair.get("abstains"):
        return _abstains(members, node, waiting)
    wounds = tuple(repair.get("wounds") or ())
    noted = dict(repair.get("noted") or {})
    told = [*noted.values(), *wounds]
    found = f" Found damaged: {told[0]}." if told else ""
    seen = Link(
        cause=Cause.NODE_REPAIRING,
        severity=Severity.WAITING,
        says=f"{node.id} repairs its data from the others: {waiting}.{found}",
        evidence={"node": node.id, "waiting_for": waiting, "wounds": wounds, "noted": noted},
        next=f"keep the other nodes running until it is whole; {_DAMAGE}",
    )
    return _with_who_is_away(members, node, seen)


def _abstains(members: Members, node: Member, waiting: str) -> tuple[Link, ...]:
    seen = Link(
        cause=Cause.NODE_ABSTAINS,
        severity=Severity.WAITING if members.leader is not None else Severity.PROBLEM,
        says=f"{node.id} votes for nobody: {waiting}.",
        evidence={"node": node.id, "waiting_for": waiting},
        next=f"start every node that is away, and stop no other; {_ABSTAINING}",
    )
    return (seen,) if members.leader is not None else _with_who_is_away(members, node, seen)


def _with_who_is_away(members: Members, node: Member, seen: Link) -> tuple[Link, ...]:
    away = [each.id for each in members.voters if each.id != node.id and is_away(members, each.id)]
    return (seen, reason_of_away(members, away[0])) if away else (seen,)


def links_of_standing(members: Members, node: Member) -> tuple[Link, ...]:
    """Why it does not vote; nothing for a voter that counts, and for a node that never votes."""
    if node.kind == "learner":
        return _learner(members, node)
    withheld = str(node.row.get("no_vote") or "")
    if not withheld or node.kind != "voter":
        return ()
    return (
        Link(
            cause=Cause.OTHER_DISK,
            severity=Severity.WAITING,
            says=f"{node.id} counts in no majority: {withheld}.",
            evidence={"node": node.id, "why": withheld},
            next="wait, and stop no other node: the leader makes it a learner, and then a voter"
            " (`raftflow node list`)",
        ),
    )


def _learner(members: Members, node: Member) -> tuple[Link, ...]:
    leader = members.leader
    why = leader.of("not_promoted").get(node.id) if leader is not None else None
    if why is None and is_away(members, node.id):
        why = NotYet.NOT_CONNECTED.value
    says, then = _WAITS.get(why or "", (_WAITS_UNKNOWN, ""))
    evidence: dict[str, Fact] = {
        "node": node.id,
        "reason": why,
        "leader": None if leader is None else leader.id,
        "voters": tuple(each.id for each in members.voters),
    }
    if why == NotYet.OTHERS_AWAY:
        away = [each.id for each in members.voters if is_away(members, each.id)]
        says, evidence["away"] = f"{says} ({names(away)})", tuple(away)
    elif why == NotYet.BEHIND:
        evidence["at_most_behind"] = CAUGHT_UP_ENTRIES
    more = _why_still(members, node, why)
    seen = Link(
        cause=Cause.LEARNER_WAITS,
        severity=Severity.WAITING,
        says=f"{node.id} is a learner and does not vote yet: {says}.",
        evidence=evidence,
        next="" if more else then.format(node=node.id),
    )
    return (seen, *more)


def _why_still(members: Members, node: Member, why: str | None) -> tuple[Link, ...]:
    match why:
        case NotYet.NOT_CONNECTED:
            return links_of_away(members, node.id)[1:]
        case NotYet.BEHIND:
            return links_of_lag(members, node)
        case NotYet.OLD_RELEASE | NotYet.LEVEL:
            gate = old_release(members, node)
            return () if gate is None else (gate,)
        case NotYet.OTHERS_AWAY:
            away = [each.id for each in members.voters if is_away(members, each.id)]
            return (reason_of_away(members, away[0]),) if away else ()
    return ()


_WAITS_UNKNOWN = "it votes once it has the log"
_WAITS = {
    NotYet.ENOUGH_VOTERS.value: (
        "there are as many voters as may be",
        "`raftflow node remove NODE` takes a voter out; or leave it as it is: it serves all calls",
    ),
    NotYet.NOT_CONNECTED.value: (
        "the leader has no connection with it",
        "start it; or take it back with `raftflow node remove {node}`",
    ),
    NotYet.OTHER_DISK.value: (
        "it came on a disk that is not recorded yet",
        "wait: the leader records it with its next change",
    ),
    NotYet.BEHIND.value: ("it has not got the whole log yet", "wait"),
    NotYet.OLD_RELEASE.value: ("its release is older than the cluster's level", "upgrade it"),
    NotYet.LEVEL.value: (
        "the cluster has not agreed on a level at which members change",
        "finish the upgrade of all nodes",
    ),
    NotYet.OTHERS_AWAY.value: (
        "with one voter more, those that are there would be no majority",
        "bring the voters back that are away, or remove those that are gone for good",
    ),
}
