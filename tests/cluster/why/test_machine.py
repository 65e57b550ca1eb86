from __future__ import annotations

from typing import Any

import pytest
from why_facts import Picture, causes

from raftflow.cluster.why.causes import Cause
from raftflow.cluster.why.machine import links_of_machine
from raftflow.cluster.why.members import Members
from raftflow.cluster.why.model import Link, Severity

MIB = 1 << 20
DAY_S = 86_400


def found(picture: Picture, name: str = "n2") -> list[Link]:
    members = Members.of(picture.facts)
    return links_of_machine(members, members[name])


def one(**row: Any) -> Link:
    picture = Picture()
    picture.rows["n2"] |= row
    [link] = found(picture)
    assert link.evidence["node"] == "n2"
    assert link.next
    return link


def test_a_node_that_is_well_has_nothing() -> None:
    assert found(Picture()) == []


def test_what_is_not_known_is_not_wrong() -> None:
    picture = Picture()
    for name in ("fsync_ms", "loop_lag_ms", "clock_skew_ms", "disk_free_bytes", "certificates"):
        picture.rows["n2"][name] = None
    del picture.told["n2"]
    assert found(picture) == []


@pytest.mark.parametrize(
    ("row", "cause", "severity"),
    [
        ({"fsync_ms": 250.0}, Cause.SLOW_FSYNC, Severity.WAITING),
        ({"fsync_ms": 900.0}, Cause.SLOW_FSYNC, Severity.PROBLEM),
        ({"loop_lag_ms": 300.0}, Cause.LOOP_LAG, Severity.WAITING),
        ({"loop_lag_ms": 900.0}, Cause.LOOP_LAG, Severity.PROBLEM),
        ({"clock_skew_ms": -400}, Cause.CLOCK_SKEW, Severity.WAITING),
        ({"clock_skew_ms": 5_000}, Cause.CLOCK_SKEW, Severity.PROBLEM),
        (
            {"certificates": {"api": 99 * DAY_S, "peer": 10 * DAY_S}},
            Cause.CERTIFICATE_EXPIRES,
            None,
        ),
        ({"certificates": {"peer": DAY_S}}, Cause.CERTIFICATE_EXPIRES, Severity.PROBLEM),
        ({"certificates": {"peer": -5}}, Cause.CERTIFICATE_EXPIRED, Severity.PROBLEM),
        ({"feature_level": 3, "version": "0.3.0"}, Cause.VERSION_GATE, Severity.WAITING),
    ],
)
def test_each_is_named(row: dict[str, Any], cause: Cause, severity: Severity | None) -> None:
    link = one(**row)
    assert link.cause is cause
    assert link.severity is (severity or Severity.WAITING)


@pytest.mark.parametrize("told", [True, False])
def test_a_disk_with_little_room(told: bool) -> None:
    for free, severity in ((1_000 * MIB, Severity.WAITING), (100 * MIB, Severity.PROBLEM)):
        picture = Picture()
        picture.free("n2", free)
        if not told:  # of a release before 0.5 the row is all there is
            del picture.told["n2"]
        [link] = found(picture)
        assert (link.cause, link.severity) == (Cause.DISK_NEARLY_FULL, severity)
        assert link.evidence["free_bytes"] == free


def test_the_forecast_of_a_disk() -> None:
    picture = Picture()
    picture.free("n2", 4_000 * MIB)
    picture.told["n2"]["disk"] |= {
        "growth": {
            **{"over_ms": 600_000, "used_bytes": 400 * MIB, "full_in_ms": 6_000_000},
            "parts": {"log": 10 * MIB, "state": 0},
        }
    }
    [link] = found(picture)
    assert link.severity is Severity.PROBLEM  # within two hours, however much is left
    assert link.evidence["full_in_ms"] == 6_000_000
    assert link.says == (
        "The disk of n2 has 4,000 MiB left; it lost 400 MiB in the last 10 min, and is full in"
        " 100 min at that rate (most of it is not raftflow's)."
    )
    picture.told["n2"]["disk"]["growth"]["over_ms"] = 60_000  # too short a look for so long a time
    assert found(picture) == []
    picture.told["n2"]["disk"]["growth"] |= {"used_bytes": -5, "full_in_ms": None}
    assert found(picture) == []


def test_a_dispute_that_nobody_could_settle() -> None:
    picture = Picture()
    dispute = {"index": 9, "peer": "n3", "decided": False, "odd": [], "ago_ms": 1_000}
    picture.told["n2"]["dispute"] = dispute
    [link] = found(picture)
    assert link.cause is Cause.DIGEST_DIVERGENCE
    assert link.evidence["other"] == "n3"
    for settled in ({"decided": True}, {"ago_ms": 10_000_000}):
        picture.told["n2"]["dispute"] = dispute | settled
        assert found(picture) == []


def test_problems_come_first() -> None:
    picture = Picture()
    picture.rows["n2"]["loop_lag_ms"] = 500.0
    picture.free("n2", 1_000 * MIB)
    assert causes(found(picture)) == [Cause.LOOP_LAG, Cause.DISK_NEARLY_FULL]


def test_the_version_gate_names_all_that_hold_it_back() -> None:
    picture = Picture()
    for name in ("n2", "n3"):
        picture.rows[name] |= {"feature_level": 3, "version": "0.3.0"}
    [link] = found(picture)
    assert link.evidence["held_back_by"] == ("n2", "n3")
    assert "until n2 and n3 can do level 4 (release 0.4)" in link.says
