from __future__ import annotations

from why_facts import Picture, causes

from raftflow.cluster.why.causes import Cause
from raftflow.cluster.why.model import Severity
from raftflow.cluster.why.node import is_known, links_of_node


def test_nothing_is_wrong() -> None:
    [link] = links_of_node(Picture().facts, "n2")
    assert (link.cause, link.severity, link.next) == (Cause.NODE_WELL, Severity.OK, "")
    assert (
        link.says == "n2 is a follower, up for 10 min, 0 entries behind, and nothing is wrong"
        " with it."
    )
    picture = Picture()
    picture.add("n4", "api")
    assert "n4 is an API node, which never votes" in links_of_node(picture.facts, "n4")[0].says
    del picture.told["n2"]
    assert links_of_node(picture.facts, "n2")[0].says.endswith("Its release tells no more.")


def test_the_worst_is_told_and_the_rest_beside_it() -> None:
    picture = Picture()
    picture.rows["n2"] |= {"clock_skew_ms": 400, "fsync_ms": 900.0, "loop_lag_ms": 500.0}
    [link] = links_of_node(picture.facts, "n2")
    assert link.cause is Cause.SLOW_FSYNC
    assert [each["cause"] for each in link.evidence["also"]] == ["loop_lag", "clock_skew"]
    picture.told["n1"]["log"]["last_index"] = 9_000
    chain = links_of_node(picture.facts, "n2")
    assert causes(chain) == [Cause.FOLLOWER_BEHIND, Cause.SLOW_FSYNC]
    assert [each["cause"] for each in chain[0].evidence["also"]] == ["loop_lag", "clock_skew"]


def test_one_that_is_away_and_one_that_only_this_node_misses() -> None:
    picture = Picture()
    picture.away("n3")
    assert causes(links_of_node(picture.facts, "n3")) == [
        Cause.NODE_UNREACHABLE,
        Cause.PROCESS_DOWN,
    ]
    picture = Picture()
    picture.lost("n1", "n3", "no_answer")
    assert causes(links_of_node(picture.facts, "n3")) == [Cause.NODE_UNREACHABLE, Cause.LINK_DOWN]


def test_a_learner_that_is_away_is_a_learner_first() -> None:
    picture = Picture()
    picture.add("n4", "learner")
    picture.away("n4")
    for leader in ("n1", None):
        picture.leader = leader
        chain = links_of_node(picture.facts, "n4")
        assert causes(chain) == [Cause.LEARNER_WAITS, Cause.PROCESS_DOWN]
        assert chain[0].evidence["reason"] == "not_connected"


def test_one_that_is_connected_and_answers_nothing() -> None:
    picture = Picture()
    picture.silence("n3")
    [link] = links_of_node(picture.facts, "n3")
    assert link.cause is Cause.NODE_FROZEN
    assert link.evidence["connected_with"] == ("n1", "n2")


def test_one_that_repairs_has_no_raft_connection_and_is_not_away() -> None:
    picture = Picture()
    picture.silence("n3")
    for other in ("n1", "n2"):
        picture.lost(other, "n3", "refused_by_peer", refusal="repairing: x", refused_ago_ms=1)
    picture.told["n3"] = {
        "peers": {},
        "repair": {"waiting_for": "w", "wounds": [], "noted": {}, "abstains": False},
    }
    assert causes(links_of_node(picture.facts, "n3")) == [Cause.NODE_REPAIRING]


def test_who_is_known() -> None:
    picture = Picture()
    picture.lost("n2", "x7", "refused_here", refusal="not_a_member: x", refused_ago_ms=5)
    assert is_known(picture.facts, "n3")
    assert is_known(picture.facts, "x7")
    assert not is_known(picture.facts, "n9")
    assert causes(links_of_node(picture.facts, "x7")) == [Cause.NOT_A_MEMBER]
