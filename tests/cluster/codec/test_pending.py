"""Rows of arrivals and messages there and back."""

from __future__ import annotations

import pytest
from any_value import any_of
from hypothesis import given
from hypothesis import strategies as st

from raftflow.cluster.codec import pending
from raftflow.cluster.codec.shapes import UnknownValue
from raftflow.engine.events import Event
from raftflow.engine.state import EndChild, Message, ReportChild, StartChild
from raftflow.proto.raftflow.internal.v1 import state_pb2

NUMBERS = st.integers(1, 2**38)
MESSAGES = st.one_of(any_of(StartChild), any_of(ReportChild), any_of(EndChild))


@given(any_of(Event), NUMBERS)
def test_every_arrival_comes_back(arrival: Event, run_no: int) -> None:
    encoded = pending.encode_arrival(arrival, run_no, arrival.event_id)
    assert pending.decode_arrival(encoded) == arrival


@given(MESSAGES, NUMBERS)
def test_every_message_comes_back(message: Message, number: int) -> None:
    assert pending.decode_message(pending.encode_message(message, 7, number)) == (number, message)


def test_what_goes_is_told_from_what_comes() -> None:
    assert state_pb2.ArrivalRow.FromString(pending.encode_arrival(None, 7, 1)).joined
    delivered = state_pb2.OutboxRow.FromString(pending.encode_message(None, 7, 1))
    assert delivered.WhichOneof("message") is None
    assert state_pb2.DeletedRow.FromString(pending.encode_deleted(7)).run_no == 7


def test_a_message_of_a_later_version_is_named() -> None:
    with pytest.raises(UnknownValue, match="OutboxRow has no message"):
        pending.decode_message(pending.encode_message(None, 7, 1))
