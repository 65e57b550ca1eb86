"""`raftflow doctor`: what is wrong with a cluster, and what to do about it.

Everything it says follows from what `/api/cluster` tells, asked a few times: `diagnose` is a
function of those answers alone.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import click

from raftflow.cluster.cli.client import Client
from raftflow.cluster.cli.errors import CommandError
from raftflow.cluster.cli.options import client_options
from raftflow.cluster.cli.output import Printer

LOOKS = 5
PAUSE_S = 0.4

_LAG = 1_000
_SILENT_MS = 5_000
_MIB = 1 << 20
_DISK_LOW = 512 * _MIB
_DISK_SOON = 2_048 * _MIB
_SKEW_MS = 1_000
_SKEW_SOON_MS = 250
_CHECKPOINT_S = 120
_DAY_S = 86_400
_CERTIFICATE_DAYS = 14
_CERTIFICATE_DAYS_LOW = 3

_REBUILD = (
    "while all other nodes run, stop it, `raftflow node rebuild DIR` and start it again: it fetches"
    " all from them. Keep what that sets aside for a report"
)
_WHOLE = 'keep the other nodes running until it is whole; docs/operating.md, "Damaged disks"'
_LOST = 'docs/operating.md, "A lost majority"'
_RENEW = 'raftflow cert rotate; docs/security.md, "New certificates without a restart"'
_AUTH = "give it an auth_token_file (docs/security.md), or bind it to this machine alone"
_GUIDE = 'docs/operating.md, "Checking a cluster"'


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem makes the exit status 1; an advice does not. ``node`` "" is the whole cluster."""

    severity: str
    node: str
    problem: str
    next: str


@dataclass(frozen=True, slots=True)
class Digests:
    """Who said what at one index, as far as several said something."""

    compared: frozenset[str]
    differing: dict[str, int]  # node -> the first index at which it stands against most others


@click.command()
@client_options
def doctor(client: Client, printer: Printer) -> None:
    """Check every node of a cluster and say what to do.

    Reachable or not, versions, leader, lag, state digests compared, what the background checks of
    each node found (with the runs), disk, clock, certificates, and its setting peers against the
    members. It changes nothing. Exit status 1 when something is wrong.
    """
    states = _ask(client)
    findings = diagnose(states)
    problems = sum(each.severity == "problem" for each in findings)
    digests = compare(states)
    newest = states[-1]
    if printer.format == "json":
        printer.document(
            {
                "healthy": not problems,
                "cluster_id": newest["cluster_id"],
                "leader": newest.get("leader"),
                "term": newest["term"],
                "nodes": [_summary(node, digests) for node in newest["nodes"]],
                "findings": [asdict(each) for each in findings],
            }
        )
    else:
        _print(printer, newest, digests, findings)
    if problems:
        raise CommandError(f"{problems} {'problem' if problems == 1 else 'problems'} found")


def _ask(client: Client) -> list[dict[str, Any]]:
    """Ask until the digests of all nodes that answer were compared at some index, a few times at
    most: a busy node is somewhere else each time."""
    states: list[dict[str, Any]] = []
    while True:
        states.append(client.get("/api/cluster"))
        answering = {node["id"] for node in states[-1]["nodes"] if _answers(node)}
        if len(states) == LOOKS:
            return states
        if len(states) > 1 and (len(answering) < 2 or answering <= compare(states).compared):
            return states
        time.sleep(PAUSE_S)


def diagnose(states: Sequence[dict[str, Any]]) -> list[Finding]:
    """What is wrong, worst first; ``states`` are answers of `/api/cluster`, oldest first."""
    newest = states[-1]
    nodes = newest["nodes"]
    digests = compare(states)
    found = [*_of_cluster(newest)]
    for node in nodes:
        if not _answers(node):
            found.append(_silent(node))
            continue
        lags = [_row(state, node["id"]).get("lag") for state in states]
        if newest.get("leader"):  # without one, waiting would not help
            found += _of_vote(node)
        found += _of_log(node, [lag for lag in lags if lag is not None])
        found += _of_machine(node)
        found += _of_certificates(node)
        found += _of_checks(node)
        if node.get("repair"):
            found.append(Finding("problem", node["id"], node["repair"], _WHOLE))
        found += _of_members(node, nodes)
        if node["id"] in digests.differing:
            index = digests.differing[node["id"]]
            what = f"its state after entry {index} is not that of most others"
            found.append(Finding("problem", node["id"], what, _REBUILD))
    return sorted(found, key=lambda each: each.severity != "problem")


