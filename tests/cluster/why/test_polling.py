"""Why nobody takes a queued task, from who polls where."""

from __future__ import annotations

from typing import Any

import pytest
from why_run_facts import NOW_MS, backlog, causes, holding, poller, refused, work

from raftflow.cluster.why.model import Severity
from raftflow.cluster.why.polling import Wait, links_of_wait
from raftflow.cluster.work_facts import ACTIVITY


def wait(**more: Any) -> Wait:
    nothing = work()
    return Wait(
        **{
            "kind": ACTIVITY,
            "namespace": "default",
            "queue": "payments",
            "name": "charge",
            "waited_ms": 7_000,
            "now_ms": NOW_MS,
            "work": nothing,
            "around": nothing,
            **more,
        }
    )


@pytest.mark.parametrize(
    ("facts", "chain"),
    [
        ({}, ["no_poller"]),
        ({"work": work(poller("w1", "charge"))}, ["polled"]),
        ({"work": work(poller("w1"))}, ["polled"]),  # it takes whatever comes
        ({"work": work(poller("w1", "refund"))}, ["poller_lacks_name"]),
        ({"work": work(poller("w1", "charge", polls=0))}, ["polled"]),  # between two polls
        ({"work": work(poller("w1", "charge", polls=0, seen_ms=NOW_MS - 60_000))}, ["no_poller"]),
        (
            {"work": work(poller("w1", "charge", polls=0), holdings=[holding("w1", 8)])},
            ["workers_busy"],
        ),
        # Who took other names and went is no worker of the queue any more.
        ({"work": work(poller("w1", "refund", polls=0, seen_ms=NOW_MS - 60_000))}, ["no_poller"]),
        # Who is not remembered as a poller may have it; who is, says what it takes.
        ({"work": work(holdings=[holding("w2", 1)])}, ["workers_busy"]),
        (
            {"work": work(poller("w2", "refund"), holdings=[holding("w2", 1)])},
            ["poller_lacks_name"],
        ),
        (
            {"around": work(poller("w1", "charge", queue="cash"))},
            ["no_poller", "poller_other_queue"],
        ),
        (
            {"around": work(poller("w1", "charge", namespace="shop"))},
            ["no_poller", "poller_other_namespace"],
        ),
        # Who takes anything elsewhere may not know this name, and is a better hint than none.
        ({"around": work(poller("w1", namespace="shop"))}, ["no_poller", "poller_other_namespace"]),
        ({"around": work(poller("w1", "charge", kind="workflow"))}, ["no_poller"]),
        (
            {"refused": [refused("PollTask", "RATE_LIMITED", target="")]},
            ["no_poller", "rate_limited"],
        ),
        (
            {"refused": [refused("PollTask", "PERMISSION_DENIED", target="")]},
            ["no_poller", "call_refused"],
        ),
        (
            {"refused": [refused("PollTask", "RATE_LIMITED", last_ms=NOW_MS - 60_000)]},
            ["no_poller"],
        ),
    ],
)
def test_chains(facts: dict[str, Any], chain: list[str]) -> None:
    links = links_of_wait(wait(**facts))
    assert causes(links) == chain
    assert all(link.next for link in links[-1:] if link.severity is Severity.PROBLEM)


def test_the_queues_that_are_polled_are_named() -> None:
    around = work(poller("a", "pack", queue="packing"), poller("b", "ship", queue="shipping"))
    (link,) = links_of_wait(wait(around=around))
    assert link.evidence["queues_polled"] == ("packing", "shipping")
    assert "'packing' and 'shipping'" in link.says


def test_the_last_one_that_polled_is_named() -> None:
    gone = poller("w1", "charge", polls=0, seen_ms=NOW_MS - 60_000)
    (link,) = links_of_wait(wait(work=work(gone)))
    assert link.evidence["last_worker"] == "w1"
    assert "(60 s ago)" in link.says


@pytest.mark.parametrize(
    ("waited_ms", "settled", "severity"),
    [(500, True, "waiting"), (7_000, True, "problem"), (500, False, "waiting")],
)
def test_polled_and_yet_not_taken(waited_ms: int, settled: bool, severity: str) -> None:
    (link,) = links_of_wait(wait(waited_ms=waited_ms, work=work(poller(), settled=settled)))
    assert link.severity == severity
    assert bool(link.next) == (waited_ms > 3_000 or not settled)


def test_how_many_wait_while_all_are_busy() -> None:
    facts = work(queues=[backlog(12)], holdings=[holding("w1", 8), holding("w2", 1)])
    (link,) = links_of_wait(wait(work=facts))
    assert (link.evidence["queued"], link.evidence["leases"]) == (12, 9)
    assert "'w1' has 8 tasks and 'w2' has 1 task, and 12 tasks wait" in link.says


def test_who_was_not_heard_is_said() -> None:
    (link,) = links_of_wait(wait(work=work(missing={"n3": "not connected"})))
    assert link.evidence["not_heard"] == {"n3": "not connected"}


@pytest.mark.parametrize(("name", "chain"), [("Order", ["no_poller"]), ("Hosted", ["polled"])])
def test_the_nodes_themselves_are_nobodys_workers(name: str, chain: list[str]) -> None:
    own = work(poller("hosted-1", "Hosted", kind="workflow"))
    facts = {"kind": "workflow", "name": name, "work": own, "around": own}
    links = links_of_wait(wait(**facts, hosted=frozenset({"Hosted"})))
    assert causes(links) == chain
    if chain == ["no_poller"]:
        assert links[0].evidence["queues_polled"] == ()
