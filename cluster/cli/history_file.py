"""Reads the `.history` file: records of `length | CRC32C | protobuf HistoryEvent`.

Length and checksum are 4 bytes each, little-endian; the checksum is of the payload alone.
"""

import struct

import crc32c
from google.protobuf.message import DecodeError

from raftflow.cluster.cli.errors import CommandError
from raftflow.proto.workflow.v1.history_pb2 import HistoryEvent

HEADER = struct.Struct("<II")


class Damage(CommandError):
    """The file is not whole; `intact` events come before the damage."""

    def __init__(self, file: str, offset: int, problem: str, intact: int) -> None:
        self.problem = f"offset {offset}: {problem} (event {intact + 1}; {intact} before it intact)"
        self.intact = intact
        super().__init__(f"{file}: {self.problem}")


def read_events(content: bytes, file: str) -> list[HistoryEvent]:
    """All events of a file; raises Damage at the first byte that is not as it was written."""
    events: list[HistoryEvent] = []
    offset = 0
    while offset < len(content):
        start = offset + HEADER.size
        if start > len(content):
            raise Damage(file, offset, "the last record is cut short", len(events))
        length, checksum = HEADER.unpack_from(content, offset)
        payload = content[start : start + length]
        if len(payload) < length:
            raise Damage(file, offset, "the last record is cut short", len(events))
        if crc32c.crc32c(payload) != checksum:
            raise Damage(file, offset, "the checksum does not match", len(events))
        events.append(_decoded(payload, file, offset, len(events)))
        offset = start + length
    return events


def _decoded(payload: bytes, file: str, offset: int, intact: int) -> HistoryEvent:
    try:
        event = HistoryEvent.FromString(payload)
    except DecodeError:
        raise Damage(file, offset, "the record is no HistoryEvent", intact) from None
    if event.event_id != intact + 1:
        raise Damage(file, offset, f"has event id {event.event_id}, not {intact + 1}", intact)
    return event
