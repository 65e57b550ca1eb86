"""What the nodes of release 0.5 know of the causes: a finding of ours gives way to a chain of
theirs about the same thing, which names more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from raftflow.cluster.cli.findings import ADVICE, PROBLEM, Finding, Told

_OK = "ok"
# Which check of ours looks at the same.
_CHECKS = {
    **dict.fromkeys(
        (
            *("node_unreachable", "process_down", "node_frozen", "link_down", "link_slow"),
            *("tls_refused", "node_refused", "old_copy", "not_a_member"),
        ),
        "reach",
    ),
    "node_repairing": "repair",
    "node_abstains": "repair",
    "other_disk": "vote",
    "learner_waits": "vote",
    "follower_behind": "lag",
    "snapshot_under_way": "lag",
    "apply_slow": "lag",
    "checkpoint_held_up": "checkpoint",
    "log_not_compacting": "checkpoint",
    "clock_skew": "clock",
    "digest_divergence": "digest",
    "disk_nearly_full": "disk",
    "certificate_expired": "certificate",
    "certificate_expires": "certificate",
    "version_gate": "release",
}
# Of the log: what no node tells of itself.
_OF_LOG = frozenset({"log_not_compacting", "back_pressure"})


def with_causes(found: Sequence[Finding], told: Told) -> list[Finding]:
    merged = [_led(each, told.why_leader) for each in found]
    for node, answer in told.why.items():
        merged = _merged(merged, node, answer)
    links = (told.why_log or {}).get("links") or ()
    if links and links[0]["cause"] in _OF_LOG and links[0]["severity"] != _OK:
        node = str(links[0]["evidence"].get("node") or links[0]["evidence"].get("leader") or "")
        merged = [each for each in merged if (each.node, each.check) != (node, "checkpoint")]
        merged.append(_of_chain(node, links))
    return merged


def _led(finding: Finding, why_leader: Mapping[str, Any] | None) -> Finding:
    """Why there is no leader, behind what we say of it."""
    links = (why_leader or {}).get("links") or ()
    if finding.check != "leader" or not links or links[0]["severity"] == _OK:
        return finding
    return replace(
        finding,
        because=tuple(link["says"] for link in links[1:] or links),
        next=links[-1]["next"] or finding.next,
    )


def _merged(found: list[Finding], node: str, answer: Mapping[str, Any]) -> list[Finding]:
    links = answer.get("links") or ()
    if not links:
        return found
    beside = links[0]["evidence"].get("also") or ()
    own = {each.check: each for each in found if each.node == node}
    more = [] if links[0]["severity"] == _OK else [_of_chain(node, links)]
    more += [
        Finding(
            own[_check(each)].severity if _check(each) in own else ADVICE,
            node,
            each["says"],
            each["next"] or "see what it says of itself: `raftflow why node`",
            _check(each),
        )
        for each in beside
    ]
    # Who is silent or repairs is told of as a whole: our words about it say less.
    told = {_check(each) for each in (*links, *beside)} if more else set()
    told |= {"reach", "repair"} if told & {"reach", "repair"} else set()
    kept = [each for each in found if each.node != node or each.check not in told]
    return kept + list(_each_once(more))


def _of_chain(node: str, links: Sequence[Mapping[str, Any]]) -> Finding:
    first, *rest = links
    worst = PROBLEM if any(link["severity"] == "problem" for link in links) else ADVICE
    then = next((link["next"] for link in reversed(links) if link["next"]), "")
    return Finding(
        worst,
        node,
        first["says"],
        then or f"`raftflow why node {node}` shows what it is seen by",
        _check(first),
        tuple(link["says"] for link in rest),
    )


def _each_once(findings: Sequence[Finding]) -> Iterator[Finding]:
    seen: set[str] = set()
    for each in findings:
        if each.problem not in seen:
            seen.add(each.problem)
            yield each


def _check(link: Mapping[str, Any]) -> str:
    cause = str(link["cause"])
    return _CHECKS.get(cause, cause)
