"""Frames on a peer connection: length, CRC32C, payload.

`u32 length | u32 crc32c(payload) | payload`, little-endian, like the records of a history file.
TCP's own checksum lets about one damaged segment in 65,536 through, and a flipped bit that still
parses would be replicated for ever. A frame of length zero is a keepalive.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from crc32c import crc32c

HEADER = struct.Struct("<II")
KEEPALIVE = HEADER.pack(0, 0)


class FrameError(Exception):
    """What arrived is not a frame that we accept; the connection is of no further use."""


def header(payload: bytes) -> bytes:
    return HEADER.pack(len(payload), crc32c(payload))


class FrameReader:
    """Cuts a stream into payloads; memory grows with what arrived, not with what was claimed.

    Until ``greeted`` a keepalive is refused like everything that is no hello: a stranger would keep
    the loop busy with millions of them."""

    __slots__ = ("_buffer", "greeted", "max_bytes")

    def __init__(self, *, max_bytes: int, greeted: bool = True) -> None:
        self.max_bytes = max_bytes
        self.greeted = greeted
        self._buffer = bytearray()

    @property
    def pending_bytes(self) -> int:
        return len(self._buffer)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take what arrived, yield the payloads now complete (keepalives left out). Each is judged
        when it is asked for: what a greeting changes holds for the frame right behind it."""
        buffer: bytes | bytearray = data
        if self._buffer:
            self._buffer += data
            buffer = self._buffer
        position, end = 0, len(buffer)
        while end - position >= HEADER.size:
            length, checksum = HEADER.unpack_from(buffer, position)
            if length > self.max_bytes:
                if buffer.startswith(b"HTTP/", position):
                    raise FrameError("an HTTP answer: that is not the Raft port of a node")
                raise FrameError(f"frame of {length} bytes, limit {self.max_bytes}")
            if length == 0 and not self.greeted:
                raise FrameError("a keepalive before the hello")
            stop = position + HEADER.size + length
            if stop > end:
                break
            payload = bytes(memoryview(buffer)[position + HEADER.size : stop])
            if crc32c(payload) != checksum:
                raise FrameError(f"checksum mismatch in a frame of {length} bytes")
            if payload:
                yield payload
            position = stop
        if buffer is self._buffer:
            del self._buffer[:position]
        elif position < end:
            self._buffer += memoryview(data)[position:]
