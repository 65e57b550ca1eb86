from __future__ import annotations

from typing import Any

import pytest
from why_facts import NOW_MS, Picture, causes

from raftflow.cluster.consensus.prevote import Objection
from raftflow.cluster.why.causes import Cause
from raftflow.cluster.why.leader import links_of_leader
from raftflow.cluster.why.model import Moment, Severity


def test_one_that_leads_for_long() -> None:
    picture = Picture()
    picture.elected("n1", ago_ms=3 * 3_600_000)
    [link] = links_of_leader(picture.facts)
    assert (link.cause, link.severity) == (Cause.LEADER_KNOWN, Severity.OK)
    assert link.says == "n1 leads for 3 h, in term 3."


def test_one_that_was_just_elected_and_why_the_last_one_went() -> None:
    picture = Picture()
    picture.elected("n3", ago_ms=900_000, term=2)
    picture.elected(None, ago_ms=6_000, reason="no word from n3 for 620 ms")
    picture.elected("n1", ago_ms=5_000, reason="elected")
    [link] = links_of_leader(picture.facts)
    assert link.cause is Cause.LEADER_ELECTED
    assert link.evidence["leader_before"] == "n3"
    assert link.evidence["at"] == Moment(NOW_MS - 5_000)
    assert link.says == "n1 leads since 5 s, after n3, in term 3: no word from n3 for 620 ms."
    picture.rows["n3"]["fsync_ms"] = 700.0
    assert causes(links_of_leader(picture.facts))[1:] == [Cause.SLOW_FSYNC]
    picture.away("n3")
    assert causes(links_of_leader(picture.facts))[1:] == [Cause.PROCESS_DOWN]


def test_the_node_that_took_over_says_itself_why() -> None:
    picture = Picture()
    picture.elected("n1", ago_ms=5_000, reason="transfer from n2")
    assert links_of_leader(picture.facts)[0].evidence["reason"] == "transfer from n2"


def test_too_many_elections() -> None:
    picture = Picture()
    for number in range(5):
        picture.elected(None, ago_ms=60_000 - number * 10_000, reason="no word")
        picture.elected(f"n{1 + number % 2}", ago_ms=59_000 - number * 10_000)
    picture.rows["n2"]["loop_lag_ms"] = 900.0
    chain = links_of_leader(picture.facts)
    assert causes(chain) == [Cause.ELECTIONS_FREQUENT, Cause.LOOP_LAG]
    assert len(chain[0].evidence["elections"]) == 5
    assert "among n1 and n2; last: no word" in chain[0].says


def test_transfers_are_no_trouble() -> None:
    picture = Picture()
    for number in range(6):
        picture.elected(
            f"n{1 + number % 2}", ago_ms=400_000 - number * 9_000, reason="transfer from n1"
        )
    assert causes(links_of_leader(picture.facts)) == [Cause.LEADER_KNOWN]


def leaderless() -> Picture:
    picture = Picture(leader=None)
    picture.elected("n2", ago_ms=600_000, term=2)
    picture.elected(None, ago_ms=8_000, reason="connection to the leader lost")
    return picture


def test_no_majority_is_there() -> None:
    picture = leaderless()
    picture.away("n2", "no_answer")
    picture.away("n3")
    chain = links_of_leader(picture.facts)
    assert causes(chain) == [Cause.NO_LEADER, Cause.NO_QUORUM, Cause.PROCESS_DOWN]
    assert chain[0].evidence["since"] == Moment(NOW_MS - 8_000)
    assert (
        chain[1].says
        == "Of 3 voters only n1 can vote, and 2 must: n2 and n3 cannot; 1 of them is enough."
    )
    missing = {each["node"]: each for each in chain[1].evidence["missing"]}
    assert missing["n2"]["cause"] == "link_down"
    assert missing["n3"]["cause"] == "process_down"
    assert missing["n3"]["since"] == Moment(NOW_MS - 42_000)
    assert chain[2].evidence["node"] == "n3"  # what is cured most easily
    assert chain[2].next


@pytest.mark.parametrize(
    ("changed", "cause"),
    [
        ({"repair": {"waiting_for": "w", "abstains": True}}, Cause.NODE_ABSTAINS),
        ({"repair": {"waiting_for": "w", "abstains": False}}, Cause.NODE_REPAIRING),
    ],
)
def test_those_that_answer_and_cannot_vote(changed: dict[str, Any], cause: Cause) -> None:
    picture = leaderless()
    picture.told["n2"] |= changed
    picture.told["n3"] |= changed
    chain = links_of_leader(picture.facts)
    assert causes(chain) == [Cause.NO_LEADER, Cause.NO_QUORUM, cause]
    assert chain[1].evidence["present"] == ("n1",)


def test_a_node_that_is_cut_off_knows_no_leader_whatever_others_know() -> None:
    picture = leaderless()
    picture.away("n2", "no_answer")
    picture.away("n3", "no_answer")
    chain = links_of_leader(picture.facts)
    assert causes(chain) == [Cause.NO_LEADER, Cause.NO_QUORUM, Cause.LINK_DOWN]


def test_an_election_is_under_way() -> None:
    picture = leaderless()
    picture.told["n1"]["votes"] |= {"asked_term": 4, "granted_by": ["n1"], "voted_for": "n1"}
    chain = links_of_leader(picture.facts)
    assert causes(chain) == [Cause.NO_LEADER, Cause.ELECTION_UNDER_WAY]
    assert chain[1].evidence["votes"][0] == {
        "node": "n1",
        "term": 3,
        "voted_for": "n1",
        "asks_for_term": 4,
        "granted_by": ("n1",),
    }


def test_votes_are_told_in_the_order_of_time_and_only_those_since_nobody_leads() -> None:
    picture = leaderless()
    picture.elected(None, ago_ms=300, reason="no word from n2 for 300 ms")

    def ballot(ago_ms: int, objection: Objection) -> dict[str, Any]:
        said = {"term": 4, "candidate": "n2", "pre": True, "objection": objection.value}
        return {**said, "ago_ms": ago_ms, "candidate_log": [3, 400], "own_log": [3, 500]}

    before_ms = 300 + picture.facts.election_max_ms + 1
    picture.told["n1"]["votes"]["ballots"] = [ballot(50, Objection.HEARS_LEADER)]
    picture.told["n3"]["votes"]["ballots"] = [
        ballot(before_ms, Objection.LOG_BEHIND),
        ballot(100, Objection.TERM_OVER),
    ]
    chain = links_of_leader(picture.facts)
    told = [(each["voter"], each["why"]) for each in chain[1].evidence["refused"]]
    assert told == [("n3", "term_over"), ("n1", "hears_leader")]


@pytest.mark.parametrize("objection", list(Objection))
def test_who_refused_whom_and_why(objection: Objection) -> None:
    picture = leaderless()
    ballot = {
        **{"ago_ms": 100, "term": 4, "candidate": "n1", "pre": True},
        **{"objection": objection.value, "candidate_log": [3, 400], "own_log": [3, 500]},
    }
    picture.told["n3"]["votes"]["ballots"] = [{**ballot, "ago_ms": 60_000}, ballot]
    chain = links_of_leader(picture.facts)
    assert causes(chain) == [Cause.NO_LEADER, Cause.VOTES_REFUSED]
    [refusal] = chain[1].evidence["refused"]
    assert refusal["voter"] == "n3"
    assert refusal["candidate"] == "n1"
    assert refusal["why"] == objection.value
    assert "n3" in chain[1].says
    if objection is Objection.LOG_BEHIND:
        assert "the log of n1 ends at entry 400 of term 3, and that of n3 at entry 500" in (
            chain[1].says
        )
