"""Which workers poll here: entries come with polls and stay for a while without."""

from __future__ import annotations

from raftflow.cluster import workers as module
from raftflow.cluster.work_facts import ACTIVITY, ANY_TYPE, WORKFLOW, Poller, Wanted
from raftflow.cluster.workers import KEPT_MS, Workers
from raftflow.proto.raftflow.internal.v1 import node_pb2

EVERYTHING = Wanted()


class Clock:
    now_ms = 1_000

    def __call__(self) -> int:
        return self.now_ms


def poll(
    worker: str = "w1",
    names: tuple[str, ...] = ("charge",),
    *,
    queue: str = "payments",
    namespace: str = "default",
    kind: node_pb2.Poll.Kind = node_pb2.Poll.KIND_ACTIVITY,
) -> node_pb2.Poll:
    return node_pb2.Poll(
        kind=kind, namespace=namespace, task_queue=queue, names=names, worker_id=worker
    )


def rig() -> tuple[Workers, Clock]:
    clock = Clock()
    return Workers("n1", now_ms=clock), clock


def told(workers: Workers, wanted: Wanted = EVERYTHING) -> list[Poller]:
    return list(workers.pollers(wanted))


def test_polls_of_a_worker_at_a_queue_are_one_entry() -> None:
    workers, clock = rig()
    workers.parked(poll())
    clock.now_ms = 2_000
    workers.parked(poll(names=("refund", "charge")))
    assert told(workers) == [
        Poller(
            node="n1",
            namespace="default",
            kind=ACTIVITY,
            queue="payments",
            worker="w1",
            types=("charge", "refund"),
            polls=2,
            since_ms=1_000,
            seen_ms=2_000,
        )
    ]


def test_a_poll_for_anything_says_so() -> None:
    workers, _ = rig()
    workers.parked(poll(names=("charge",)))
    workers.parked(poll(names=()))
    assert [each.types for each in told(workers)] == [(ANY_TYPE,)]


def test_kinds_queues_and_namespaces_are_told_apart() -> None:
    workers, _ = rig()
    workers.parked(poll())
    workers.parked(poll(kind=node_pb2.Poll.KIND_DECISION))
    workers.parked(poll(queue="mail"))
    workers.parked(poll(namespace="shop"))
    assert [(each.kind, each.namespace, each.queue) for each in told(workers)] == [
        (ACTIVITY, "default", "payments"),
        (WORKFLOW, "default", "payments"),
        (ACTIVITY, "default", "mail"),
        (ACTIVITY, "shop", "payments"),
    ]
    assert [each.queue for each in told(workers, Wanted(queue="mail"))] == ["mail"]
    shop = Wanted(frozenset({"shop"}))
    assert [each.namespace for each in told(workers, shop)] == ["shop"]


def test_a_worker_at_work_is_remembered_and_comes_back_as_the_same() -> None:
    workers, clock = rig()
    workers.parked(poll())
    clock.now_ms = 5_000
    workers.left(poll())
    (away,) = told(workers)
    assert (away.polls, away.types, away.seen_ms) == (0, ("charge",), 5_000)
    clock.now_ms = 5_000 + KEPT_MS - 1
    workers.parked(poll())
    (back,) = told(workers)
    assert (back.polls, back.since_ms) == (1, 1_000)


def test_a_worker_that_stays_away_is_forgotten() -> None:
    workers, clock = rig()
    workers.parked(poll())
    workers.left(poll())
    clock.now_ms += KEPT_MS
    assert told(workers) == []
    assert len(workers) == 0


def test_a_heartbeat_is_a_sign_of_life() -> None:
    workers, clock = rig()
    workers.parked(poll())
    workers.left(poll())
    clock.now_ms += KEPT_MS - 1
    workers.beat("shop", "w1")  # somebody else
    workers.beat("default", "")
    workers.beat("default", "w1")
    clock.now_ms += 2
    (at_work,) = told(workers)
    assert (at_work.polls, at_work.seen_ms, at_work.since_ms) == (0, clock.now_ms - 2, 1_000)
    clock.now_ms += KEPT_MS
    assert told(workers) == []


def test_ids_without_end_do_not_fill_the_memory() -> None:
    workers, _ = rig()
    workers.parked(poll("stays"))
    for number in range(module.MOST + 10):
        workers.parked(poll(f"w{number}"))
        workers.left(poll(f"w{number}"))
        workers.beat("default", f"w{number}")
    assert len(workers) <= module.MOST + 1
    assert told(workers)[0].worker == "stays"
    assert len(workers._beats) <= module.MOST
