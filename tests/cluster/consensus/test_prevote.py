from raftflow.cluster.consensus.electorate import Electorate
from raftflow.cluster.consensus.membership import Configuration, Member
from raftflow.cluster.consensus.prevote import Objection, PreVote, objection, would_vote


def asked(**changed: object) -> bool:
    facts = {
        "asked_term": 5,
        "own_term": 4,
        "candidate_log": (4, 10),
        "own_log": (4, 10),
        "hears_leader": False,
    }
    return would_vote(**(facts | changed))  # type: ignore[arg-type]


def test_a_vote_needs_a_newer_term_a_complete_log_and_silence() -> None:
    assert asked()
    assert not asked(asked_term=4)
    assert not asked(candidate_log=(4, 9))
    assert not asked(candidate_log=(3, 99))
    assert asked(candidate_log=(5, 1))
    assert not asked(hears_leader=True)


def test_a_refusal_has_a_reason() -> None:
    facts = {
        "asked_term": 4,
        "own_term": 4,
        "candidate_log": (4, 10),
        "own_log": (4, 10),
        "hears_leader": False,
    }
    assert objection(**facts) is Objection.TERM_OVER  # type: ignore[arg-type]
    facts["hears_leader"] = True
    assert objection(**facts) is Objection.HEARS_LEADER  # type: ignore[arg-type]
    facts["candidate_log"] = (4, 9)
    assert objection(**facts) is Objection.LOG_BEHIND  # type: ignore[arg-type]


def voters(ids: str) -> Electorate:
    return Electorate(Configuration(tuple(Member(each, "") for each in ids)), {})


def test_a_majority_wins_and_a_voter_counts_once() -> None:
    pre_vote, five = PreVote(), voters("abcde")
    pre_vote.start(7, {"a"})
    pre_vote.granted("b", asked_term=7)
    pre_vote.granted("b", asked_term=7)
    pre_vote.granted("c", asked_term=6)
    assert not pre_vote.won(five)
    pre_vote.granted("c", asked_term=7)
    assert pre_vote.won(five)


def test_whoever_is_no_voter_needs_the_others() -> None:
    pre_vote, two = PreVote(), voters("bc")
    pre_vote.start(7, set())
    pre_vote.granted("b", asked_term=7)
    assert not pre_vote.won(two)
    pre_vote.granted("c", asked_term=7)
    assert pre_vote.won(two)


def test_what_was_stopped_is_never_won() -> None:
    pre_vote, one = PreVote(), voters("a")
    assert not pre_vote.won(one)
    pre_vote.start(1, {"a"})
    assert pre_vote.won(one)
    pre_vote.stop()
    assert not pre_vote.active
    assert not pre_vote.won(one)
