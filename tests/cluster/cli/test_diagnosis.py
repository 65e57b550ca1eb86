"""What the doctor makes of the answers of a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from raftflow.cluster.cli.diagnosis import compare, diagnose
from raftflow.cluster.cli.diagnosis import silent as told_of_silent
from raftflow.cluster.cli.findings import Finding, Told

GIB = 1 << 30
LEARNER = {"member": "learner"}


def node(name: str, **told: Any) -> dict[str, Any]:
    row = {
        "id": name,
        "role": "follower",
        "raft": f"10.0.0.{name[1:]}:9233",
        "applied_index": 640,
        "snapshot_index": 640,
        "snapshot_age_seconds": 1.0,
        "state_digest": "aa",
        "digest_compared_index": 600,
        "lag": 0,
        "last_contact_ms": 10,
        "disk_free_bytes": 50 * GIB,
        "clock_skew_ms": 1,
        "version": "0.3.0",
        "peers": {f"n{n}": f"10.0.0.{n}:9233" for n in (1, 2, 3)},
        "invariants": {"checked": 9, "walks": 1, "violated": 0, "violations": []},
        "connected": True,
    }
    return row | told


def silent(name: str) -> dict[str, Any]:
    return {"id": name, "role": "unknown", "raft": f"10.0.0.{name[1:]}:9233", "connected": False}


def state(*nodes: dict[str, Any], leader: str | None = "n1") -> dict[str, Any]:
    return {"cluster_id": "c", "node": "n1", "leader": leader, "term": 3, "nodes": [*nodes]}


def told(*nodes: dict[str, Any], **rest: Any) -> list[Finding]:
    return diagnose([state(*nodes, **rest)])


def only(findings: list[Finding]) -> Finding:
    [finding] = findings
    assert finding.next
    return finding


def test_a_healthy_cluster_has_nothing_to_be_said() -> None:
    states = [state(node("n1"), node("n2"), node("n3"))]
    assert diagnose(states) == []
    assert compare(states).compared == {"n1", "n2", "n3"}


def test_a_silent_node_and_a_missing_leader() -> None:
    found = told(node("n1"), silent("n2"), silent("n3"), leader=None)
    assert [each.node for each in found] == ["", "n2", "n3"]
    assert "1 of 3 voters answer" in found[0].problem
    assert found[0].next.startswith("2 of them must run")
    assert "10.0.0.2:9233" in found[1].problem


def test_a_node_that_is_not_whole_says_why() -> None:
    found = only(told(node("n1"), node("n2", repair="this node votes for nobody"), node("n3")))
    assert (found.severity, found.node) == ("problem", "n2")
    assert found.problem == "this node votes for nobody"


def test_a_learner_counts_in_no_majority() -> None:
    found = told(node("n1"), silent("n2"), silent("n3"), silent("n4") | LEARNER, leader=None)
    assert "1 of 3 voters answer" in found[0].problem
    assert found[0].next.startswith("2 of them must run")


def test_a_violation_names_its_run() -> None:
    violation = {
        "invariant": "wakeup",
        "namespace": "default",
        "workflow_id": "order-7",
        "run_id": "r7",
        "problem": "open, and nothing will ever wake it",
    }
    checks = {"checked": 9, "walks": 1, "violated": 3, "violations": [violation]}
    found = told(node("n1"), node("n2", invariants=checks), node("n3"))
    assert [(each.severity, each.node) for each in found] == [("problem", "n2")] * 2
    assert "wakeup: workflow order-7 run r7 in namespace default: open" in found[0].problem
    assert "2 more" in found[1].problem


def test_a_state_that_differs_from_most_others() -> None:
    finding = only(told(node("n1"), node("n2", state_digest="bb"), node("n3")))
    assert (finding.severity, finding.node) == ("problem", "n2")
    assert "after entry 640" in finding.problem
    assert "while all other nodes run" in finding.next


def test_one_against_one_nobody_is_right() -> None:
    found = told(node("n1"), node("n2", state_digest="bb"))
    assert {each.node for each in found if "entry 640" in each.problem} == {"n1", "n2"}


def test_digests_of_nodes_at_different_indexes_are_compared_over_several_answers() -> None:
    early = state(node("n1", applied_index=700), node("n2"), silent("n3"))
    late = state(
        node("n1", applied_index=704, state_digest="cc"),
        node("n2", applied_index=700, state_digest="dd"),
        silent("n3"),
    )
    assert compare([early]).compared == frozenset()
    both = compare([early, late])
    assert both.compared == {"n1", "n2"}
    assert both.differing == {"n1": 700, "n2": 700}


def test_a_lag_that_stays_and_one_that_shrinks() -> None:
    def lags(*values: int) -> list[Finding]:
        others = (node("n1"), node("n2"))
        return diagnose([state(*others, node("n3", lag=lag)) for lag in values])

    assert only(lags(5_000, 5_000)).severity == "problem"
    assert only(lags(9_000, 5_000)).severity == "advice"
    assert lags(5_000, 3) == []


def test_disk_clock_contact_and_checkpoint() -> None:
    found = told(
        node("n1", disk_free_bytes=GIB, clock_skew_ms=300),
        node("n2", disk_free_bytes=GIB // 4, clock_skew_ms=-1_500, last_contact_ms=9_000),
        node("n3", snapshot_age_seconds=500.0, snapshot_index=640, applied_index=9_640),
    )
    assert [(each.severity, each.node) for each in found] == [
        *[("problem", "n2")] * 3,
        ("problem", "n3"),
        *[("advice", "n1")] * 2,
    ]
    assert "1,500 ms behind" in found[2].problem


def test_certificates_that_end() -> None:
    day = 86_400
    found = told(
        node("n1", certificates={"api": 300 * day, "peer": 10 * day, "peer_ca": 3_000 * day}),
        node("n2", certificates={"api": 2 * day}),
        node("n3", certificates={"peer": -1}),
    )
    assert [(each.severity, each.node, each.problem) for each in found] == [
        ("problem", "n2", "its certificate (api) is over in 2 days"),
        ("problem", "n3", "its certificate (peer) is over"),
        ("advice", "n1", "its certificate (peer) is over in 10 days"),
    ]


def test_mixed_versions_and_a_release_without_checks() -> None:
    old = node("n2", version="0.2.0", invariants=None, peers=None, clock_skew_ms=None)
    found = told(node("n1"), old, node("n3"))
    assert {each.severity for each in found} == {"advice"}
    assert "0.2.0 and 0.3.0" in found[0].problem


def test_a_setting_that_is_not_the_membership() -> None:
    stale = {"n1": "10.0.0.1:9233", "n2": "10.0.0.9:9233", "n4": "10.0.0.4:9233"}
    finding = only(told(node("n1"), node("n2"), node("n3", peers=stale)))
    assert finding.severity == "advice"
    assert "lacks n3" in finding.problem
    assert "names n4, which is no member" in finding.problem
    assert "has n2 at 10.0.0.9:9233, but it is at 10.0.0.2:9233" in finding.problem
    assert finding.next.endswith("--peers n1=10.0.0.1:9233,n2=10.0.0.2:9233,n3=10.0.0.3:9233")


def test_a_learner_that_never_started_can_be_taken_back() -> None:
    learner = silent("n4") | {"member": "learner"}
    voters = [node(each, member="voter") for each in ("n1", "n2", "n3")]
    finding = only(told(*voters, learner))
    assert (finding.severity, finding.node) == ("problem", "n4")
    assert "`raftflow node remove n4`" in finding.next


def test_a_node_without_a_vote_is_waited_for() -> None:
    learner = node("n2", member="learner", no_vote="it is a learner")
    finding = only(told(node("n1"), learner, node("n3")))
    assert (finding.severity, finding.node) == ("advice", "n2")
    assert "stop no other node" in finding.next


def test_why_nobody_leads_although_all_answer() -> None:
    """n2 was still a learner when n3 was rebuilt: of the voters n1 and n3 one knows nothing."""
    rows = [
        node("n1", member="voter"),
        node("n2", member="learner", no_vote="it is a learner"),
        node("n3", member="voter", no_vote="its disk is new"),
    ]
    finding = only(told(*rows, leader=None))
    assert "2 of 2 voters answer" in finding.problem
    assert "n3 cannot vote" in finding.next


def test_api_nodes_stand_in_nobodys_setting() -> None:
    serves = node("n4", member="api", peers={"n1": "10.0.0.1:9233"}, raft="10.0.0.4:9233")
    assert told(node("n1"), node("n2"), node("n3"), serves) == []


def test_a_node_that_asks_nobody_and_that_others_reach() -> None:
    assert told(node("n1", auth="off"), node("n2", auth="off"), node("n3", auth="off")) == []
    found = only(told(node("n1", auth="on"), node("n2", auth="on"), node("n3", auth="exposed")))
    assert (found.severity, found.node) == ("problem", "n3")
    assert "may do anything" in found.problem
    assert "docs/security.md" in found.next
    found = only(told(node("n1", auth="on"), node("n2", auth="off"), node("n3", auth="on")))
    assert (found.severity, found.node) == ("problem", "n2")
    assert "n1, n3 do" in found.problem


@pytest.mark.parametrize(
    ("row", "directly", "severity", "said"),
    [
        ({}, {}, "problem", "it does not answer at 10.0.0.2:9233"),
        ({"member": "removed"}, {}, "advice", "it was removed from the cluster"),
        ({}, {"status": "repairing", "error": "it waits for n3"}, "problem", "it waits for n3"),
        ({}, {"status": "starting", "error": "x"}, "advice", "it is starting"),
        ({}, {"status": "ok", "role": "leader", "term": 2}, "problem", "it runs"),
    ],
)
def test_of_a_silent_node_what_others_know_and_what_it_says_itself(
    row: dict[str, Any], directly: dict[str, Any], severity: str, said: str
) -> None:
    [found] = told_of_silent(silent("n2") | row, directly, asked="n1")
    assert (found.severity, found.node, found.check) == (severity, "n2", "reach")
    assert said in found.problem
    assert found.next
    rows = [node("n1"), silent("n2") | row, node("n3")]
    assert found in diagnose([state(*rows)], Told(directly={"n2": directly}))


def test_a_row_that_is_remembered_is_no_answer() -> None:
    found = only(told(node("n1"), node("n2", reachable=False), node("n3")))
    assert "does not answer" in found.problem


def test_a_level_that_a_silent_node_may_hold_back() -> None:
    rows = [node("n1", feature_level=5), node("n2", feature_level=5), silent("n3")]
    newest = state(*rows) | {"feature_level": 4}
    found = [each for each in diagnose([newest]) if each.check == "release"]
    assert only(found).problem == "the cluster stays at feature level 4: n3 may be older"
    assert not [each for each in diagnose([state(*rows)]) if each.check == "release"]
