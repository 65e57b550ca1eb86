"""A queue: what waits in it, and who polls it."""

from __future__ import annotations

from typing import Any

from why_run_facts import LEADERLESS, NOW_MS, backlog, causes, poller, work

from raftflow.cluster.why.facts import QueueFacts
from raftflow.cluster.why.queue import links_of_queue


def facts(**more: Any) -> QueueFacts:
    nothing = work()
    return QueueFacts(
        **{
            "namespace": "default",
            "queue": "payments",
            "now_ms": NOW_MS,
            "work": nothing,
            "around": nothing,
            **more,
        }
    )


def test_what_nobody_takes_comes_before_what_waits_its_turn() -> None:
    known = work(poller("w1", "charge"), queues=[backlog(3)])
    waiting = {"activity": {"charge": 2, "refund": 1}}
    links = links_of_queue(facts(work=known, waiting=waiting))
    assert causes(links) == ["queue_waits", "poller_lacks_name"]
    assert links[0].evidence["names"] == {"charge": 2, "refund": 1}
    assert links[1].evidence["name"] == "refund"


def test_both_kinds_are_told() -> None:
    known = work(queues=[backlog(2), backlog(1, kind="workflow", oldest_ms=9_000)])
    waiting = {"activity": {"charge": 2}, "workflow": {"Order": 1}}
    links = links_of_queue(facts(work=known, waiting=waiting))
    assert causes(links) == ["queue_waits", "no_poller"]
    assert "2 activity tasks (the first for 7 s)" in links[0].says
    assert "1 workflow task (the first for 9 s)" in links[0].says
    assert (links[0].evidence["queued"], links[0].evidence["oldest_ms"]) == (3, 9_000)


def test_a_leader_that_does_not_tell_the_names() -> None:
    links = links_of_queue(facts(work=work(queues=[backlog(2)]), untold="it is of release 0.4"))
    assert causes(links) == ["queue_waits"]
    assert links[0].evidence["not_heard"] == "it is of release 0.4"


def test_an_empty_queue_with_workers() -> None:
    (link,) = links_of_queue(facts(work=work(poller(), queues=[backlog(0, leases=4)])))
    assert (link.cause, link.severity) == ("queue_empty", "ok")
    assert "'w1' polls it, and 4 tasks are out with workers" in link.says


def test_a_queue_that_nobody_knows_shows_those_that_are_known() -> None:
    around = work(poller("w1", queue="packing"), queues=[backlog(1, queue="shipping")])
    (link,) = links_of_queue(facts(around=around))
    assert link.cause == "no_such_queue"
    assert link.evidence["queues"] == ("packing", "shipping")


def test_without_a_leader() -> None:
    links = links_of_queue(facts(work=work(poller()), leaderless=LEADERLESS))
    assert causes(links)[:2] == ["queue_waits", "no_leader"]


def test_of_two_answers_the_newer_counts() -> None:
    """Who polls and how much waits is shared among askers for a moment, names are not."""
    (link,) = links_of_queue(
        facts(work=work(poller(), queues=[backlog(2)]), waiting={"activity": {}})
    )
    assert link.cause == "queue_empty"


def test_queues_of_another_namespace_are_not_told() -> None:
    around = work(poller(queue="theirs", namespace="shop"), poller(queue="ours"))
    (link,) = links_of_queue(facts(around=around))
    assert link.evidence["queues"] == ("ours",)
