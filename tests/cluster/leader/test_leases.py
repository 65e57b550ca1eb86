"""Leases: a deadline is missed once, and a heartbeat moves it."""

import pytest

from raftflow.cluster.leader.leases import Leases
from raftflow.cluster.nonces import nonce_for
from raftflow.engine.ids import RunKey, TokenParts, WorkflowKey, format_token
from raftflow.proto.raftflow.internal.v1 import node_pb2

RUN = RunKey("default", "w", "r")
WORKFLOW = WorkflowKey("default", "w")


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
    assert leases.beat(WORKFLOW, "t", 5_900)
    assert leases.missed(6_899) == []
    assert [lease.token for lease in leases.missed(6_900)] == ["t"]


def test_a_dropped_lease_has_no_heartbeat_and_no_expiry() -> None:
    leases = held()
    leases.drop("t")
    assert not leases.beat(WORKFLOW, "t", 5_500)
    assert leases.missed(9_000) == []


def test_holding_again_does_not_shorten_or_extend() -> None:
    leases = held()
    leases.hold(RUN, 1, "t", 1_000, 5_800)
    assert [lease.token for lease in leases.missed(6_000)] == ["t"]


@pytest.mark.parametrize("other", [WorkflowKey("default", "v"), WorkflowKey("elsewhere", "w")])
def test_a_token_is_worth_nothing_to_another_workflow(other: WorkflowKey) -> None:
    leases = held()
    assert not leases.beat(other, "t", 5_900)
    assert [lease.token for lease in leases.missed(6_000)] == ["t"]


def polled(request_id: str, poll_id: str, namespace: str = "default") -> node_pb2.Poll:
    return node_pb2.Poll(poll_id=poll_id, request_id=request_id, namespace=namespace)


def token_for(poll: node_pb2.Poll) -> str:
    return format_token(TokenParts("default", "r", 1, nonce_for(poll)))


def test_what_an_earlier_poll_of_the_same_request_was_granted_never_arrived() -> None:
    leases = Leases()
    first, again = polled("q", "aaaa.1"), polled("q", "bbbb.1")
    token = token_for(first)
    leases.hold(RUN, 1, token, 1_000, 5_000)
    # The same poll, announced again: its task is on its way.
    assert leases.never_received(first) == []
    assert [lease.token for lease in leases.never_received(again)] == [token]
    assert leases.never_received(polled("other", "bbbb.2")) == []
    assert leases.never_received(polled("q", "bbbb.3", "elsewhere")) == []
    leases.drop(token)
    assert leases.never_received(again) == []


def test_a_heartbeat_cannot_hold_back_an_expiry_that_is_under_way() -> None:
    leases = held()
    assert not leases.is_missed(WORKFLOW, "t")
    leases.missed(6_000)
    assert not leases.beat(WORKFLOW, "t", 6_001)
    assert leases.is_missed(WORKFLOW, "t")
    assert not leases.is_missed(WorkflowKey("default", "other"), "t")
