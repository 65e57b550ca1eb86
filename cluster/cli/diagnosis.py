"""What is wrong with a cluster: a function of what its nodes told alone.

`/api/cluster`, asked a few times, is the ground. What nodes of release 0.5 tell beside it (which
ports they reach, why a node is as it is) says more where it is there.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from raftflow.cluster.cli.causes_told import with_causes
from raftflow.cluster.cli.findings import (
    ADVICE,
    PROBLEM,
    Finding,
    Told,
    answers,
    worst_first,
)
from raftflow.cluster.cli.machine_findings import (
    of_certificates,
    of_machine,
    of_namespaces,
    of_ports,
    of_process,
    of_queues,
)

_LAG = 1_000
_SILENT_MS = 5_000
_CHECKPOINT_S = 120

_REBUILD = (
    "while all other nodes run, stop it, `raftflow node rebuild DIR` and start it again: it fetches"
    " all from them. Keep what that sets aside for a report"
)
_WHOLE = 'keep the other nodes running until it is whole; docs/operating.md, "Damaged disks"'
_LOST = 'docs/operating.md, "A lost majority"'
_AUTH = "give it an auth_token_file (docs/security.md), or bind it to this machine alone"
_GUIDE = 'docs/operating.md, "Checking a cluster"'


@dataclass(frozen=True, slots=True)
class Digests:
    """Who said what at one index, as far as several said something."""

    compared: frozenset[str]
    differing: dict[str, int]  # node -> the first index at which it stands against most others


def diagnose(states: Sequence[dict[str, Any]], told: Told | None = None) -> list[Finding]:
    """What is wrong, worst first; ``states`` are answers of `/api/cluster`, oldest first."""
    told = told or Told()
    newest = states[-1]
    nodes = newest["nodes"]
    digests = compare(states)
    found = [*_of_cluster(newest), *of_namespaces(told.namespaces), *of_queues(told.queues)]
    found += of_ports(newest, told.ports)
    for node in nodes:
        if not answers(node):
            found += silent(node, told.directly.get(node["id"], {}), asked=newest["node"])
            continue
        lags = [_row(state, node["id"]).get("lag") for state in states]
        if newest.get("leader"):  # without one, waiting would not help
            found += _of_vote(node)
        found += _of_log(node, [lag for lag in lags if lag is not None])
        found += of_machine(node)
        found += of_process(node)
        found += of_certificates(node)
        found += _of_checks(node)
        if node.get("repair"):
            found.append(Finding(PROBLEM, node["id"], node["repair"], _WHOLE, "repair"))
        found += _of_members(node, nodes)
        if node["id"] in digests.differing:
            index = digests.differing[node["id"]]
            what = f"its state after entry {index} is not that of most others"
            found.append(Finding(PROBLEM, node["id"], what, _REBUILD, "digest"))
    return worst_first(with_causes(found, told))


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
    answering = [node for node in state["nodes"] if answers(node)]
    if not state.get("leader"):
        yield _leaderless(state["nodes"])
    versions = sorted({node["version"] for node in answering if node.get("version")})
    if len(versions) > 1:
        what = f"the nodes run {' and '.join(versions)}"
        yield Finding(ADVICE, "", what, "finish the upgrade, one node at a time", "release")
    yield from _of_level(state, answering)
    yield from _of_auth(answering)


def _of_level(state: dict[str, Any], answering: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """All that answer can do more than the cluster has agreed on: somebody does not answer."""
    agreed = state.get("feature_level")
    levels = [node["feature_level"] for node in answering if node.get("feature_level")]
    members = [node for node in state["nodes"] if node.get("member") != "removed"]
    away = [node["id"] for node in members if not answers(node)]
    if agreed and levels and min(levels) > agreed and away:
        what = f"the cluster stays at feature level {agreed}: {', '.join(away)} may be older"
        then = f"start {', '.join(away)} with the release of the others, or remove them for good"
        yield Finding(ADVICE, "", what, then, "release")


def _leaderless(nodes: Sequence[dict[str, Any]]) -> Finding:
    voters = [node for node in nodes if node.get("member", "voter") == "voter"]
    answering = [node for node in voters if answers(node)]
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
    else:
        then = f"{majority} of them must run and reach each other on their Raft ports"
    return Finding(PROBLEM, "", what, then, "leader")


def _of_vote(node: dict[str, Any]) -> Iterator[Finding]:
    if node.get("no_vote") and not node.get("repair"):
        what = f"it counts in no majority: {node['no_vote']}"
        then = "wait, and stop no other node until it votes (`raftflow node list`)"
        yield Finding(ADVICE, node["id"], what, then, "vote")


def silent(node: dict[str, Any], directly: Mapping[str, Any], *, asked: str) -> Iterator[Finding]:
    """No node has an answer of it; but it may have one for who asks it itself."""
    name = node["id"]
    where = f" at {node['raft']}" if node.get("raft") else ""
    if node.get("member") == "removed":
        what = "it was removed from the cluster, and ends by itself when it hears of it"
        then = (
            "stop it where it still runs; its data is not needed. To have it back: `raftflow node"
            f" rebuild DIR` there, then `raftflow node add {name}={node.get('raft')}`"
        )
        yield Finding(ADVICE, name, what, then, "reach")
    elif directly.get("status") == "repairing":
        yield Finding(PROBLEM, name, f"it repairs its data: {directly['error']}", _WHOLE, "reach")
    elif directly.get("status") == "starting":
        then = "wait; if it does not end, see what its log says last"
        yield Finding(ADVICE, name, "it is starting, and serves nothing yet", then, "reach")
    elif directly.get("status") == "ok":
        what = (
            f"it runs (its HTTP port says so: {directly.get('role')}, term"
            f" {directly.get('term')}), and {asked} has no answer of it{where}"
        )
        then = (
            "look at the network between the Raft ports, and at what their logs say of each other"
        )
        yield Finding(PROBLEM, name, what, then, "reach")
    elif node.get("member") == "learner":
        then = (
            "start it, and see that the others reach its Raft port; or take it back with `raftflow"
            f" node remove {name}`"
        )
        what = f"it is a learner, and does not answer{where}"
        yield Finding(PROBLEM, name, what, then, "reach")
    else:
        then = (
            "see whether its process runs and what its log says last (exit status 70: start it"
            " again; 78: the log says what to do first; `raftflow doctor --config FILE` there says"
            " what keeps it from starting), then whether the others reach its Raft port"
        )
        yield Finding(PROBLEM, name, f"it does not answer{where}", then, "reach")


def _of_log(node: dict[str, Any], lags: Sequence[int]) -> Iterator[Finding]:
    name = node["id"]
    if lags and min(lags) > _LAG:
        falling = lags[-1] < lags[0]
        what = f"it is {lags[-1]:,} entries behind" + (" and catching up" if falling else "")
        then = "wait" if falling else "look at its CPU, its disk and workflowd_loop_lag_seconds"
        yield Finding(ADVICE if falling else PROBLEM, name, what, then, "lag")
    contact = node.get("last_contact_ms")
    if contact is not None and contact > _SILENT_MS:
        what = f"the leader has not heard of it for {contact / 1000:.0f} s"
        yield Finding(PROBLEM, name, what, "look at the network between the Raft ports", "reach")
    age = node.get("snapshot_age_seconds") or 0
    held = (node.get("applied_index") or 0) - (node.get("snapshot_index") or 0)
    if age > _CHECKPOINT_S and held > _LAG:
        what = (
            f"its state was last durable {age:.0f} s and {held:,} entries ago: its log is not"
            " compacted"
        )
        then = "look for checkpoint_held_up in its log, and its disk"
        yield Finding(PROBLEM, name, what, then, "checkpoint")


def _of_checks(node: dict[str, Any]) -> Iterator[Finding]:
    checks = node.get("invariants")
    if checks is None:
        what = "its release does not check its state in the background"
        yield Finding(ADVICE, node["id"], what, "upgrade it")
        return
    then = f"keep the data and report this; what helps meanwhile: {_GUIDE}"
    for each in checks["violations"]:
        yield Finding(PROBLEM, node["id"], f"{each['invariant']}: {_violation(each)}", then)
    more = checks["violated"] - len(checks["violations"])
    if more > 0:
        what = f"and {more} more violations"
        yield Finding(PROBLEM, node["id"], what, "its log names them all (invariant_violated)")


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
            yield Finding(PROBLEM, node["id"], what, _AUTH)
        elif node.get("auth") == "off" and asking:
            what = f"it asks nobody for a token, and {', '.join(asking)} do"
            yield Finding(PROBLEM, node["id"], what, _AUTH)


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
        yield Finding(ADVICE, node["id"], what, f"with its next restart set --peers {wanted}")


def _row(state: dict[str, Any], name: str) -> dict[str, Any]:
    return next((node for node in state["nodes"] if node["id"] == name), {})
