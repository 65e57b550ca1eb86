"""Leases: a deadline is missed once, and a heartbeat moves it."""

from raftflow.cluster.leader.leases import Leases
from raftflow.engine.ids import RunKey

RUN = RunKey("default", "w", "r")


def held() -> Leases:
    leases = Leases()
    leases.hold(RUN, 1, "t", 1_000, 5_000)
    return leases


def test_a_missed_deadline_is_reported_once() -> None:
    leases = held()
    assert leases.missed(5_999) == []
    assert [lease.token for lease in leases.missed(6_000)] == ["t"]
    assert leases.missed(7_000) == []


def test_a_heartbeat_extends_by_the_full_duration() -> None:
    leases = held()
    assert leases.beat("t", 5_900)
    assert leases.missed(6_899) == []
    assert [lease.token for lease in leases.missed(6_900)] == ["t"]


def test_a_dropped_lease_has_no_heartbeat_and_no_expiry() -> None:
    leases = held()
    leases.drop("t")
    assert not leases.beat("t", 5_500)
    assert leases.missed(9_000) == []


def test_holding_again_does_not_shorten_or_extend() -> None:
    leases = held()
    leases.hold(RUN, 1, "t", 1_000, 5_800)
    assert [lease.token for lease in leases.missed(6_000)] == ["t"]
