"""Why a node is not reached: what those that look for it have met last, put together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from raftflow.cluster.consensus.contacts import Trouble
from raftflow.cluster.consensus.handshake import NOT_A_MEMBER, STALE_DATA, WRONG_CLUSTER
from raftflow.cluster.why.causes import Cause
from raftflow.cluster.why.members import Member, Members
from raftflow.cluster.why.model import Fact, Link, Moment, Severity
from raftflow.cluster.why.words import names, quoted, span

_REBUILD = (
    "while all other nodes run, stop it, run `raftflow node rebuild DIR` on its data directory and"
    " start it again: it fetches everything from the others"
)
_ROTATE = (
    "`raftflow cert rotate CERTS NODE`, and copy its .crt and .key to the node, which takes them"
    ' without a restart; docs/security.md, "New certificates without a restart"'
)
_NETWORK = "look at the network and the firewalls between them"
# What says most about a node that several look for, first.
_TELLING = (
    Trouble.TLS,
    Trouble.REFUSED_BY_PEER,
    Trouble.REFUSED_HERE,
    Trouble.CONNECTION_REFUSED,
    Trouble.UNKNOWN_HOST,
    Trouble.NO_ROUTE,
    Trouble.ONE_WAY,
    Trouble.SILENT,
    Trouble.NO_ANSWER,
    Trouble.FELL_SILENT,
    Trouble.HUNG_UP,
    Trouble.NOT_TRIED,
)


def is_away(members: Members, name: str) -> bool:
    """Neither it nor anybody that answers is connected with it."""
    node = members[name]
    reached = [each for each in members.others(name) if each.reaches(name)]
    return not node.answers and not reached


def away_since_ms(members: Members, name: str) -> int | None:
    """How long nobody of those that miss it has been connected with it."""
    return min((each["for_ms"] for _, each in _missed(members, name)), default=None)


def _missed(members: Members, name: str) -> list[tuple[str, Mapping[str, Any]]]:
    """By whom that answers, and what each has met last."""
    return [
        (each.id, contact)
        for each in members.answering
        if each.id != name and (contact := each.contact(name)) and not contact["connected"]
    ]


def links_of_away(members: Members, name: str) -> tuple[Link, ...]:
    """First that it is away, then why."""
    since = away_since_ms(members, name)
    by = [each for each, _ in _missed(members, name)]
    reached = [each.id for each in members.others(name) if each.reaches(name)]
    told = f" for {span(since)}" if since is not None else ""
    verb = "reaches" if len(reached) == 1 else "reach"
    others = f"; {names(reached)} {verb} it" if reached else ""
    seen = Link(
        cause=Cause.NODE_UNREACHABLE,
        severity=Severity.PROBLEM,
        says=f"{name} is not reached by {names(by) or members.asked.id}{told}{others}.",
        evidence={
            "node": name,
            "address": members[name].raft,
            "missed_by": tuple(by),
            "reached_by": tuple(reached),
            "since": None if since is None else Moment(members.ago(since)),
        },
    )
    return (seen, reason_of_away(members, name))


def reason_of_away(members: Members, name: str) -> Link:
    """Why nobody is connected with it, by what says most."""
    return (
        _diverged(members, name)
        or _no_member(members, name)
        or _of_trust(members, name)
        or _of_refusal(members, name)
        or _of_trouble(members, name)
    )


def _of_trouble(members: Members, name: str) -> Link:
    by, contact = _most_telling(members, name)
    trouble = Trouble(contact.get("trouble") or Trouble.NOT_TRIED)
    address = members[name].raft
    evidence: dict[str, Fact] = {
        "node": name,
        "address": address,
        "seen_by": by,
        "trouble": trouble.value,
        "detail": contact.get("detail") or "",
    }
    cause, says, then = {
        Trouble.CONNECTION_REFUSED: (
            Cause.PROCESS_DOWN,
            f"Nothing listens at {address}: the process of {name} does not run.",
            f"start {name}, and see what its log says last (exit status 70: start it again; 78: the"
            " log says what to do first)",
        ),
        Trouble.SILENT: (
            Cause.NODE_FROZEN,
            f"The machine of {name} takes connections at {address}, but its process says nothing:"
            " it is stopped, or cannot get on.",
            f"look at the process of {name} (state T: `kill -CONT PID`; state D: its disk), or"
            " start it again",
        ),
        Trouble.ONE_WAY: (
            Cause.LINK_DOWN,
            f"{name} answers {by} at {address}, but does not call it back, as it should: what is"
            " between them lets only one of them open connections.",
            f"see that {name} reaches the Raft address of {by}, then {_NETWORK}",
        ),
        Trouble.FELL_SILENT: (
            Cause.NODE_FROZEN,
            f"{name} was connected with {by} and fell silent: its process is stopped or cannot get"
            " on, or what is between them drops everything.",
            f"ask again in a few seconds: then it is known which. See the process of {name} (state"
            " T: `kill -CONT PID`; state D: its disk)",
        ),
        Trouble.UNKNOWN_HOST: (
            Cause.LINK_DOWN,
            f"{by} cannot resolve the host of {address}.",
            "correct the name service, or give the node's address as an IP address",
        ),
    }.get(
        trouble,
        (
            Cause.LINK_DOWN,
            f"{by} gets no answer from {address}: the machine of {name} is off, or what is between"
            " them drops everything.",
            f"see whether the machine of {name} runs, then {_NETWORK} (port {_port(address)})",
        ),
    )
    return Link(cause=cause, severity=Severity.PROBLEM, says=says, evidence=evidence, next=then)


def _most_telling(members: Members, name: str) -> tuple[str, Mapping[str, Any]]:
    seen = _missed(members, name)
    if not seen:
        return members.asked.id, {}
    return min(seen, key=lambda each: _TELLING.index(Trouble(each[1]["trouble"])))


def _of_trust(members: Members, name: str) -> Link | None:
    """One side does not trust the other's certificate; one that is over says which."""
    expired = _expired_of_those_that_answer(members)
    found = [
        (each.id, str(contact.get("detail") or contact["refusal"]))
        for each in members.answering
        if (contact := each.contact(name)).get("trouble") == Trouble.TLS
    ]
    found += [
        (each.id, f"certificate refused of a caller from {host}: {refused['why']}")
        for each in members.answering
        for host, refused in each.of("tls_refused").items()
        if host == _host(members[name].raft) and _waits_for_call(each, name, refused)
    ]
    if not found:
        return None
    by, why = found[0]
    over = expired or (f"the certificate of {name}" if "expired" in why else "")
    evidence: dict[str, Fact] = {
        "node": name,
        "address": members[name].raft,
        "seen_by": by,
        "detail": why,
    }
    if over:
        return Link(
            cause=Cause.CERTIFICATE_EXPIRED,
            severity=Severity.PROBLEM,
            says=f"TLS between {by} and {name} fails, since {over} is over: {why}.",
            evidence=evidence,
            next=_ROTATE,
        )
    return Link(
        cause=Cause.TLS_REFUSED,
        severity=Severity.PROBLEM,
        says=f"TLS between {by} and {name} fails: {why}.",
        evidence=evidence,
        next=f"give {name} a certificate of this cluster's authority (`raftflow cert issue CERTS"
        f" {name} --host HOST`), and the same authorities to all nodes",
    )


