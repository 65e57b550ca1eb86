from __future__ import annotations

from why_facts import Picture, causes

from raftflow.cluster.why.causes import Cause
from raftflow.cluster.why.log import links_of_log
from raftflow.cluster.why.model import Severity


def test_nothing_is_wrong() -> None:
    [link] = links_of_log(Picture().facts)
    assert (link.cause, link.severity) == (Cause.LOG_WELL, Severity.OK)
    assert link.evidence["commit_index"] == 500


def test_without_a_leader_that_is_the_reason() -> None:
    picture = Picture(leader=None)
    assert links_of_log(picture.facts)[0].cause is Cause.NO_LEADER


def busy(**changed: object) -> Picture:
    picture = Picture()
    picture.told["n1"]["backlog"] |= {
        **{"commands": 900, "bytes": 40 << 20, "entries": 3, "oldest_entry_ms": 1_500},
        **changed,
    }
    return picture


def test_commands_that_wait_and_calls_that_were_refused() -> None:
    chain = links_of_log(busy().facts)
    assert causes(chain) == [Cause.BACK_PRESSURE]
    assert chain[0].severity is Severity.WAITING
    assert chain[0].evidence["commands"] == 900
    assert chain[0].next
    [link] = links_of_log(busy(refused=7, refused_ago_ms=2_000).facts)
    assert link.severity is Severity.PROBLEM
    assert "7 calls found no room" in link.says
    assert causes(links_of_log(busy(oldest_entry_ms=20).facts)) == [Cause.LOG_WELL]


def test_why_entries_wait_for_their_majority() -> None:
    picture = busy()
    picture.rows["n1"]["fsync_ms"] = 400.0
    chain = links_of_log(picture.facts)
    assert causes(chain) == [Cause.BACK_PRESSURE, Cause.SLOW_FSYNC]
    assert not chain[0].next
    picture = busy()
    picture.rows["n2"]["fsync_ms"] = 400.0
    assert causes(links_of_log(picture.facts)) == [Cause.BACK_PRESSURE]  # n3 is enough
    picture.away("n3")
    assert causes(links_of_log(picture.facts)) == [Cause.BACK_PRESSURE, Cause.SLOW_FSYNC]


def test_the_follower_that_is_furthest_behind() -> None:
    picture = Picture()
    picture.told["n1"]["log"]["last_index"] = 9_000
    picture.told["n1"]["followers"]["n2"]["match_index"] = 8_000
    chain = links_of_log(picture.facts)
    assert causes(chain) == [Cause.FOLLOWER_BEHIND, Cause.LINK_SLOW]
    assert chain[0].evidence["node"] == "n3"
    picture.away("n2")
    assert causes(links_of_log(picture.facts)) == [Cause.NODE_UNREACHABLE, Cause.PROCESS_DOWN]


def grown(**changed: object) -> Picture:
    picture = Picture()
    picture.told["n1"]["log"] |= {
        **{"last_index": 40_000, "applied_index": 40_000, "checkpointed_index": 39_990},
        **changed,
    }
    for name in ("n2", "n3"):
        picture.told["n1"]["followers"][name]["match_index"] = 40_000
    return picture


def test_a_copy_keeps_the_log() -> None:
    pin = {"index": 1_000, "for_ms": 30_000, "size": 4 << 20, "readers": ["n3"]}
    picture = grown(pins=[pin])
    picture.told["n1"]["followers"]["n3"]["mode"] = "snapshot"
    picture.told["n1"]["followers"]["n3"]["match_index"] = 0
    assert causes(links_of_log(picture.facts)) == [
        Cause.LOG_NOT_COMPACTING,
        Cause.LOG_PINNED,
        Cause.SNAPSHOT_UNDER_WAY,
    ]
    picture = grown(pins=[pin])
    chain = links_of_log(picture.facts)
    assert causes(chain) == [Cause.LOG_NOT_COMPACTING, Cause.LOG_PINNED]
    assert chain[1].says == (
        "A copy of the state at entry 1000 keeps everything after it for 30 s: n3 fetches it."
    )
    pin["readers"] = []
    assert "wait" in links_of_log(grown(pins=[pin]).facts)[1].next
    pin["index"] = 35_000  # the tail would be kept anyway
    assert causes(links_of_log(grown(pins=[pin]).facts)) == [Cause.LOG_WELL]


def test_checkpoints_that_do_not_end() -> None:
    picture = grown(checkpointed_index=500, checkpoint_age_ms=200_000)
    chain = links_of_log(picture.facts)
    assert causes(chain) == [Cause.LOG_NOT_COMPACTING, Cause.CHECKPOINT_HELD_UP]
    assert "200 s" in chain[1].says or "3 min" in chain[1].says
    assert "fuser" in chain[1].next
    picture.rows["n1"]["fsync_ms"] = 900.0
    assert causes(links_of_log(picture.facts))[2:] == [Cause.SLOW_FSYNC]
    assert causes(links_of_log(grown(checkpoint_age_ms=200_000).facts)) == [Cause.LOG_WELL]


def test_the_disk_with_the_least_room() -> None:
    picture = Picture()
    picture.free("n2", 300 << 20)
    picture.free("n3", 100 << 20)
    [link] = links_of_log(picture.facts)
    assert link.cause is Cause.DISK_NEARLY_FULL
    assert link.evidence["node"] == "n3"
