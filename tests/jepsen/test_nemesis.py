"""Faults that do nothing, nodes that end unasked and restless quiet periods are seen."""

import random

from tests.jepsen.checker.faults import check_ends, check_faults, check_quiet
from tests.jepsen.checker.resources import check_resources
from tests.jepsen.cluster import CLOCKS, FSYNC
from tests.jepsen.history import FAIL, INVOKE, OK, Op
from tests.jepsen.nemesis.conductor import Deck
from tests.jepsen.nemesis.families import FAMILIES, FAULTS, faults_of, possible, takes_nodes_down
from tests.jepsen.observer import Sample

S = 1_000_000_000


def fault(
    name: str, begin: int, end: int, *, error: str = "", nodes: tuple[str, ...] = (), ends=False
) -> list[Op]:
    told = {"did": name, "nodes": list(nodes), "ends_nodes": ends}
    process = "nemesis/process"
    return [
        Op(process, name, INVOKE, value=told, time_ns=begin * S),
        Op(process, name, FAIL if error else OK, error=error, time_ns=end * S),
    ]


def test_a_deck_gives_every_card_before_any_twice() -> None:
    deck = Deck("abcd", random.Random(1))
    drawn = [deck.draw() for _ in range(8)]
    assert sorted(drawn[:4]) == sorted(drawn[4:]) == list("abcd")


def test_every_fault_has_a_name_of_its_own() -> None:
    assert len(FAULTS) == sum(map(len, FAMILIES.values()))
    assert faults_of("kill-leader") == (FAULTS["kill-leader"],)
    assert takes_nodes_down("power")
    assert takes_nodes_down("kill-all")
    assert not takes_nodes_down("clock")
    assert not takes_nodes_down("partition-ring")


def test_what_hosts_cannot_do_is_said() -> None:
    can, cannot = possible(["kill", "clock", "upgrade", "power"], frozenset({CLOCKS, FSYNC}))
    assert can == ["kill", "clock", "upgrade"]
    assert cannot == [
        "rolling-upgrade: there is no old_release",
        "power-loss: there is no disk",
        "power-loss-all: there is no disk",
    ]


def test_a_fault_without_effect_fails_the_run() -> None:
    history = fault("kill-leader", 1, 2) + fault("loss", 3, 4, error="took no effect")
    assert check_faults(history, {"kill": ["kill-leader"]}).errors == (
        "loss (loss): took no effect",
    )


def test_a_family_that_never_struck_fails_the_run() -> None:
    history = fault("kill-leader", 1, 2, error="not now: nobody leads")
    families = {"kill": ["kill-leader", "kill-all"], "clock": ["clock-strobe"]}
    found = check_faults(history, families)
    assert found.errors == (
        "vacuous: none of kill-leader, kill-all struck",
        "vacuous: no fault struck",
    )
    assert found.stats["too_short_for"] == "clock"


def test_a_node_ends_only_where_it_may() -> None:
    history = fault("disk-full", 10, 20, nodes=("n1",), ends=True)
    samples = [Sample(12 * S, "n1", 1, ended=70), Sample(5 * S, "n2", 2, ended=-9)]
    assert check_ends(history, samples).ok
    assert not check_ends(history, [Sample(12 * S, "n2", 1, ended=70)]).ok
    assert not check_ends(history, [Sample(40 * S, "n1", 1, ended=70)]).ok
    assert not check_ends([], [Sample(1 * S, "n1", 1, ended=-11)]).ok


def test_rot_may_be_found_by_a_node_that_serves() -> None:
    """Its scrub reads what its start did not."""
    found = [Sample(36 * S, "n1", 1, ended=70)]
    rotten = fault("corrupt-store", 10, 20, nodes=("n1",), ends=True)
    assert check_ends(rotten, found).ok
    assert not check_ends(rotten, [Sample(60 * S, "n1", 1, ended=70)]).ok
    failed = fault("fsync-once", 10, 20, nodes=("n1",), ends=True)
    assert not check_ends(failed, found).ok


def test_a_removed_node_may_say_so_and_end() -> None:
    replaced = [
        Op("membership/operator", "replace", INVOKE, key="n1", time_ns=1 * S),
        Op("membership/operator", "replace", OK, key="n1", time_ns=9 * S),
    ]
    assert check_ends(replaced, [Sample(3 * S, "n1", 1, ended=78)]).ok
    assert not check_ends(replaced, [Sample(3 * S, "n2", 1, ended=78)]).ok


def test_a_node_that_was_taken_out_may_end() -> None:
    history = [
        Op("membership/operator", "replace", kind, key="n1", time_ns=second * S)
        for kind, second in (("invoke", 10), ("ok", 20))
    ]
    assert check_ends(history, [Sample(12 * S, "n1", 1, ended=78)]).ok
    assert not check_ends(history, [Sample(12 * S, "n2", 1, ended=78)]).ok


def test_an_election_in_a_quiet_period_is_seen() -> None:
    history = fault("quiet", 100, 120)

    def told(second: int, term: int, leader: str) -> Sample:
        return Sample(second * S, "n1", 1, role="follower", term=term, leader=leader)

    calm = [told(second, 3, "n2") for second in range(100, 120)]
    assert check_quiet(history, calm).ok
    assert check_quiet(history, [told(101, 2, "n1"), *calm]).ok
    assert check_quiet(history, [*calm, Sample(110 * S, "n1", 1)]).ok
    assert not check_quiet(history, [*calm, told(119, 4, "n2")]).ok
    assert not check_quiet(history, [*calm, told(119, 3, "")]).ok
    operator = [
        Op("membership/operator", "replace", kind, key="n1", time_ns=second * S)
        for kind, second in (("invoke", 118), ("ok", 119))
    ]
    assert check_quiet([*history, *operator], [*calm, told(119, 3, "")]).ok


def test_a_storm_of_terms_is_seen() -> None:
    history = fault("kill-leader", 1, 2)
    assert check_quiet(history, [Sample(3 * S, "n1", 1, role="leader", term=5)]).ok
    assert not check_quiet(history, [Sample(3 * S, "n1", 1, role="leader", term=50)]).ok


def test_growth_is_seen() -> None:
    def life(grows_kib: int, opens: float) -> list[Sample]:
        return [
            Sample(s * S, "n1", 1, rss_kib=80_000 + s * grows_kib, descriptors=60 + int(s * opens))
            for s in range(0, 600, 5)
        ]

    assert check_resources(life(0, 0)).ok
    assert check_resources(life(0, 0)).stats["nodes_judged"] == 1
    assert "memory" in check_resources(life(300, 0)).errors[0]
    assert "descriptors" in check_resources(life(0, 0.5)).errors[0]
