"""A chain that the nodes tell takes the place of what the doctor would say of the same."""

from __future__ import annotations

from typing import Any

from raftflow.cluster.cli.causes_told import with_causes
from raftflow.cluster.cli.findings import Finding, Told

SILENT = Finding("problem", "n2", "it does not answer", "see whether it runs", "reach")
DISK = Finding("problem", "n2", "its disk has 100 MiB left", "free space", "disk")
OTHER = Finding("advice", "n3", "its disk has 100 MiB left", "free space", "disk")


def link(cause: str, severity: str = "problem", **more: Any) -> dict[str, Any]:
    said = {"cause": cause, "severity": severity, "says": f"{cause}!", "next": None, "evidence": {}}
    return said | more


def chain(*links: dict[str, Any]) -> dict[str, Any]:
    return {"links": list(links)}


def test_without_a_word_of_theirs_ours_stands() -> None:
    assert with_causes([SILENT, DISK], Told()) == [SILENT, DISK]
    well = {"n2": chain(link("node_well", "ok"))}
    assert with_causes([DISK], Told(why=well)) == [DISK]


def test_a_chain_about_the_same_takes_its_place() -> None:
    told = chain(link("node_unreachable"), link("process_down", next="start it"))
    [other, found] = with_causes([SILENT, OTHER], Told(why={"n2": told}))
    assert other == OTHER
    assert (found.problem, found.because, found.next) == (
        "node_unreachable!",
        ("process_down!",),
        "start it",
    )
    assert (found.severity, found.node, found.check) == ("problem", "n2", "reach")


def test_what_waits_is_advice() -> None:
    [found] = with_causes([], Told(why={"n2": chain(link("learner_waits", "waiting"))}))
    assert found.severity == "advice"
    assert "why node n2" in found.next


def test_what_else_is_wrong_is_told_each_once_with_our_weight() -> None:
    also = [
        {"cause": "disk_nearly_full", "says": "full in 2 h", "next": "free space on n2"},
        {"cause": "slow_fsync", "says": "slow", "next": ""},
        {"cause": "slow_fsync", "says": "slow", "next": ""},
    ]
    well = {"n2": chain(link("node_well", "ok", evidence={"also": also}))}
    disk, slow = with_causes([DISK], Told(why=well))
    assert (disk.severity, disk.problem, disk.next) == (
        "problem",
        "full in 2 h",
        "free space on n2",
    )
    assert (slow.severity, slow.problem) == ("advice", "slow")


def test_a_log_that_is_not_compacted_and_by_whom() -> None:
    held = Finding("problem", "n1", "its state was last durable", "look", "checkpoint")
    told = chain(
        link("log_not_compacting", "waiting", evidence={"node": "n1"}),
        link("log_pinned", "waiting", next="wait"),
    )
    [found] = with_causes([held], Told(why_log=told))
    assert (found.problem, found.because, found.next) == (
        "log_not_compacting!",
        ("log_pinned!",),
        "wait",
    )
    away = chain(link("node_unreachable"))
    assert with_causes([held], Told(why_log=away)) == [held], "the node itself tells that"
    assert with_causes([], Told(why_log=chain(link("log_well", "ok")))) == []


def test_why_there_is_no_leader() -> None:
    none = Finding("problem", "", "there is no leader", "2 of them must run", "leader")
    told = chain(link("no_leader"), link("no_quorum", next="start n2"))
    [found] = with_causes([none], Told(why_leader=told))
    assert (found.problem, found.because, found.next) == (
        "there is no leader",
        ("no_quorum!",),
        "start n2",
    )
    assert with_causes([none], Told(why_leader=chain(link("leader_known", "ok")))) == [none]
