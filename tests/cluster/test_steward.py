from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftflow.cluster.consensus.membership import (
    MAX_API_NODES,
    Configuration,
    Member,
    step_problem,
)
from raftflow.cluster.errors import MembershipRefused
from raftflow.cluster.steward import (
    CAUGHT_UP_ENTRIES,
    Change,
    NotYet,
    Seen,
    added,
    next_change,
    not_promoted,
    present,
    removed,
)
from raftflow.engine.commands import RELEASE_0_2, RELEASE_0_3

IDS = ("n1", "n2", "n3", "n4", "n5", "n6", "n7")
COMMIT = 1_000


def members(*shapes: str) -> tuple[Member, ...]:
    """`n1` votes on disk a; `n2-` is a learner; `n3/b` is recorded with disk b, `n3/` with none."""
    found = []
    for shape in shapes:
        name, slash, disk = shape.partition("/")
        found.append(
            Member(
                name.rstrip("-"),
                f"{name.rstrip('-')}:9233",
                not name.endswith("-"),
                disk if slash else "a",
            )
        )
    return tuple(found)


def cluster(*shapes: str, level: int = RELEASE_0_3) -> Configuration:
    return Configuration(members(*shapes), level)


def seen(*shapes: str, level: int = RELEASE_0_3, match: int = COMMIT) -> dict[str, Seen]:
    """`n1` is there on disk a, `n2/b` on disk b."""
    found = {}
    for shape in shapes:
        name, slash, disk = shape.partition("/")
        found[name] = Seen(disk if slash else "a", level, match)
    return found


def due(
    configuration: Configuration,
    there: dict[str, Seen],
    first_seen: dict[str, str] | None = None,
) -> Change | None:
    return next_change(configuration, seen=there, first_seen=first_seen or {}, commit_index=COMMIT)


# ---- the leader's policy ------------------------------------------------------------------------


def test_nothing_is_due_in_a_settled_cluster() -> None:
    assert due(cluster("n1", "n2", "n3"), seen("n1", "n2", "n3")) is None
    assert due(cluster("n1", "n2", "n3"), seen("n1", "n2")) is None


def test_all_must_be_there_and_understand_before_the_first_entry() -> None:
    young = cluster("n1/", "n2/", "n3/", level=0)
    assert due(young, seen("n1", "n2")) is None
    old = seen("n1", "n2") | seen("n3", level=RELEASE_0_2)
    assert due(young, old) is None
    change = due(young, seen("n1", "n2", "n3"))
    assert change is not None
    assert change.configuration == cluster("n1", "n2", "n3")


def test_the_disk_that_has_counted_is_the_one_recorded() -> None:
    """n2 was wiped before anything was recorded: the next change makes it a learner."""
    young = cluster("n1/", "n2/", "n3/", level=0)
    there = seen("n1", "n2/b", "n3")
    first = due(young, there, {"n2": "a"})
    assert first is not None
    assert first.configuration == cluster("n1", "n2", "n3")
    second = due(first.configuration, there)
    assert second is not None
    assert second.configuration == cluster("n1", "n2-/b", "n3")


def test_a_voter_with_another_disk_becomes_a_learner_and_votes_again() -> None:
    change = due(cluster("n1", "n2", "n3"), seen("n1", "n2", "n3/b", match=0))
    assert change is not None
    assert change.configuration == cluster("n1", "n2", "n3-/b")
    assert due(change.configuration, seen("n1", "n2", "n3/b", match=0)) is None
    again = due(change.configuration, seen("n1", "n2", "n3/b"))
    assert again is not None
    assert again.configuration == cluster("n1", "n2", "n3/b")


def test_without_a_majority_of_the_others_it_stays() -> None:
    assert due(cluster("n1", "n2", "n3"), seen("n1", "n3/b")) is None


def test_a_learner_is_first_recorded_then_promoted() -> None:
    there = seen("n1", "n2", "n3", "n4/d")
    recorded = due(cluster("n1", "n2", "n3", "n4-/"), there)
    assert recorded is not None
    assert recorded.configuration == cluster("n1", "n2", "n3", "n4-/d")
    promoted = due(recorded.configuration, there)
    assert promoted is not None
    assert promoted.configuration == cluster("n1", "n2", "n3", "n4/d")


@pytest.mark.parametrize(
    ("there", "votes"),
    [
        (seen("n4", match=COMMIT - CAUGHT_UP_ENTRIES), True),
        (seen("n4", match=COMMIT - CAUGHT_UP_ENTRIES - 1), False),
        (seen("n4", level=RELEASE_0_2), False),
        (seen("n4/other"), False),
        ({}, False),
    ],
)
def test_who_is_promoted(there: dict[str, Seen], votes: bool) -> None:
    change = due(cluster("n1", "n2", "n3", "n4-"), seen("n1", "n2", "n3") | there)
    assert (change is not None and "n4" in change.configuration.voters) == votes


