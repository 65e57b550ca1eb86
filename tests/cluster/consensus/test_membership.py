"""The words for who belongs to the cluster, and what may follow what."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftflow.cluster.consensus.membership import (
    MAX_VOTERS,
    Configuration,
    Member,
    MembershipError,
    decode,
    encode,
    step_problem,
)

THREE = Configuration(tuple(Member(name, f"{name}:1") for name in "abc"))
MEMBERS = st.builds(
    Member,
    id=st.text(min_size=1, max_size=9),
    raft=st.text(max_size=9),
    voter=st.booleans(),
    incarnation=st.text(max_size=9),
).flatmap(lambda member: st.sampled_from([member, replace(member, voter=False, api=True)]))
CONFIGURATIONS = st.builds(
    lambda members, level: Configuration(tuple(sorted(members, key=lambda m: m.id)), level),
    st.lists(MEMBERS, max_size=6, unique_by=lambda member: member.id),
    st.integers(0, 9),
)


@given(CONFIGURATIONS)
def test_what_is_written_is_read(configuration: Configuration) -> None:
    assert decode(encode(configuration)) == configuration


@given(st.binary(max_size=60))
def test_any_bytes_are_a_configuration_or_refused(data: bytes) -> None:
    try:
        configuration = decode(data)
    except MembershipError:
        return
    assert all(member.id for member in configuration.members)


def test_a_member_is_there_once() -> None:
    with pytest.raises(MembershipError, match="sorted by id, each once"):
        Configuration((Member("a", ""), Member("a", "")))
    assert THREE.put(Member("b", "other")).find("b") == Member("b", "other")
    assert THREE.put(Member("ab", "")).voters == ("a", "ab", "b", "c")
    assert THREE.without("b").voters == ("a", "c")
    assert THREE.find("x") is None


@pytest.mark.parametrize(
    "after",
    [
        THREE,
        THREE.put(Member("d", "")),
        THREE.without("b"),
        THREE.put(Member("b", "", voter=False)),
        THREE.put(Member("b", "elsewhere:1")),
        THREE.put(Member("d", "", voter=False)).put(Member("e", "", voter=False)).without("a"),
        THREE.put(Member("a", "", incarnation="i")).put(Member("b", "", incarnation="j")),
        Configuration(THREE.members, 3),
    ],
)
def test_what_may_follow(after: Configuration) -> None:
    assert step_problem(THREE, after) is None


@pytest.mark.parametrize(
    ("after", "problem"),
    [
        (THREE.put(Member("d", "")).put(Member("e", "")), "one at a time"),
        (THREE.put(Member("d", "")).without("a"), "one at a time"),
        (THREE.without("a").without("b"), "one at a time"),
        (Configuration(()), "nobody"),
        (Configuration(tuple(Member(m.id, "", voter=False) for m in THREE.members)), "nobody"),
    ],
)
def test_what_must_not_follow(after: Configuration, problem: str) -> None:
    assert problem in (step_problem(THREE, after) or "")


def test_another_disk_is_another_voter() -> None:
    before = THREE.put(Member("a", "", incarnation="old"))
    assert "one at a time" in (step_problem(before, before.put(Member("a", "", True, "new"))) or "")
    assert "one at a time" in (step_problem(before, before.put(Member("a", "", True, ""))) or "")
    learner = before.put(Member("a", "", False, "new"))
    assert step_problem(before, learner) is None
    assert step_problem(learner, learner.put(Member("a", "", True, "new"))) is None


def test_levels_do_not_fall_and_voters_are_few() -> None:
    assert "fall" in (step_problem(Configuration(THREE.members, 3), THREE) or "")
    full = Configuration(tuple(Member(f"n{i}", "") for i in range(MAX_VOTERS)))
    assert "at most" in (step_problem(full, full.put(Member("o", ""))) or "")


def test_an_api_node_is_no_voter() -> None:
    votes = Configuration((Member("a", ""), Member("b", "", voter=True, api=True)))
    with pytest.raises(MembershipError, match="an API node votes"):
        decode(encode(votes))
    kinds = (Member("a", ""), Member("a", "", voter=False), Member("a", "", voter=False, api=True))
    assert [member.kind for member in kinds] == ["voter", "learner", "api"]
