"""How the queues stand: by the indexes alone, whatever their size."""

from __future__ import annotations

from raftflow.cluster.leader.leases import Holder, Leases
from raftflow.cluster.leader.matching import Matching, QueuedTask
from raftflow.cluster.leader.standing import standing
from raftflow.cluster.work_facts import ACTIVITY, WORKFLOW, Holding, Leading, QueueFacts, Wanted
from raftflow.engine.ids import RunKey
from raftflow.proto.raftflow.internal.v1 import node_pb2

NOW_MS = 10_000


def task(
    number: int, *, since_ms: int, queue: str = "q", priority: int = 100, namespace: str = "default"
) -> QueuedTask:
    run = RunKey(namespace, f"w{number}", "r")
    return QueuedTask(run, 1, 1, "charge", queue, priority, since_ms)


def holder(worker: str, queue: str = "q") -> Holder:
    return Holder((True, "default", queue), worker, "n2")


def stands(
    matching: Matching, leases: Leases, wanted: Wanted | None = None, most: int = 10
) -> Leading:
    return standing(
        matching, leases, wanted or Wanted(), term=2, settled=True, now_ms=NOW_MS, most=most
    )


def facts(queue: str = "q", **more: int | None) -> QueueFacts:
    fields = {"queued": 0, "oldest_ms": None, "leases": 0, "expired": 0} | more
    return QueueFacts(namespace="default", kind=ACTIVITY, queue=queue, **fields)  # type: ignore[arg-type]


def test_the_oldest_is_the_one_that_came_first_whatever_goes_first() -> None:
    matching, leases = Matching(), Leases()
    first, urgent = task(1, since_ms=4_000), task(2, since_ms=9_000, priority=1)
    matching.offer([first])
    matching.offer([urgent])
    assert stands(matching, leases).queues == (facts(queued=2, oldest_ms=6_000),)
    matching.withdraw(first.key)
    assert stands(matching, leases).queues == (facts(queued=1, oldest_ms=1_000),)
    matching.withdraw(urgent.key)
    assert stands(matching, leases).queues == ()


def test_a_queue_with_polls_alone_is_one() -> None:
    matching = Matching()
    poll = node_pb2.Poll(poll_id="p", task_queue="q", namespace="default")
    matching.park("n1", poll)
    (only,) = stands(matching, Leases()).queues
    assert (only.kind, only.queued) == (WORKFLOW, 0)


def test_leases_are_counted_by_queue_and_holder() -> None:
    leases = Leases()
    run = RunKey("default", "w", "r")
    for number, worker in enumerate(("a", "a", "b")):
        leases.hold(run, 1, f"t{number}", 1_000, 0, holder(worker))
    seen = stands(Matching(), leases)
    assert seen.queues == (facts(leases=3),)
    assert [(each.worker, each.leases) for each in seen.holdings] == [("a", 2), ("b", 1)]
    leases.drop("t0")
    leases.drop("t1")
    assert stands(Matching(), leases).holdings == (
        Holding(namespace="default", kind=ACTIVITY, queue="q", worker="b", node="n2", leases=1),
    )


def test_missed_leases_are_counted_also_when_nothing_else_is_left() -> None:
    leases = Leases()
    leases.hold(RunKey("default", "w", "r"), 1, "t", 1_000, 0, holder("a"))
    leases.drop("t", expired=True)
    leases.drop("t", expired=True)  # once
    assert stands(Matching(), leases).queues == (facts(expired=1),)
    leases.clear()
    assert stands(Matching(), leases).queues == ()


def test_only_what_is_wanted_and_no_more_than_so_many() -> None:
    matching = Matching()
    matching.offer([task(n, since_ms=0, queue=f"q{n}") for n in range(3)])
    matching.offer([task(9, since_ms=0, namespace="shop")])
    seen = stands(matching, Leases(), most=2)
    assert [each.queue for each in seen.queues] == ["q0", "q1"]
    assert seen.truncated
    (only,) = stands(matching, Leases(), Wanted(frozenset({"shop"}))).queues
    assert only.namespace == "shop"
    (named,) = stands(matching, Leases(), Wanted(queue="q1")).queues
    assert named.queue == "q1"


def test_no_more_holders_than_so_many() -> None:
    leases = Leases()
    run = RunKey("default", "w", "r")
    for number in range(3):
        leases.hold(run, 1, f"t{number}", 1_000, 0, holder(f"w{number}"))
    seen = stands(Matching(), leases, most=2)
    assert [each.worker for each in seen.holdings] == ["w0", "w1"]
    assert seen.truncated
    assert seen.queues[0].leases == 3
