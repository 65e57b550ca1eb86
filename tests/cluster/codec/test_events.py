"""The public history format: every event there and back, and its bytes for ever."""

from __future__ import annotations

import typing

import pytest
from any_value import any_of, sample
from golden import RELEASES, check_golden, releases_of
from hypothesis import given
from hypothesis import strategies as st

from raftflow.cluster.codec.events import decode_event, encode_event
from raftflow.cluster.codec.shapes import UnknownValue
from raftflow.engine.events import Event, EventBody
from raftflow.proto.workflow.v1 import history_pb2

BODIES = typing.get_args(EventBody)


@given(st.one_of([any_of(kind) for kind in BODIES]), st.integers(1, 2**40), st.integers(0, 2**50))
def test_every_event_comes_back(body: EventBody, event_id: int, time_ms: int) -> None:
    event = Event(event_id, time_ms, body)
    assert decode_event(encode_event(event)) == event


@pytest.mark.parametrize(("release", "kind"), releases_of(BODIES))
def test_the_bytes_of_events_stay(release: str, kind: type[EventBody], rewrite: bool) -> None:
    event = Event(7, 1_000, sample(kind, RELEASES[release]))
    encoded = encode_event(event)
    check_golden("events", kind.__name__, encoded, rewrite=rewrite, release=release)
    assert decode_event(encoded) == event


def test_the_format_has_no_maps() -> None:
    pending = [history_pb2.HistoryEvent.DESCRIPTOR]
    while pending:
        message = pending.pop()
        for field in message.fields:
            if field.message_type is not None:
                assert not field.message_type.GetOptions().map_entry, field.full_name
                pending.append(field.message_type)


def test_an_event_of_a_later_version_is_named() -> None:
    with pytest.raises(UnknownValue, match="no body that this version knows"):
        decode_event(history_pb2.HistoryEvent(event_id=1).SerializeToString())
