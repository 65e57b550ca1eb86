"""Records: `4-byte LE length | 4-byte LE CRC32C of the payload | payload`.

One framing for event rows (byte for byte those of a `.history` file) and for every other row.
"""

from __future__ import annotations

from struct import Struct
from typing import TypeVar

from crc32c import crc32c

from raftflow.cluster.codec.shapes import UnknownValue

T = TypeVar("T")

HEADER = Struct("<II")
HEADER_BYTES = HEADER.size
_pack = HEADER.pack


def frame(payload: bytes) -> bytes:
    return _pack(len(payload), crc32c(payload)) + payload


class BadRecord(ValueError):
    """The bytes are not those that were written."""


def unframe(record: bytes) -> bytes:
    """The payload of exactly one record. Raises BadRecord, also for what is not even bytes: a
    damaged row may have lost its type."""
    if not isinstance(record, bytes):
        raise BadRecord(f"a value of type {type(record).__name__} is no record")
    if len(record) < HEADER_BYTES:
        raise BadRecord(f"{len(record)} bytes are no record")
    length, checksum = HEADER.unpack_from(record)
    payload = record[HEADER_BYTES:]
    if len(payload) != length:
        raise BadRecord(f"it holds {len(payload)} bytes, its header says {length}")
    if crc32c(payload) != checksum:
        raise BadRecord("its checksum does not match")
    return payload


class Words(dict[int, T]):
    """Numbers in columns that no checksum covers, and what they stand for."""

    def __missing__(self, number: object) -> T:
        raise UnknownValue(f"{number!r:.40} stands for nothing")
