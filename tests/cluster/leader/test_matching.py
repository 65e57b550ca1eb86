"""Tasks meet polls: in order, by name, within their queue, each at most once."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from raftflow.cluster.leader.matching import Match, Matching, QueuedTask
from raftflow.engine.ids import RunKey
from raftflow.proto.raftflow.internal.v1 import node_pb2


def run(number: int, namespace: str = "default") -> RunKey:
    return RunKey(namespace, f"w{number}", f"r{number}")


def activity(number: int, name: str = "charge", queue: str = "default") -> QueuedTask:
    return QueuedTask(run(number), 1, 1, name, queue)


def decision(number: int, name: str = "Order", queue: str = "default") -> QueuedTask:
    return QueuedTask(run(number), 0, 0, name, queue)


def poll(
    poll_id: str,
    *names: str,
    kind: node_pb2.Poll.Kind = node_pb2.Poll.KIND_ACTIVITY,
    queue: str = "default",
    namespace: str = "default",
) -> node_pb2.Poll:
    return node_pb2.Poll(
        poll_id=poll_id, kind=kind, namespace=namespace, task_queue=queue, names=names
    )


def pair(match: Match | None) -> tuple[str, str] | None:
    return match and (match.task.run.workflow_id, match.poll.poll_id)


def test_a_task_goes_to_the_oldest_poll_that_takes_it() -> None:
    matching = Matching()
    assert matching.park("n1", poll("p1", "ship")) is None
    assert matching.park("n2", poll("p2", "charge", "ship")) is None
    assert matching.park("n3", poll("p3", "charge")) is None
    match = matching.offer(activity(1))
    assert match is not None
    assert (match.node, match.poll.poll_id) == ("n2", "p2")
    assert pair(matching.offer(activity(2))) == ("w2", "p3")
    assert matching.offer(activity(3)) is None
    assert matching.polls_waiting == 1


def test_a_poll_gets_the_oldest_task_among_its_names() -> None:
    matching = Matching()
    for number, name in enumerate(["ship", "charge", "ship"], start=1):
        matching.offer(activity(number, name))
    assert pair(matching.park("n1", poll("p1", "ship", "charge"))) == ("w1", "p1")
    assert pair(matching.park("n1", poll("p2", "ship", "charge"))) == ("w2", "p2")
    assert pair(matching.park("n1", poll("p3"))) == ("w3", "p3")


def test_a_poll_without_names_takes_any_task_of_its_queue_only() -> None:
    matching = Matching()
    matching.park("n1", poll("p1"))
    assert matching.offer(activity(1, queue="other")) is None
    assert matching.offer(decision(2)) is None
    assert pair(matching.offer(activity(3))) == ("w3", "p1")


def test_namespaces_do_not_meet() -> None:
    matching = Matching()
    matching.park("n1", poll("p1", namespace="acme"))
    assert matching.offer(activity(1)) is None


def test_a_poll_that_names_the_task_comes_before_one_that_takes_any() -> None:
    matching = Matching()
    matching.park("n1", poll("any"))
    matching.park("n1", poll("named", "charge"))
    assert pair(matching.offer(activity(1))) == ("w1", "named")


def test_withdrawn_tasks_and_polls_are_not_matched() -> None:
    matching = Matching()
    matching.offer(activity(1))
    matching.withdraw((run(1), 1))
    assert matching.park("n1", poll("p1", "charge")) is None
    matching.unpark("p1")
    assert matching.offer(activity(2)) is None
    assert matching.depth(activities=True) == 1


def test_a_task_withdrawn_and_offered_again_is_matched_once() -> None:
    matching = Matching()
    matching.offer(activity(1))
    matching.withdraw((run(1), 1))
    matching.offer(activity(1))
    assert pair(matching.park("n1", poll("p1", "charge"))) == ("w1", "p1")
    assert matching.park("n1", poll("p2", "charge")) is None


def test_the_polls_of_a_lost_node_are_forgotten() -> None:
    matching = Matching()
    matching.park("n1", poll("p1", "charge"))
    matching.park("n2", poll("p2", "charge"))
    matching.forget_node("n1")
    assert pair(matching.offer(activity(1))) == ("w1", "p2")


def test_decisions_match_by_workflow_type() -> None:
    matching = Matching()
    matching.park("n1", poll("p1", "Order", kind=node_pb2.Poll.KIND_DECISION))
    assert matching.offer(decision(1, "Invoice")) is None
    assert pair(matching.offer(decision(2))) == ("w2", "p1")


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("offer"), st.integers(0, 9), st.sampled_from("abc")),
            st.tuples(st.just("withdraw"), st.integers(0, 9), st.just("")),
            st.tuples(st.just("park"), st.integers(0, 9), st.sampled_from(["", "a", "ab", "c"])),
            st.tuples(st.just("unpark"), st.integers(0, 9), st.just("")),
        ),
        max_size=80,
    )
)
def test_no_task_or_poll_waits_while_a_partner_waits(steps: list[tuple[str, int, str]]) -> None:
    """Against a naive model: whatever waits has no partner, whatever matched was waiting."""
    matching = Matching()
    tasks: dict[int, str] = {}
    polls: dict[int, str] = {}

    def accepts(names: str, name: str) -> bool:
        return not names or name in names

    for step, number, names in steps:
        match = None
        if step == "offer" and number not in tasks:
            tasks[number] = names
            match = matching.offer(activity(number, names))
        elif step == "withdraw":
            tasks.pop(number, None)
            matching.withdraw((run(number), 1))
        elif step == "park" and number not in polls:
            polls[number] = names
            match = matching.park("n1", poll(str(number), *names))
        elif step == "unpark":
            polls.pop(number, None)
            matching.unpark(str(number))
        if match is not None:
            task = int(match.task.run.workflow_id[1:])
            assert accepts(polls.pop(int(match.poll.poll_id)), tasks.pop(task))
        assert matching.polls_waiting == len(polls)
        assert matching.depth(activities=True) == len(tasks)
        assert not any(accepts(p, t) for p in polls.values() for t in tasks.values())


def test_a_later_attempt_takes_the_place_of_one_that_is_over() -> None:
    """A list of queued tasks may be read a moment before one of them is leased."""
    matching = Matching()
    stale = activity(1)
    assert matching.offer(stale) is None
    assert matching.offer(replace(stale, attempt=2)) is None
    assert matching.offer(stale) is None
    match = matching.park("n1", poll("p"))
    assert match is not None
    assert match.task.attempt == 2
    assert matching.park("n1", poll("q")) is None


def test_a_claim_takes_a_poll_and_leaves_no_task_behind() -> None:
    matching = Matching()
    assert matching.claim(activity(1)) is None
    matching.park("n1", poll("p1", "charge"))
    assert pair(matching.claim(activity(1))) == ("w1", "p1")
    assert matching.claim(activity(2)) is None
    matching.park("n1", poll("p2", "charge"))
    assert matching.depth(activities=True) == 0
    assert matching.polls_waiting == 1
