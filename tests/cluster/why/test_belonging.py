from __future__ import annotations

import pytest
from why_facts import Picture, causes

from raftflow.cluster.steward import NotYet
from raftflow.cluster.why.belonging import links_of_repair, links_of_standing
from raftflow.cluster.why.causes import Cause
from raftflow.cluster.why.members import Members
from raftflow.cluster.why.model import Link, Severity


def learner(why: NotYet | None) -> Picture:
    picture = Picture()
    picture.add("n4", "learner")
    picture.told["n1"]["not_promoted"] = {"n4": why and why.value}
    picture.told["n1"]["followers"]["n4"] = {"mode": "streaming", "match_index": 500}
    return picture


def standing(picture: Picture, name: str = "n4") -> tuple[Link, ...]:
    members = Members.of(picture.facts)
    return links_of_standing(members, members[name])


@pytest.mark.parametrize("why", [each for each in NotYet if each is not NotYet.FOR_GOOD])
def test_each_reason_that_a_learner_waits_for(why: NotYet) -> None:
    chain = standing(learner(why))
    assert chain[0].cause is Cause.LEARNER_WAITS
    assert chain[0].evidence["reason"] == why.value
    assert chain[-1].next


def test_a_learner_that_is_behind_or_away_says_why() -> None:
    picture = learner(NotYet.BEHIND)
    picture.told["n1"]["log"]["last_index"] = 9_000
    assert causes(standing(picture))[1:] == [Cause.FOLLOWER_BEHIND, Cause.LINK_SLOW]
    picture = learner(NotYet.NOT_CONNECTED)
    picture.away("n4")
    assert causes(standing(picture))[1:] == [Cause.PROCESS_DOWN]
    picture = learner(NotYet.OTHERS_AWAY)
    picture.away("n3")
    chain = standing(picture)
    assert chain[0].evidence["away"] == ("n3",)
    assert causes(chain)[1:] == [Cause.PROCESS_DOWN]
    picture = learner(NotYet.OLD_RELEASE)
    picture.rows["n4"]["feature_level"] = 3
    assert causes(standing(picture))[1:] == [Cause.VERSION_GATE]


def test_a_leader_of_an_older_release_says_nothing_of_learners() -> None:
    picture = learner(None)
    del picture.told["n1"]
    [link] = standing(picture)
    assert "it votes once it has the log" in link.says


def test_voters_that_count_and_api_nodes_have_no_such_reason() -> None:
    picture = Picture()
    picture.add("n4", "api")
    assert standing(picture) == standing(picture, "n2") == ()


def test_a_voter_on_another_disk() -> None:
    picture = Picture()
    picture.rows["n2"]["no_vote"] = "its disk is another than the members know"
    [link] = standing(picture, "n2")
    assert link.cause is Cause.OTHER_DISK


def repairing(picture: Picture, **repair: object) -> tuple[Link, ...]:
    picture.told["n3"]["repair"] = {
        **{"waiting_for": "entry 7 is damaged", "wounds": [], "abstains": False, "noted": {}},
        **repair,
    }
    members = Members.of(picture.facts)
    return links_of_repair(members, members["n3"])


def test_what_is_damaged_and_who_is_waited_for() -> None:
    [link] = repairing(Picture(), wounds=["a.segment at 40: checksum"])
    assert link.cause is Cause.NODE_REPAIRING
    assert link.severity is Severity.WAITING
    assert "Found damaged: a.segment at 40: checksum." in link.says
    [link] = repairing(Picture(), noted={"state": "row 5 of runs"})
    assert "Found damaged: row 5 of runs." in link.says
    picture = Picture()
    picture.away("n2")
    assert causes(repairing(picture)) == [Cause.NODE_REPAIRING, Cause.PROCESS_DOWN]
    members = Members.of(Picture().facts)
    assert links_of_repair(members, members["n3"]) == ()


def test_one_that_abstains() -> None:
    [link] = repairing(Picture(), abstains=True)
    assert (link.cause, link.severity) == (Cause.NODE_ABSTAINS, Severity.WAITING)
    picture = Picture(leader=None)
    picture.away("n2")
    chain = repairing(picture, abstains=True)
    assert causes(chain) == [Cause.NODE_ABSTAINS, Cause.PROCESS_DOWN]
    assert chain[0].severity is Severity.PROBLEM
