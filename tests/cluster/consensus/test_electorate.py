"""Quorum arithmetic: what one majority proves to the next."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftflow.cluster.consensus.electorate import Electorate
from raftflow.cluster.consensus.membership import Configuration, Member, step_problem

NAMES = "abcdefg"


def of(voters: str, learners: str = "") -> Configuration:
    members = [Member(name, "", name in voters) for name in sorted(voters + learners)]
    return Configuration(tuple(members))


@pytest.mark.parametrize(
    ("voters", "needed"), [("a", 1), ("ab", 2), ("abc", 2), ("abcd", 3), ("abcde", 3)]
)
def test_a_majority_is_more_than_half(voters: str, needed: int) -> None:
    electorate = Electorate(of(voters), {})
    for count in range(len(voters) + 1):
        for ids in itertools.combinations(voters, count):
            assert electorate.agreed(ids) == (count >= needed)


def test_learners_and_strangers_count_nowhere() -> None:
    electorate = Electorate(of("abc", learners="de"), {})
    assert electorate.majority == 2
    assert not electorate.agreed({"a", "d", "e", "x"})
    assert electorate.reached({"a": 9, "b": 5, "d": 9, "e": 9, "x": 9}) == 5
    assert not electorate.counts("d", "")
    assert not electorate.counts("x", "")


def test_a_voter_counts_on_the_disk_that_is_recorded() -> None:
    recorded = of("bc").put(Member("a", "", incarnation="old"))
    first_seen = {"a": "new"}
    electorate = Electorate(recorded, first_seen)
    assert electorate.counts("b", "another")  # nothing is known of it yet
    first_seen["b"] = "seen"
    assert electorate.counts("a", "old")
    assert not electorate.counts("a", "new")
    assert not electorate.counts("a", "")
    assert electorate.counts("b", "seen")
    assert not electorate.counts("b", "another")
    assert electorate.counts("c", "whatever")  # nothing is known of it


def test_what_a_majority_has_reached() -> None:
    electorate = Electorate(of("abcd"), {})
    assert electorate.reached({}) == 0
    assert electorate.reached({"a": 9, "b": 8}) == 0
    assert electorate.reached({"a": 9, "b": 8, "c": 3}) == 3
    assert electorate.reached({"a": 9, "b": 8, "c": 3, "d": 8}) == 8


@given(st.data())
def test_any_majority_meets_any_majority_of_the_next_configuration(data: st.DataObject) -> None:
    members = st.sets(st.sampled_from(NAMES), min_size=1)
    before, after = ("".join(sorted(data.draw(members))) for _ in range(2))
    changes = set(before) ^ set(after)
    assert (step_problem(of(before), of(after)) is None) == (len(changes) <= 1)
    if len(changes) <= 1:
        one, other = Electorate(of(before), {}), Electorate(of(after), {})
        for ids in itertools.combinations(before, one.majority):
            for others in itertools.combinations(after, other.majority):
                assert set(ids) & set(others)


def test_a_disk_that_was_lost_before_any_was_recorded_is_not_recorded() -> None:
    electorate = Electorate(of("abc", learners="d"), {"a": "first"})
    after = of("abc", learners="d")
    assert electorate.contradiction(after.put(Member("a", "", incarnation="first"))) is None
    assert electorate.contradiction(after.put(Member("b", "", incarnation="any"))) is None
    assert electorate.contradiction(after.put(Member("a", "", False, "second"))) is None
    problem = electorate.contradiction(after.put(Member("a", "", incarnation="second")))
    assert "a had another disk" in (problem or "")
