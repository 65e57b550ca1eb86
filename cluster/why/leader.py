"""Why there is no leader, or why this one leads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from raftflow.cluster.consensus.prevote import Objection
from raftflow.cluster.why.belonging import links_of_repair, links_of_standing
from raftflow.cluster.why.causes import Cause
from raftflow.cluster.why.facts import ClusterFacts
from raftflow.cluster.why.machine import links_of_machine
from raftflow.cluster.why.members import Member, Members
from raftflow.cluster.why.model import Fact, Link, Moment, Severity
from raftflow.cluster.why.reach import away_since_ms, is_away, reason_of_away
from raftflow.cluster.why.words import count, names, span

# So long after an election it is what people ask about.
RECENT_MS = 120_000
# So many changes within so long are a fault of their own.
OFTEN = 4
OFTEN_MS = 600_000
# A vote that is older than so many election timeouts is another election's.
_BALLOT_TIMEOUTS = 4


def links_of_leader(facts: ClusterFacts) -> tuple[Link, ...]:
    members = Members.of(facts)
    if facts.leader is None:
        return _leaderless(members)
    changes = _changes(members)
    # What somebody asked for is no sign of trouble.
    recent = [each for each in changes if each[0] <= OFTEN_MS and not _was_asked_for(each[2])]
    if len(recent) >= OFTEN:
        return _restless(members, recent)
    if changes and changes[-1][0] <= RECENT_MS:
        return _elected(members, *changes[-1])
    return (_leads(members, changes),)


def _was_asked_for(reason: str) -> bool:
    return reason.startswith("transfer")


# ---- somebody leads ----------------------------------------------------------------------------


def _changes(members: Members) -> list[tuple[int, Mapping[str, Any], str]]:
    """Each time that a node took over: how long ago, the entry, and why. The winner says why; of
    one before 0.5, all that is known is what this node saw when the last one was lost."""
    found = []
    lost = ""
    for each in members.facts.elections:
        if each["leader"] is None:
            lost = str(each["reason"])
            continue
        ago = members.facts.now_ms - _ms_of(str(each["at"]))
        said = str(each["reason"] or "")
        found.append((ago, each, lost or said if said in ("", "elected") else said))
        lost = ""
    return found


def _ms_of(at: str) -> int:
    return round(datetime.fromisoformat(at).timestamp() * 1_000)


def _leads(members: Members, changes: Sequence[tuple[int, Mapping[str, Any], str]]) -> Link:
    facts = members.facts
    since = changes[-1][0] if changes else None
    told = f" for {span(since)}" if since is not None else ""
    return Link(
        cause=Cause.LEADER_KNOWN,
        severity=Severity.OK,
        says=f"{facts.leader} leads{told}, in term {facts.term}.",
        evidence={
            "leader": facts.leader,
            "term": facts.term,
            "since": None if since is None else Moment(members.ago(since)),
        },
    )


def _elected(
    members: Members, ago: int, election: Mapping[str, Any], reason: str
) -> tuple[Link, ...]:
    before = _leader_before(members, election)
    evidence: dict[str, Fact] = {
        "leader": members.facts.leader,
        "term": members.facts.term,
        "at": Moment(members.ago(ago)),
        "reason": reason,
        "leader_before": before,
    }
    told = f", after {before}" if before else ""
    seen = Link(
        cause=Cause.LEADER_ELECTED,
        severity=Severity.OK,
        says=f"{members.facts.leader} leads since {span(ago)}{told}, in term"
        f" {members.facts.term}: {reason or 'the first election'}.",
        evidence=evidence,
    )
    if before is None or before not in members.by_id or before == members.facts.leader:
        return (seen,)
    if is_away(members, before):
        return (seen, reason_of_away(members, before))
    return (seen, *links_of_machine(members, members[before])[:1])


def _leader_before(members: Members, election: Mapping[str, Any]) -> str | None:
    before = None
    for each in members.facts.elections:
        if each is election:
            return before
        before = each["leader"] or before
    return before


def _restless(
    members: Members, recent: Sequence[tuple[int, Mapping[str, Any], str]]
) -> tuple[Link, ...]:
    leaders = sorted({str(election["leader"]) for _, election, _ in recent})
    seen = Link(
        cause=Cause.ELECTIONS_FREQUENT,
        severity=Severity.PROBLEM,
        says=f"The leader changed {count(len(recent), 'time')} in the last {span(OFTEN_MS)}, among"
        f" {names(leaders)}; last: {recent[-1][2] or 'no reason is known'}.",
        evidence={
            "leader": members.facts.leader,
            "elections": tuple(
                {
                    "at": Moment(members.ago(ago)),
                    "term": election["term"],
                    "leader": election["leader"],
                    "reason": why,
                }
                for ago, election, why in recent
            ),
        },
        next="see what stops or delays the nodes that led: disk (`workflowd_raft_fsync_seconds`),"
        " processor (`workflowd_loop_lag_seconds`), network",
    )
    for name in leaders:
        if name in members.by_id and is_away(members, name):
            return (seen, reason_of_away(members, name))
    for name in leaders:
        if name in members.by_id and (found := links_of_machine(members, members[name])):
            return (seen, found[0])
    return (seen,)


# ---- nobody leads ------------------------------------------------------------------------------


def _leaderless(members: Members) -> tuple[Link, ...]:
    voters = members.voters
    present = [each for each in voters if _can_vote(members, each)]
    last = next((e for e in reversed(members.facts.elections) if e["leader"] is None), None)
    since = None if last is None else members.facts.now_ms - _ms_of(str(last["at"]))
    told = f" for {span(since)}" if since is not None else ""
    seen = Link(
        cause=Cause.NO_LEADER,
        severity=Severity.PROBLEM,
        says=f"{members.asked.id} knows no leader{told}: nothing can be changed.",
        evidence={
            "seen_by": members.asked.id,
            "term": members.facts.term,
            "since": None if since is None else Moment(members.ago(since)),
            "reason": None if last is None else str(last["reason"]),
        },
    )
    if len(present) < members.majority:
        return (seen, *_no_quorum(members, present))
    return (seen, *_votes(members, present, since))


def _can_vote(members: Members, node: Member) -> bool:
    """It answers, hears the one that was asked, and has what it promised."""
    linked = node.id == members.asked.id or members.asked.reaches(node.id)
    withheld = node.row.get("no_vote") or node.of("repair")
    return node.answers and linked and not withheld


def _no_quorum(members: Members, present: Sequence[Member]) -> tuple[Link, ...]:
    missing = [each for each in members.voters if each not in present]
    reasons = {each.id: _why_missing(members, each) for each in missing}
    have = names(each.id for each in present) or "nobody"
    lack = members.majority - len(present)
    enough = (
        f"; {lack} of them {'is' if lack == 1 else 'are'} enough" if lack < len(missing) else ""
    )
    seen = Link(
        cause=Cause.NO_QUORUM,
        severity=Severity.PROBLEM,
        says=f"Of {count(len(members.voters), 'voter')} only {have} can vote, and"
        f" {members.majority} must: {names(each.id for each in missing)} cannot{enough}.",
        evidence={
            "voters": tuple(each.id for each in members.voters),
            "majority": members.majority,
            "present": tuple(each.id for each in present),
            "missing": tuple(_missing(members, each, reasons[each.id]) for each in missing),
        },
    )
    # Any of them makes a majority if enough come back: the one that is cured most easily.
    return (seen, min(reasons.values(), key=lambda link: _EASE.get(link.cause, len(_EASE))))


_EASE = {
    cause: place
    for place, cause in enumerate(
        (
            Cause.PROCESS_DOWN,
            Cause.NODE_FROZEN,
            Cause.CERTIFICATE_EXPIRED,
            Cause.TLS_REFUSED,
            Cause.NODE_REFUSED,
            Cause.LINK_DOWN,
            Cause.NODE_REPAIRING,
            Cause.NODE_ABSTAINS,
            Cause.OTHER_DISK,
        )
    )
}


def _why_missing(members: Members, node: Member) -> Link:
    if node.answers:
        held = links_of_repair(members, node) or links_of_standing(members, node)
        if held:
            return held[0]
    return reason_of_away(members, node.id)


def _missing(members: Members, node: Member, reason: Link) -> Mapping[str, Fact]:
    since = away_since_ms(members, node.id)
    return {
        "node": node.id,
        "address": node.raft,
        "cause": reason.cause.value,
        "next": reason.next,
        "since": None if since is None else Moment(members.ago(since)),
    }


def _votes(
    members: Members, present: Sequence[Member], leaderless_ms: int | None
) -> tuple[Link, ...]:
    """Enough can vote, and nobody has won yet: who stands, who voted for whom, who refused. What
    was refused before this time without a leader says nothing of it."""
    within_ms = _BALLOT_TIMEOUTS * members.facts.election_max_ms
    if leaderless_ms is not None:
        within_ms = min(within_ms, leaderless_ms + members.facts.election_max_ms)
    refused = [
        (each, ballot)
        for each in present
        for ballot in each.of("votes").get("ballots", ())
        if ballot["objection"] is not None and ballot["ago_ms"] <= within_ms
    ]
    refused.sort(key=lambda each: -each[1]["ago_ms"])
    evidence: dict[str, Fact] = {
        "votes": tuple(
            {
                "node": each.id,
                "term": each.row.get("term"),
                "voted_for": each.of("votes").get("voted_for"),
                "asks_for_term": each.of("votes").get("asked_term") or None,
                "granted_by": tuple(each.of("votes").get("granted_by", ())),
            }
            for each in present
        ),
        "refused": tuple(_refusal(members, each, ballot) for each, ballot in refused[-16:]),
    }
    if not refused:
        return (
            Link(
                cause=Cause.ELECTION_UNDER_WAY,
                severity=Severity.WAITING,
                says=f"{names(each.id for each in present)} can vote, which is enough: an election"
                " takes about a second.",
                evidence=evidence,
                next="ask again in a moment",
            ),
        )
    voter, ballot = refused[-1]
    says = _OBJECTIONS[Objection(ballot["objection"])].format(
        voter=voter.id,
        candidate=ballot["candidate"],
        theirs=_log(ballot["candidate_log"]),
        own=_log(ballot["own_log"]),
        other=voter.of("votes").get("voted_for") or "another",
    )
    return (
        Link(
            cause=Cause.VOTES_REFUSED,
            severity=Severity.WAITING,
            says=f"{count(len(refused), 'vote')} refused within {span(within_ms)}, the last since"
            f" {says}.",
            evidence=evidence,
            next="ask again in a moment: whoever has the longest log wins, if the voters reach each"
            " other in both directions; `raftflow why node NODE` of each says whether they do",
        ),
    )


def _refusal(members: Members, voter: Member, ballot: Mapping[str, Any]) -> Mapping[str, Fact]:
    return {
        "voter": voter.id,
        "candidate": ballot["candidate"],
        "term": ballot["term"],
        "pre_vote": ballot["pre"],
        "why": ballot["objection"],
        "candidate_log": tuple(ballot["candidate_log"]),
        "voter_log": tuple(ballot["own_log"]),
        "at": Moment(members.ago(ballot["ago_ms"])),
    }


def _log(log: Sequence[int]) -> str:
    return f"entry {log[1]} of term {log[0]}"


_OBJECTIONS = {
    Objection.TERM_OVER: "{voter} knows a newer term than {candidate} asks for",
    Objection.LOG_BEHIND: "the log of {candidate} ends at {theirs}, and that of {voter} at {own}",
    Objection.HEARS_LEADER: "{voter} hears a leader that {candidate} does not hear",
    Objection.VOTED: "{voter} has voted for {other} in this term, not for {candidate}",
    Objection.ABSTAINS: "{voter} abstains, since it lost what it had acknowledged",
    Objection.OTHER_DISK: "{voter} knows {candidate} by another disk: it has to learn anew",
    Objection.STRANGER: "{candidate} is no member, as far as {voter} knows",
}
