"""The `.history` file: the events of one run as records, one after another.

A file that ends inside a record has a torn tail, which can be cut off; a record whose checksum does
not match anywhere else is a hard error that names file and offset. A damaged length would look like
a torn tail: the whole record that follows tells it from one. `verify` also asks that the event ids
be dense from 1.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from google.protobuf.message import DecodeError

from raftflow.cluster.codec.events import decode_event
from raftflow.cluster.codec.shapes import UnknownValue
from raftflow.cluster.durable import sync_directory
from raftflow.cluster.store.records import HEADER, HEADER_BYTES, BadRecord, unframe
from raftflow.engine.events import Event
from raftflow.proto.workflow.v1.history_pb2 import HistoryEvent

# No event is larger than a payload and its ids; a length beyond this is damage, not a size.
MAX_RECORD_BYTES = 64 << 20


class HistoryFileDamaged(Exception):
    """A record that is not what was written, with what comes after it out of reach."""

    def __init__(self, path: str, offset: int, problem: str) -> None:
        super().__init__(f"{path}: offset {offset}: {problem}")
        self.path = path
        self.offset = offset
        self.problem = problem


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A whole record: where it begins, its bytes as they stand in the file, and the event."""

    offset: int
    record: bytes
    event: Event


@dataclass(frozen=True, slots=True)
class Verdict:
    """A file that verified. ``torn_bytes`` > 0: a partial record follows ``whole_bytes``."""

    events: int
    whole_bytes: int
    torn_bytes: int


def iterate(path: str) -> Iterator[FileRecord]:
    """Yield the whole records in order, and stop at a torn tail. Raises HistoryFileDamaged."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        offset = last_id = 0
        while True:
            record = _next(file, path, offset, size)
            if record is None:
                file.seek(offset)
                _refuse_hidden(path, offset, file.read(), last_id)
                return
            event = _event(path, offset, record)
            yield FileRecord(offset, record, event)
            last_id = event.event_id
            offset += len(record)


def verify(path: str) -> Verdict:
    """Check every record and that event ids are dense from 1. Raises HistoryFileDamaged."""
    events = whole = 0
    for found in iterate(path):
        if found.event.event_id != events + 1:
            raise HistoryFileDamaged(
                path, found.offset, f"event {found.event.event_id} follows event {events}"
            )
        events += 1
        whole = found.offset + len(found.record)
    return Verdict(events, whole, os.path.getsize(path) - whole)


def export(path: str, records: Iterable[bytes]) -> int:
    """Write a file of records that the store has verified; durable when it returns."""
    written = 0
    partial = path + ".partial"
    with open(partial, "wb") as file:
        for record in records:
            written += file.write(record)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)
    sync_directory(os.path.dirname(path))
    return written


def _next(file: BinaryIO, path: str, offset: int, size: int) -> bytes | None:
    """The bytes of the record at ``offset``; None at the end or at a torn tail."""
    header = file.read(HEADER_BYTES)
    if len(header) < HEADER_BYTES:
        return None
    length = HEADER.unpack(header)[0]
    rest = size - offset - HEADER_BYTES
    if length > rest:
        return None
    if length > MAX_RECORD_BYTES:
        raise HistoryFileDamaged(path, offset, f"a record of {length} bytes is damage")
    return header + file.read(length)


def _refuse_hidden(path: str, offset: int, tail: bytes, last_id: int) -> None:
    """A torn tail is the last of its file: no whole record may follow in it."""
    # A payload begins with its event id. The tail itself is (a part of) the one after last_id.
    begins = HistoryEvent(event_id=last_id + 2).SerializeToString()
    at = tail.find(begins, HEADER_BYTES)
    while at >= 0:
        start = at - HEADER_BYTES
        length = HEADER.unpack_from(tail, start)[0]
        try:
            unframe(tail[start : at + length])
        except BadRecord:
            at = tail.find(begins, at + 1)
            continue
        raise HistoryFileDamaged(
            path, offset, f"its length is damaged: a whole record follows at {offset + start}"
        )


def _event(path: str, offset: int, record: bytes) -> Event:
    try:
        return decode_event(unframe(record))
    except (BadRecord, DecodeError, UnknownValue) as error:
        raise HistoryFileDamaged(path, offset, str(error)) from error