def _waits_for_call(by: Member, name: str, refused: Mapping[str, Any]) -> bool:
    contact = by.contact(name)
    away = bool(contact) and not contact["connected"]
    return away and bool(refused["ago_ms"] <= contact["for_ms"])


def _expired_of_those_that_answer(members: Members) -> str:
    for each in members.answering:
        left = (each.row.get("certificates") or {}).get("peer")
        if left is not None and left <= 0:
            return f"the certificate of {each.id}"
    return ""


def _of_refusal(members: Members, name: str) -> Link | None:
    """The last time that they would not have each other, if they have not been together since."""
    for each in members.answering:
        contact = each.contact(name)
        refusal = str(contact.get("refusal") or "")
        if not refusal or contact["connected"]:
            continue
        if contact["refused_ago_ms"] > contact["for_ms"]:
            continue
        reason, _, detail = refusal.partition(": ")
        by = name if contact.get("trouble") == Trouble.REFUSED_BY_PEER else each.id
        evidence: dict[str, Fact] = {
            "node": name,
            "seen_by": each.id,
            "refused_by": by,
            "reason": reason,
            "detail": detail,
            "at": Moment(members.ago(contact["refused_ago_ms"])),
        }
        if reason == STALE_DATA:
            return Link(
                cause=Cause.OLD_COPY,
                severity=Severity.PROBLEM,
                says=f"{name} came with an old copy of its data, and was refused: {detail}.",
                evidence=evidence,
                next=_REBUILD,
            )
        then = {
            WRONG_CLUSTER: "give it the cluster_id, or the same peers, as the others",
            "wrong_node": f"correct the address of {name}: another node listens there",
        }.get(reason, f"see the log of {name}")
        return Link(
            cause=Cause.NODE_REFUSED,
            severity=Severity.PROBLEM,
            says=f"{each.id} and {name} do not come to terms: {reason} ({detail}).",
            evidence=evidence,
            next=then,
        )
    return None


def _no_member(members: Members, name: str) -> Link | None:
    if members[name].kind != "removed":
        return None
    return not_a_member(members, name)


def not_a_member(members: Members, name: str) -> Link:
    belong = sorted(each.id for each in members.by_id.values() if each.kind != "removed")
    as_of = members.facts.configuration_index
    calls = [
        each.contact(name).get("refused_ago_ms")
        for each in members.answering
        if str(each.contact(name).get("refusal") or "").startswith(NOT_A_MEMBER)
    ]
    known = [ago for ago in calls if ago is not None]
    calling = f" It called {span(min(known))} ago and was refused." if known else ""
    return Link(
        cause=Cause.NOT_A_MEMBER,
        severity=Severity.PROBLEM,
        says=f"{name} does not belong to this cluster as of entry {as_of}: the members are"
        f" {names(belong)}.{calling}",
        evidence={
            "node": name,
            "members": tuple(belong),
            "configuration_index": as_of,
            "last_called": Moment(members.ago(min(known))) if known else None,
        },
        next=f"to have it (back), run `raftflow node rebuild DIR` where it has data, then"
        f" `raftflow node add {quoted(name).strip(chr(39))}=HOST:PORT`, and start it with --join",
    )


def _diverged(members: Members, name: str) -> Link | None:
    """It was found to have another state, and ended itself."""
    for each in members.answering:
        dispute, contact = each.of("dispute"), each.contact(name)
        if name not in dispute.get("odd", ()) or contact.get("connected"):
            continue
        return Link(
            cause=Cause.DIGEST_DIVERGENCE,
            severity=Severity.PROBLEM,
            says=f"{name} ended itself: its state at entry {dispute['index']} was not that of a"
            " majority.",
            evidence={
                "node": name,
                "index": dispute["index"],
                "seen_by": each.id,
                "at": Moment(members.ago(dispute["ago_ms"])),
            },
            next=f"keep a copy of its data directory for a report; then, {_REBUILD}",
        )
    return None


def _host(address: str) -> str:
    return address.rpartition(":")[0].removeprefix("[").removesuffix("]")


def _port(address: str) -> str:
    return address.rpartition(":")[2]