def compare(states: Sequence[dict[str, Any]]) -> Digests:
    """Digests can be compared at the same index only. The nodes do so all the time by themselves:
    one that agreed with another since the first answer has been compared as well."""
    said: dict[int, dict[str, str]] = defaultdict(dict)
    for state in states:
        for node in state["nodes"]:
            if node.get("state_digest") and node.get("applied_index") is not None:
                said[node["applied_index"]][node["id"]] = node["state_digest"]
    before = {node["id"]: node.get("applied_index") for node in states[0]["nodes"]}
    compared = {
        node["id"]
        for node in states[-1]["nodes"]
        if node.get("digest_compared_index") and before.get(node["id"])
        if node["digest_compared_index"] >= before[node["id"]]
    }
    differing: dict[str, int] = {}
    for index, digests in sorted(said.items()):
        if len(digests) < 2:
            continue
        compared |= digests.keys()
        most, votes = Counter(digests.values()).most_common(1)[0]
        for node, digest in digests.items():
            # One against one: nobody can say which of them is wrong.
            if len(set(digests.values())) > 1 and (digest != most or 2 * votes <= len(digests)):
                differing.setdefault(node, index)
    return Digests(frozenset(compared), differing)


def _of_cluster(state: dict[str, Any]) -> Iterator[Finding]:
    answering = [node for node in state["nodes"] if _answers(node)]
    if not state.get("leader"):
        yield _leaderless(state["nodes"])
    versions = sorted({node["version"] for node in answering if node.get("version")})
    if len(versions) > 1:
        what = f"the nodes run {' and '.join(versions)}"
        yield Finding("advice", "", what, "finish the upgrade, one node at a time")
    yield from _of_auth(answering)


def _leaderless(nodes: Sequence[dict[str, Any]]) -> Finding:
    voters = [node for node in nodes if node.get("member", "voter") == "voter"]
    answering = [node for node in voters if _answers(node)]
    majority = len(voters) // 2 + 1
    answer = f"{len(answering)} of {len(voters)} voters answer"
    what = f"there is no leader: nothing can be changed ({answer})"
    withheld = [node for node in answering if node.get("no_vote")]
    if withheld and len(answering) - len(withheld) < majority <= len(answering):
        names = ", ".join(node["id"] for node in withheld)
        then = (
            f"{majority} of the voters must have what they voted for and acknowledged, and {names} "
            "cannot vote: bring back the data that is missing there (what `raftflow node rebuild` "
            f"set aside, for one), or the nodes that do not answer. {_LOST}"
        )
        return Finding("problem", "", what, then)
    return Finding(
        "problem", "", what, f"{majority} of them must run and reach each other on their Raft ports"
    )


def _of_vote(node: dict[str, Any]) -> Iterator[Finding]:
    if node.get("no_vote") and not node.get("repair"):
        what = f"it counts in no majority: {node['no_vote']}"
        then = "wait, and stop no other node until it votes (`raftflow node list`)"
        yield Finding("advice", node["id"], what, then)


def _silent(node: dict[str, Any]) -> Finding:
    where = f" at {node['raft']}" if node.get("raft") else ""
    if node.get("member") == "learner":
        return Finding(
            "problem",
            node["id"],
            f"it is a learner, and does not answer{where}",
            f"start it, and see that the others reach its Raft port; or take it back with `raftflow"
            f" node remove {node['id']}`",
        )
    return Finding(
        "problem",
        node["id"],
        f"it does not answer{where}",
        "see whether its process runs and what its log says last (exit status 70: start it again;"
        " 78: the log says what to do first), then whether the others reach its Raft port",
    )


def _of_log(node: dict[str, Any], lags: Sequence[int]) -> Iterator[Finding]:
    name = node["id"]
    if lags and min(lags) > _LAG:
        falling = lags[-1] < lags[0]
        what = f"it is {lags[-1]:,} entries behind" + (" and catching up" if falling else "")
        then = "wait" if falling else "look at its CPU, its disk and workflowd_loop_lag_seconds"
        yield Finding("advice" if falling else "problem", name, what, then)
    contact = node.get("last_contact_ms")
    if contact is not None and contact > _SILENT_MS:
        what = f"the leader has not heard of it for {contact / 1000:.0f} s"
        yield Finding("problem", name, what, "look at the network between the Raft ports")
    age = node.get("snapshot_age_seconds") or 0
    held = (node.get("applied_index") or 0) - (node.get("snapshot_index") or 0)
    if age > _CHECKPOINT_S and held > _LAG:
        what = f"its state was last durable {age:.0f} s and {held:,} entries ago"
        yield Finding("problem", name, what, "look for checkpoint_held_up in its log, and its disk")


def _of_machine(node: dict[str, Any]) -> Iterator[Finding]:
    name, free, skew = node["id"], node.get("disk_free_bytes"), node.get("clock_skew_ms") or 0
    if free is not None and free < _DISK_SOON:
        what = f"its disk has {free // _MIB:,} MiB left"
        then = "free space or grow it: a node whose disk is full ends itself"
        yield Finding("problem" if free < _DISK_LOW else "advice", name, what, then)
    if abs(skew) > _SKEW_SOON_MS:
        way = "ahead of" if skew > 0 else "behind"
        what = f"its clock is {abs(skew):,} ms {way} the median of all"
        then = "set up NTP or chrony; a node more than a second off gives leadership away"
        yield Finding("problem" if abs(skew) > _SKEW_MS else "advice", name, what, then)