def test_no_more_than_seven_vote() -> None:
    assert due(cluster(*IDS, "n8-"), seen(*IDS, "n8")) is None


def test_a_later_level_is_taken_up_once_all_have_it() -> None:
    assert due(cluster("n1", "n2"), seen("n1", level=4) | seen("n2")) is None
    change = due(cluster("n1", "n2"), seen("n1", "n2", level=4))
    assert change is not None
    assert change.configuration == cluster("n1", "n2", level=4)


# ---- properties ---------------------------------------------------------------------------------

DISKS = st.sampled_from(("", "a", "b"))


@st.composite
def situations(draw: st.DrawFn) -> tuple[Configuration, dict[str, Seen]]:
    ids = draw(st.lists(st.sampled_from(IDS), min_size=1, unique=True))
    level = draw(st.sampled_from((0, 3, 4)))
    found = tuple(Member(each, each, draw(st.booleans()), draw(DISKS)) for each in sorted(ids))
    if not any(each.voter for each in found):
        found = (replace(found[0], voter=True), *found[1:])
    there = {
        each: Seen(
            draw(st.sampled_from(("a", "b", "c"))),
            draw(st.integers(1, 5)),
            draw(st.sampled_from((0, COMMIT))),
        )
        for each in ids
        if draw(st.booleans())
    }
    return Configuration(found, level), there


@given(situations())
def test_every_change_may_follow_and_can_be_agreed_on(
    situation: tuple[Configuration, dict[str, Seen]],
) -> None:
    configuration, there = situation
    change = due(configuration, there)
    if change is None:
        return
    after = change.configuration
    assert after != configuration
    assert step_problem(configuration, after) is None
    assert {each.id for each in after.members} == {each.id for each in configuration.members}
    if configuration.feature_level < RELEASE_0_3:
        assert all(there[each.id].feature_level >= RELEASE_0_3 for each in after.members)
        assert after.voters == configuration.voters
    if after.voters != configuration.voters:
        assert len(present(after, there)) >= after.majority
    for member in after.members:
        before = configuration.find(member.id)
        if member.voter and before is not None and not before.voter:
            assert there[member.id].incarnation == member.incarnation == before.incarnation
            assert there[member.id].match_index + CAUGHT_UP_ENTRIES >= COMMIT


@given(situations())
def test_it_comes_to_rest_with_everybody_voting_who_is_there(
    situation: tuple[Configuration, dict[str, Seen]],
) -> None:
    configuration, there = situation
    there = {each: replace(found, match_index=COMMIT) for each, found in there.items()}
    for _ in range(4 * len(configuration.members) + 2):
        change = due(configuration, there)
        if change is None:
            break
        configuration = change.configuration
    assert due(configuration, there) is None
    if configuration.feature_level < RELEASE_0_3:
        return
    for member in configuration.members:
        found = there.get(member.id)
        if member.voter or found is None or found.feature_level < configuration.feature_level:
            continue
        assert found.incarnation == member.incarnation
        voting = configuration.put(replace(member, voter=True))
        assert len(present(voting, there)) < voting.majority


@pytest.mark.parametrize(
    ("configuration", "there", "why"),
    [
        (cluster("n1", "n2", "n3-"), seen("n1", "n2", "n3"), None),
        (cluster("n1", "n2", "n3-", level=0), seen("n1", "n2", "n3"), NotYet.LEVEL),
        (cluster("n1", "n2", "n3-"), seen("n1", "n2"), NotYet.NOT_CONNECTED),
        (cluster("n1", "n2", "n3-"), seen("n1", "n2", "n3/b"), NotYet.OTHER_DISK),
        (cluster("n1", "n2", "n3-"), seen("n1", "n2", "n3", match=9), NotYet.BEHIND),
        (cluster("n1", "n2", "n3-"), seen("n1", "n2", "n3", level=2), NotYet.OLD_RELEASE),
        (cluster("n1", "n2", "n3-", "n4"), seen("n1", "n3"), NotYet.OTHERS_AWAY),
    ],
)
def test_why_a_learner_does_not_vote_yet(
    configuration: Configuration, there: dict[str, Seen], why: NotYet | None
) -> None:
    learner = configuration.find("n3")
    assert learner is not None
    assert not_promoted(configuration, learner, there, COMMIT) is why


