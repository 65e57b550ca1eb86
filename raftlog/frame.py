"""One entry as bytes, and back.

    0        4        8                16               24               32
    +--------+--------+----------------+----------------+----------------+---------- ... --+
    | length | crc32c | index          | term           | synced         | entry bytes     |
    +--------+--------+----------------+----------------+----------------+---------- ... --+

All little-endian. `length` counts what follows the CRC. The CRC covers what follows it and starts
from the segment's seed and the length, so a frame in a wrong file or of a wrong length is no frame.
`synced` says up to which offset this file was known to be on disk when the frame was written.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import TypeAlias

from crc32c import crc32c

_FRAME = Struct("<IIQQQ")
_PREFIX = Struct("<II")
_BODY = Struct("<QQQ")
_LENGTH = Struct("<I")

FRAME_BYTES = _FRAME.size  # what a frame adds to its entry
MAX_ENTRY_BYTES = 1 << 30

Buffer: TypeAlias = bytes | memoryview


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One Raft record. The payload is never empty."""

    index: int
    term: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame that was verified."""

    index: int
    term: int
    synced: int
    end: int


class FrameFault(Exception):
    """The bytes at this offset are not a frame of this segment."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset = offset


def encode(
    entries: Sequence[LogEntry], *, seed: int, synced: int, offset: int
) -> tuple[list[bytes], array[int]]:
    """The bytes of these entries for a file at `offset`, and the offset where each one ends."""
    parts: list[bytes] = []
    ends = array("I")
    for entry in entries:
        payload = entry.payload
        length = _BODY.size + len(payload)
        body = _BODY.pack(entry.index, entry.term, synced)
        crc = crc32c(payload, crc32c(body, crc32c(_LENGTH.pack(length), seed)))
        parts += (_PREFIX.pack(length, crc), body, payload)
        offset += FRAME_BYTES + len(payload)
        ends.append(offset)
    return parts, ends


def decode(data: Buffer, offset: int, seed: int) -> Frame:
    """Verify the frame at `offset`; raises FrameFault with the reason."""
    room = len(data) - offset
    if room < FRAME_BYTES:
        raise FrameFault(
            offset, f"only {room} bytes are left, a frame has at least {FRAME_BYTES + 1}"
        )
    length, crc, index, term, synced = _FRAME.unpack_from(data, offset)
    if not _BODY.size < length <= _BODY.size + MAX_ENTRY_BYTES:
        raise FrameFault(offset, f"impossible frame length {length}")
    end = offset + _PREFIX.size + length
    if end > len(data):
        raise FrameFault(offset, f"the frame says {length} bytes, the file ends before")
    if _checksum(data, offset, end, seed) != crc:
        raise FrameFault(offset, "the checksum does not match")
    return Frame(index, term, synced, end)


def decode_run(data: bytes, index: int, seed: int) -> list[LogEntry]:
    """The entries of these bytes, which must be whole frames from `index` on and nothing else.

    Catching up reads through here, on the thread that must not wait: one loop, no objects between.
    """
    entries = []
    offset = 0
    while offset < len(data):
        if offset + FRAME_BYTES >= len(data):
            decode(data, offset, seed)
        length, crc, found, term, _ = _FRAME.unpack_from(data, offset)
        end = offset + _PREFIX.size + length
        if found != index or _checksum(data, offset, end, seed) != crc:
            decode(data, offset, seed)
            raise FrameFault(offset, f"entry {found} where entry {index} was written")
        entries.append(LogEntry(index, term, data[offset + FRAME_BYTES : end]))
        index += 1
        offset = end
    return entries


def _checksum(data: Buffer, offset: int, end: int, seed: int) -> int:
    seed = crc32c(data[offset : offset + _LENGTH.size], seed)
    return crc32c(data[offset + _PREFIX.size : end], seed)


def payload_of(data: Buffer, offset: int, frame: Frame) -> bytes:
    return bytes(data[offset + FRAME_BYTES : frame.end])
