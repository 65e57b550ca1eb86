"""Rows of what is still to happen to a run, or through it: held arrivals, and its outbox."""

from __future__ import annotations

from raftflow.cluster.codec.events import decode_event, encode_event
from raftflow.cluster.codec.shapes import OneOf, enum, member
from raftflow.engine.commands import ParentClosePolicy
from raftflow.engine.events import Event
from raftflow.engine.state import EndChild, Message, ReportChild, StartChild
from raftflow.proto.raftflow.internal.v1 import state_pb2 as pb


def encode_arrival(arrival: Event | None, run_no: int, number: int) -> bytes:
    """None = it has joined the history."""
    row = pb.ArrivalRow()
    row.run_no = run_no
    row.number = number
    if arrival is None:
        row.joined = True
    else:
        row.event = encode_event(arrival)
    return row.SerializeToString()


def decode_arrival(data: bytes) -> Event:
    return decode_event(pb.ArrivalRow.FromString(data).event)


_MESSAGES: OneOf[Message] = OneOf(
    "message",
    {
        "start_child": member(
            StartChild,
            pb.StartChild,
            parent_close_policy=enum("parent_close_policy", ParentClosePolicy),
        ),
        "report_child": member(ReportChild, pb.ReportChild),
        "end_child": member(EndChild, pb.EndChild),
    },
)


def encode_message(message: Message | None, run_no: int, number: int) -> bytes:
    """None = delivered, or not wanted any more."""
    row = pb.OutboxRow()
    row.run_no = run_no
    row.number = number
    if message is not None:
        _MESSAGES.put(row, message)
    return row.SerializeToString()


def decode_message(data: bytes) -> tuple[int, Message]:
    """The number within the run's outbox, and the message."""
    row = pb.OutboxRow.FromString(data)
    return row.number, _MESSAGES.take(row)


def encode_deleted(run_no: int) -> bytes:
    row = pb.DeletedRow()
    row.run_no = run_no
    return row.SerializeToString()