def _of_certificates(node: dict[str, Any]) -> Iterator[Finding]:
    for use, seconds in (node.get("certificates") or {}).items():
        days = seconds // _DAY_S
        if days < _CERTIFICATE_DAYS:
            what = f"its certificate ({use}) is over" + (f" in {days} days" if days >= 0 else "")
            severity = "problem" if days < _CERTIFICATE_DAYS_LOW else "advice"
            yield Finding(severity, node["id"], what, _RENEW)


def _of_checks(node: dict[str, Any]) -> Iterator[Finding]:
    checks = node.get("invariants")
    if checks is None:
        what = "its release does not check its state in the background"
        yield Finding("advice", node["id"], what, "upgrade it")
        return
    then = f"keep the data and report this; what helps meanwhile: {_GUIDE}"
    for each in checks["violations"]:
        yield Finding("problem", node["id"], f"{each['invariant']}: {_violation(each)}", then)
    more = checks["violated"] - len(checks["violations"])
    if more > 0:
        what = f"and {more} more violations"
        yield Finding("problem", node["id"], what, "its log names them all (invariant_violated)")


def _violation(each: dict[str, Any]) -> str:
    if not each["run_id"]:
        return str(each["problem"])
    run = f"workflow {each['workflow_id']} run {each['run_id']}"
    return f"{run} in namespace {each['namespace']}: {each['problem']}"


def _of_auth(nodes: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """Each node asks for tokens, or not, by its own settings."""
    asking = [node["id"] for node in nodes if node.get("auth") == "on"]
    for node in nodes:
        if node.get("auth") == "exposed":
            what = "it asks nobody for a token, and others reach it: whoever does may do anything"
            yield Finding("problem", node["id"], what, _AUTH)
        elif node.get("auth") == "off" and asking:
            what = f"it asks nobody for a token, and {', '.join(asking)} do"
            yield Finding("problem", node["id"], what, _AUTH)


def _of_members(node: dict[str, Any], nodes: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """A node finds the others through its setting only when it starts, so this may wait. API nodes
    stand in nobody's: it names those who vote."""
    peers = node.get("peers")
    nodes = [each for each in nodes if each.get("member") != "api"]
    if not peers or len(nodes) == 1 or node.get("member") == "api":
        return
    if any(each.get("member") == "learner" for each in nodes):
        return  # they are changing
    members = {each["id"]: each.get("raft") for each in nodes}
    problems = [f"lacks {name}" for name in sorted(members.keys() - peers.keys())]
    problems += [f"names {name}, which is no member" for name in sorted(peers.keys() - members)]
    problems += [
        f"has {name} at {peers[name]}, but it is at {address}"
        for name, address in sorted(members.items())
        if name in peers and address and peers[name] != address
    ]
    if problems:
        what = f"its setting peers {'; '.join(problems)}"
        wanted = ",".join(f"{name}={address}" for name, address in sorted(members.items()))
        yield Finding("advice", node["id"], what, f"with its next restart set --peers {wanted}")


def _answers(node: dict[str, Any]) -> bool:
    return node.get("applied_index") is not None


def _row(state: dict[str, Any], name: str) -> dict[str, Any]:
    return next((node for node in state["nodes"] if node["id"] == name), {})


def _digest(node: dict[str, Any], digests: Digests) -> str:
    if node["id"] in digests.differing:
        return "differs"
    return "same" if node["id"] in digests.compared else "not compared"


def _summary(node: dict[str, Any], digests: Digests) -> dict[str, Any]:
    kept = (
        "id",
        "role",
        "version",
        "term",
        "applied_index",
        "lag",
        "last_contact_ms",
        "disk_free_bytes",
        "clock_skew_ms",
        "certificates",
        "peers",
        "invariants",
    )
    return {
        "reachable": _answers(node),
        "digest": _digest(node, digests),
        **{name: node.get(name) for name in kept},
    }


def _print(
    printer: Printer, state: dict[str, Any], digests: Digests, findings: Sequence[Finding]
) -> None:
    printer.note(
        f"cluster {state['cluster_id']}  leader {state.get('leader') or 'none'}  term"
        f" {state['term']}  (as {state['node']} sees it)"
    )
    columns = ("node", "role", "version", "lag", "digest", "checked", "violated", "disk", "skew")
    printer.rows(columns, [_line(node, digests) for node in state["nodes"]])
    for each in findings:
        printer.note(f"\n{each.severity}: {each.node or 'cluster'}: {each.problem}".strip())
        printer.note(f"  next: {each.next}")
    if not findings:
        printer.note("nothing is wrong")


def _line(node: dict[str, Any], digests: Digests) -> tuple[Any, ...]:
    if not _answers(node):
        return (node["id"], "no answer", node.get("version") or None, *[None] * 6)
    checks = node.get("invariants") or {}
    free, skew = node.get("disk_free_bytes"), node.get("clock_skew_ms")
    return (
        node["id"],
        node["role"],
        node.get("version"),
        node.get("lag"),
        _digest(node, digests),
        checks.get("checked"),
        checks.get("violated"),
        None if free is None else f"{free >> 30} GiB" if free >> 30 else f"{free // _MIB} MiB",
        None if skew is None else f"{skew} ms",
    )