def test_an_api_node_never_votes_and_seven_voters_are_enough() -> None:
    api = Member("n4", "n4:9233", voter=False, incarnation="a", api=True)
    configuration = cluster("n1", "n2", "n3").put(api)
    there = seen("n1", "n2", "n3", "n4")
    assert not_promoted(configuration, api, there, COMMIT) is NotYet.FOR_GOOD
    many = cluster(*IDS).put(Member("n8", "n8:9233", voter=False, incarnation="a"))
    learner = many.find("n8")
    assert learner is not None
    assert not_promoted(many, learner, seen(*IDS, "n8"), COMMIT) is NotYet.ENOUGH_VOTERS


# ---- what an operator asks for ------------------------------------------------------------------


def refused(reason: str, said: str) -> pytest.RaisesExc[MembershipRefused]:
    return pytest.raises(MembershipRefused, match=said, check=lambda error: error.reason == reason)


def test_a_node_is_added_as_a_learner_of_which_no_disk_is_known() -> None:
    after = added(cluster("n1", "n2", "n3"), "n4", "n4:9233", held_back_by=())
    assert after == cluster("n1", "n2", "n3", "n4-/")


def test_what_is_there_is_not_added() -> None:
    with refused("NODE_EXISTS", "n2 is a member already, at n2:9233"):
        added(cluster("n1", "n2"), "n2", "elsewhere:1", held_back_by=())
    with refused("NODE_EXISTS", "n2:9233 is the address of n2"):
        added(cluster("n1", "n2"), "n3", "n2:9233", held_back_by=())


def test_an_eighth_member_is_refused() -> None:
    with refused("MEMBERSHIP_REFUSED", "at most 7"):
        added(cluster(*IDS), "n8", "n8:1", held_back_by=())


def test_nothing_changes_before_every_node_can_read_it() -> None:
    young = cluster("n1/", "n2/", level=0)
    with refused("MEMBERSHIP_REFUSED", r"release 0\.3 or later; n2 \(0\.2\.0\) not yet"):
        added(young, "n3", "n3:1", held_back_by=["n2 (0.2.0)"])
    with refused("MEMBERSHIP_REFUSED", "being settled, try again"):
        removed(young, "n2", seen("n1", "n2"), held_back_by=())


@pytest.mark.parametrize(
    ("before", "gone", "there", "said"),
    [
        (cluster("n1"), "n1", seen("n1"), "last voter"),
        (cluster("n1", "n2-"), "n1", seen("n1", "n2"), "last voter"),
        (cluster("n1", "n2", "n3"), "n2", seen("n1", "n2"), r"only 1 can answer \(n3 cannot\)"),
        (cluster("n1", "n2", "n3"), "n2", seen("n1", "n2", "n3/b"), r"\(n3 cannot\)"),
    ],
)
def test_what_would_stand_still_is_refused(
    before: Configuration, gone: str, there: dict[str, Seen], said: str
) -> None:
    with refused("MEMBERSHIP_REFUSED", said):
        removed(before, gone, there, held_back_by=())


@pytest.mark.parametrize("gone", ["n1", "n2", "n3"])
def test_any_of_three_can_go_and_the_dead_one_first(gone: str) -> None:
    before = cluster("n1", "n2", "n3")
    after = removed(before, gone, seen(*set(before.voters) - {gone}), held_back_by=())
    assert gone not in after.voters
    assert step_problem(before, after) is None


def test_a_learner_can_always_go() -> None:
    after = removed(cluster("n1", "n2-"), "n2", seen("n1"), held_back_by=())
    assert after == cluster("n1")


def test_who_is_no_member_cannot_go() -> None:
    with refused("NODE_NOT_FOUND", "n9 is no member; the members are n1, n2"):
        removed(cluster("n1", "n2"), "n9", seen("n1"), held_back_by=())


# ---- API nodes ----------------------------------------------------------------------------------


def with_api(*, disk: str = "a") -> Configuration:
    return cluster("n1", "n2", "n3").put(Member("n4", "n4:9233", False, disk, api=True))


def test_an_api_node_is_never_promoted() -> None:
    assert due(with_api(), seen("n1", "n2", "n3", "n4")) is None


def test_an_api_node_that_lost_its_disk_is_one_still() -> None:
    change = due(with_api(), seen("n1", "n2", "n3", "n4/b"))
    assert change is not None
    assert change.configuration.find("n4") == Member("n4", "n4:9233", False, "b", api=True)


def test_api_nodes_have_a_bound_of_their_own() -> None:
    found = cluster("n1", "n2", "n3")
    for number in range(MAX_API_NODES):
        found = added(found, f"a{number}", f"a{number}:1", held_back_by=(), api=True)
    with pytest.raises(MembershipRefused, match=f"there are {MAX_API_NODES} API nodes"):
        added(found, "b", "b:1", held_back_by=(), api=True)
    voter = added(found, "b", "b:1", held_back_by=()).find("b")
    assert voter is not None
    assert voter.kind == "learner"
