from __future__ import annotations

from why_facts import Picture, causes

from raftflow.cluster.why.causes import Cause
from raftflow.cluster.why.lagging import links_of_lag
from raftflow.cluster.why.members import Members
from raftflow.cluster.why.model import Link, Severity


def lag(picture: Picture, name: str = "n3") -> tuple[Link, ...]:
    members = Members.of(picture.facts)
    return links_of_lag(members, members[name])


def behind(entries: int) -> Picture:
    picture = Picture()
    picture.told["n1"]["log"]["last_index"] = 500 + entries
    picture.told["n1"]["followers"]["n2"]["match_index"] = 500 + entries
    picture.rows["n1"]["commit_index"] = 500 + entries
    return picture


def test_who_is_close_is_not_behind() -> None:
    assert lag(Picture()) == ()
    assert lag(behind(64)) == ()
    assert lag(behind(5_000), "n1") == ()


def test_how_far_it_is_and_that_the_way_is_slow() -> None:
    chain = lag(behind(5_000))
    assert causes(chain) == [Cause.FOLLOWER_BEHIND, Cause.LINK_SLOW]
    assert chain[0].says == "n3 is 5,000 entries behind n1, which leads."
    assert chain[0].severity is Severity.PROBLEM
    assert chain[0].evidence["match_index"] == 500
    assert lag(behind(100))[0].severity is Severity.WAITING


def test_a_slow_disk_or_processor_is_the_reason() -> None:
    for row, cause in (
        ({"fsync_ms": 900.0}, Cause.SLOW_FSYNC),
        ({"loop_lag_ms": 900.0}, Cause.LOOP_LAG),
    ):
        picture = behind(200)
        picture.rows["n3"] |= row
        assert causes(lag(picture)) == [Cause.FOLLOWER_BEHIND, cause]


def test_the_leader_has_lost_it_and_others_have_not() -> None:
    picture = behind(200)
    picture.lost("n1", "n3", "no_answer")
    chain = lag(picture)
    assert causes(chain) == [Cause.FOLLOWER_BEHIND, Cause.LINK_DOWN]
    assert "n1, which leads, has no connection with n3 for 42 s" in chain[1].says
    assert chain[1].next


def test_one_that_is_silent_over_a_connection_that_stands() -> None:
    picture = behind(200)
    picture.rows["n3"]["last_contact_ms"] = 2_500
    assert causes(lag(picture)) == [Cause.FOLLOWER_BEHIND, Cause.NODE_FROZEN]


def test_it_has_all_and_applies_it_slowly() -> None:
    picture = behind(200)
    picture.told["n1"]["followers"]["n3"]["match_index"] = 700
    picture.told["n3"]["log"]["store_has_room"] = False
    chain = lag(picture)
    assert causes(chain) == [Cause.FOLLOWER_BEHIND, Cause.APPLY_SLOW]
    assert "its store takes no more" in chain[1].says
    assert chain[1].next
    picture.rows["n3"]["fsync_ms"] = 900.0
    chain = lag(picture)
    assert causes(chain)[2:] == [Cause.SLOW_FSYNC]
    assert not chain[1].next


def test_a_copy_on_its_way() -> None:
    picture = behind(10)  # close, but for its log
    picture.told["n1"]["followers"]["n3"]["mode"] = "snapshot"
    chain = lag(picture)
    assert causes(chain) == [Cause.FOLLOWER_BEHIND, Cause.SNAPSHOT_UNDER_WAY]
    assert "n1 makes a copy of its state for it" in chain[1].says
    fetch = {
        **{"source": "n1", "index": 480, "size": 8 << 20, "received": 2 << 20},
        **{"for_ms": 3_000, "installing": False},
    }
    picture.told["n3"]["fetch"] = fetch
    assert lag(picture)[1].says.endswith("from n1, and has 2.0 of 8.0 MiB after 3 s.")
    fetch["installing"] = True
    picture.rows["n3"]["fsync_ms"] = 900.0
    chain = lag(picture)
    assert causes(chain)[1:] == [Cause.SNAPSHOT_UNDER_WAY, Cause.SLOW_FSYNC]
    assert "has all 8.0 MiB and installs it" in chain[1].says
    assert chain[1].evidence["installing"] is True


def test_without_a_leader_nobody_is_behind() -> None:
    picture = behind(5_000)
    picture.leader = None
    assert lag(picture) == ()
