"""A poll with several grants under way waits on only when all of them were dropped."""

from raftflow.cluster.leader.grants import DutyTimes, Grants, grant_of
from raftflow.cluster.leader.matching import Match, QueuedTask
from raftflow.engine.commands import GrantActivity, GrantDecision
from raftflow.engine.ids import RunKey
from raftflow.engine.rejections import Granted, Reason, Rejection
from raftflow.proto.raftflow.internal.v1 import node_pb2

DROPPED = Rejection(reason=Reason.GRANT_DROPPED, message="overtaken")
POLL = node_pb2.Poll(poll_id="p1", worker_id="w1", max=2)


def match(sequence: int) -> Match:
    return Match(QueuedTask(RunKey("default", "w", "r"), sequence, 2, "charge", "q"), "n2", POLL)


def test_all_dropped_and_the_poll_waits_on() -> None:
    grants = Grants()
    first, second = grants.begin(match(1)), grants.begin(match(2))
    assert not grants.end(first, DROPPED)
    assert grants.end(second, DROPPED)


def test_one_that_was_granted_answers_the_poll() -> None:
    grants = Grants()
    first, second = grants.begin(match(1)), grants.begin(match(2))
    assert not grants.end(first, Granted("t"))
    assert not grants.end(second, DROPPED)
    assert grants.end(grants.begin(match(3)), DROPPED)  # a new round


def test_a_poll_that_was_withdrawn_does_not_wait_on() -> None:
    grants = Grants()
    withdrawn = grants.begin(match(1))
    grants.withdraw("p1")
    grants.withdraw("unknown")
    assert not grants.end(withdrawn, DROPPED)
    lost = grants.begin(match(1))
    grants.forget_node("n1")
    grants.forget_node("n2")
    assert not grants.end(lost, DROPPED)


def test_without_an_answer_nobody_waits_here() -> None:
    grants = Grants()
    assert not grants.end(grants.begin(match(1)), None)


def test_a_grant_carries_what_the_poll_and_the_task_say() -> None:
    times = DutyTimes(lease_ms=30_000, decision_timeout_ms=10_000)
    activity, decision = grant_of(match(1), times), grant_of(match(0), times)
    assert isinstance(activity, GrantActivity)
    assert (activity.sequence, activity.attempt, activity.duration_ms) == (1, 2, 30_000)
    assert isinstance(decision, GrantDecision)
    assert (decision.node, decision.poll_id, decision.timeout_ms) == ("n2", "p1", 10_000)
