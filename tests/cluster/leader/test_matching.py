"""Tasks meet polls: in order, by name, within their queue, each at most once."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from raftflow.cluster.leader.matching import Match, Matching, QueuedTask
from raftflow.engine.ids import RunKey
from raftflow.proto.raftflow.internal.v1 import node_pb2


def run(number: int, namespace: str = "default") -> RunKey:
    return RunKey(namespace, f"w{number}", f"r{number}")


def activity(
    number: int, name: str = "charge", queue: str = "default", priority: int = 3
) -> QueuedTask:
    return QueuedTask(run(number), 1, 1, name, queue, priority)


def decision(number: int, name: str = "Order", queue: str = "default") -> QueuedTask:
    return QueuedTask(run(number), 0, 0, name, queue)


def poll(
    poll_id: str,
    *names: str,
    kind: node_pb2.Poll.Kind = node_pb2.Poll.KIND_ACTIVITY,
    queue: str = "default",
    namespace: str = "default",
    most: int = 0,
) -> node_pb2.Poll:
    return node_pb2.Poll(
        poll_id=poll_id, kind=kind, namespace=namespace, task_queue=queue, names=names, max=most
    )


def pairs(matches: list[Match]) -> list[tuple[str, str]]:
    return [(match.task.run.workflow_id, match.poll.poll_id) for match in matches]


def test_a_task_goes_to_the_oldest_poll_that_takes_it() -> None:
    matching = Matching()
    assert matching.park("n1", poll("p1", "ship")) == []
    assert matching.park("n2", poll("p2", "charge", "ship")) == []
    assert matching.park("n3", poll("p3", "charge")) == []
    (match,) = matching.offer([activity(1)])
    assert (match.node, match.poll.poll_id) == ("n2", "p2")
    assert pairs(matching.offer([activity(2)])) == [("w2", "p3")]
    assert matching.offer([activity(3)]) == []
    assert matching.polls_waiting == 1


def test_the_longest_wait_is_that_of_the_first_of_its_kind() -> None:
    matching = Matching()
    assert matching.oldest_ms(activities=True) is None
    matching.offer([replace(activity(1), since_ms=10), replace(decision(1), since_ms=20)])
    matching.offer([replace(activity(2), since_ms=30)])
    assert matching.oldest_ms(activities=True) == 10
    assert matching.oldest_ms(activities=False) == 20
    matching.withdraw(activity(1).key)
    assert matching.oldest_ms(activities=True) == 30
    matching.park("n1", poll("p1"))
    assert matching.oldest_ms(activities=True) is None
    matching.clear()
    assert matching.oldest_ms(activities=False) is None


def test_a_poll_gets_the_oldest_task_among_its_names() -> None:
    matching = Matching()
    for number, name in enumerate(["ship", "charge", "ship"], start=1):
        matching.offer([activity(number, name)])
    assert pairs(matching.park("n1", poll("p1", "ship", "charge"))) == [("w1", "p1")]
    assert pairs(matching.park("n1", poll("p2", "ship", "charge"))) == [("w2", "p2")]
    assert pairs(matching.park("n1", poll("p3"))) == [("w3", "p3")]


def test_a_poll_without_names_takes_any_task_of_its_queue_only() -> None:
    matching = Matching()
    matching.park("n1", poll("p1"))
    assert matching.offer([activity(1, queue="other")]) == []
    assert matching.offer([decision(2)]) == []
    assert pairs(matching.offer([activity(3)])) == [("w3", "p1")]


def test_namespaces_do_not_meet() -> None:
    matching = Matching()
    matching.park("n1", poll("p1", namespace="acme"))
    assert matching.offer([activity(1)]) == []


def test_a_poll_that_names_the_task_comes_before_one_that_takes_any() -> None:
    matching = Matching()
    matching.park("n1", poll("any"))
    matching.park("n1", poll("named", "charge"))
    assert pairs(matching.offer([activity(1)])) == [("w1", "named")]


def test_withdrawn_tasks_and_polls_are_not_matched() -> None:
    matching = Matching()
    matching.offer([activity(1)])
    matching.withdraw((run(1), 1))
    assert matching.park("n1", poll("p1", "charge")) == []
    matching.unpark("p1")
    assert matching.offer([activity(2)]) == []
    assert matching.depth(activities=True) == 1


def test_a_task_withdrawn_and_offered_again_is_matched_once() -> None:
    matching = Matching()
    matching.offer([activity(1)])
    matching.withdraw((run(1), 1))
    matching.offer([activity(1)])
    assert pairs(matching.park("n1", poll("p1", "charge"))) == [("w1", "p1")]
    assert matching.park("n1", poll("p2", "charge")) == []


def test_the_polls_of_a_lost_node_are_forgotten() -> None:
    matching = Matching()
    matching.park("n1", poll("p1", "charge"))
    matching.park("n2", poll("p2", "charge"))
    matching.forget_node("n1")
    assert pairs(matching.offer([activity(1)])) == [("w1", "p2")]


def test_decisions_match_by_workflow_type() -> None:
    matching = Matching()
    matching.park("n1", poll("p1", "Order", kind=node_pb2.Poll.KIND_DECISION))
    assert matching.offer([decision(1, "Invoice")]) == []
    assert pairs(matching.offer([decision(2)])) == [("w2", "p1")]


@given(
    st.lists(
        st.one_of(
            st.tuples(
                st.just("offer"),
                st.lists(st.tuples(st.integers(0, 9), st.sampled_from("abc")), max_size=4),
                st.integers(1, 5),
            ),
            st.tuples(st.just("withdraw"), st.integers(0, 9), st.just(0)),
            st.tuples(
                st.just("park"),
                st.tuples(st.integers(0, 9), st.sampled_from(["", "a", "ab", "c"])),
                st.integers(0, 3),
            ),
            st.tuples(st.just("unpark"), st.integers(0, 9), st.just(0)),
            st.tuples(st.just("seal"), st.just(0), st.just(0)),
        ),
        max_size=80,
    )
)
def test_no_task_or_poll_waits_while_a_partner_waits(steps: list[tuple[str, Any, int]]) -> None:
    """Against a naive model: whatever waits has no partner, whatever matched was waiting, and a
    parked poll takes the first of what waits for it."""
    matching = Matching()
    tasks: dict[int, tuple[int, int, str]] = {}  # number -> (priority, arrival, name)
    polls: dict[int, str] = {}
    room: dict[int, int] = {}
    served: set[int] = set()

    def accepts(names: str, name: str) -> bool:
        return not names or name in names

    def unpark(number: int) -> None:
        polls.pop(number, None)
        room.pop(number, None)
        served.discard(number)

    for arrival, (step, what, number) in enumerate(steps):
        matches: list[Match] = []
        if step == "offer":
            fresh = {n: name for n, name in what if n not in tasks}
            tasks |= {n: (number, arrival * 10 + i, fresh[n]) for i, n in enumerate(fresh)}
            matches = matching.offer(
                [activity(n, name, priority=number) for n, name in fresh.items()]
            )
        elif step == "withdraw":
            tasks.pop(what, None)
            matching.withdraw((run(what), 1))
        elif step == "park" and what[0] not in polls:
            polls[what[0]], room[what[0]] = what[1], max(1, number)
            matches = matching.park("n1", poll(str(what[0]), *what[1], most=number))
            firsts = sorted(task for task in tasks.values() if accepts(what[1], task[2]))
            got = [tasks[int(match.task.run.workflow_id[1:])] for match in matches]
            assert got == firsts[: room[what[0]]]
        elif step == "unpark":
            unpark(what)
            matching.unpark(str(what))
        elif step == "seal":
            for each in list(served):
                unpark(each)
            matching.seal()
        for match in matches:
            taker = int(match.poll.poll_id)
            assert accepts(polls[taker], tasks.pop(int(match.task.run.workflow_id[1:]))[2])
            room[taker] -= 1
            served.add(taker)
            if room[taker] == 0:
                unpark(taker)
        assert matching.polls_waiting == len(polls)
        assert matching.depth(activities=True) == len(tasks)
        assert not any(accepts(p, t[2]) for p in polls.values() for t in tasks.values())


def test_a_poll_for_several_takes_the_first_of_what_waits() -> None:
    matching = Matching()
    matching.offer([activity(1, priority=5), activity(2), activity(3, priority=1), activity(4)])
    assert [w for w, _ in pairs(matching.park("n1", poll("p1", most=3)))] == ["w3", "w2", "w4"]
    assert matching.polls_waiting == 0
    assert pairs(matching.park("n1", poll("p2", most=3))) == [("w1", "p2")]


def test_priority_counts_within_a_queue_only() -> None:
    matching = Matching()
    matching.offer([activity(1, priority=1, queue="other"), activity(2, priority=5)])
    assert pairs(matching.park("n1", poll("p1"))) == [("w2", "p1")]


def test_a_fan_out_goes_round_among_the_polls_that_wait() -> None:
    matching = Matching()
    matching.park("n1", poll("p1", most=10))
    matching.park("n2", poll("p2", "charge", most=2))
    matching.park("n3", poll("p3", "charge"))
    matches = matching.offer([activity(n) for n in range(6)])
    given = [poll_id for _, poll_id in pairs(matches)]
    assert sorted(given[:3]) == ["p1", "p2", "p3"]
    assert sorted(given[3:]) == ["p1", "p1", "p2"]


def test_a_poll_takes_more_until_its_grants_have_left() -> None:
    matching = Matching()
    matching.park("n1", poll("p1", most=10))
    assert pairs(matching.claim([activity(1)])) == [("w1", "p1")]
    assert pairs(matching.claim([activity(2)])) == [("w2", "p1")]
    matching.seal()
    assert matching.offer([activity(3)]) == []
    assert matching.polls_waiting == 0


def test_a_later_attempt_takes_the_place_of_one_that_is_over() -> None:
    """A list of queued tasks may be read a moment before one of them is leased."""
    matching = Matching()
    stale = activity(1)
    assert matching.offer([stale]) == []
    assert matching.offer([replace(stale, attempt=2)]) == []
    assert matching.offer([stale]) == []
    (match,) = matching.park("n1", poll("p"))
    assert match.task.attempt == 2
    assert matching.park("n1", poll("q")) == []


def test_a_claim_takes_a_poll_and_leaves_no_task_behind() -> None:
    matching = Matching()
    assert matching.claim([activity(1)]) == []
    matching.park("n1", poll("p1", "charge"))
    assert pairs(matching.claim([activity(1)])) == [("w1", "p1")]
    assert matching.claim([activity(2)]) == []
    matching.park("n1", poll("p2", "charge"))
    assert matching.depth(activities=True) == 0
    assert matching.polls_waiting == 1


def test_what_is_over_leaves_nothing_behind_where_nobody_polls() -> None:
    matching = Matching()
    for number in range(1_000):
        matching.offer([activity(number)])
        if number >= 10:
            matching.withdraw(activity(number).key)
    (queue,) = matching._queues.values()
    assert matching.depth(activities=True) == 10
    assert len(queue.tasks["charge"].heap) < 100
    assert pairs(matching.park("n1", poll("p", most=20))) == [(f"w{n}", "p") for n in range(10)]
    matching.unpark("p")
    assert (matching._queues, matching.depth(activities=True)) == ({}, 0)


def test_a_queue_that_nobody_uses_any_more_is_forgotten() -> None:
    matching = Matching()
    for number in range(3):
        matching.park("n1", poll(f"p{number}", queue=f"of-worker-{number}"))
        matching.unpark(f"p{number}")
        matching.offer([activity(number, queue=f"of-worker-{number}")])
        matching.withdraw(activity(number).key)
    assert matching._queues == {}
