"""Ways to damage a journal, for tests and for fault injection on a node that is down."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from raftflow.raftlog import frame, segment
from raftflow.raftlog.disk import OsDisk


def flip(data: bytes, bit: int) -> bytes:
    damaged = bytearray(data)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def flips(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Every (offset, data with one bit of that byte flipped)."""
    return ((bit // 8, flip(data, bit)) for bit in range(len(data) * 8))


def cuts(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Every (size, data cut to that size)."""
    return ((size, data[:size]) for size in range(len(data)))


@dataclass(frozen=True, slots=True)
class Record:
    """Where an entry lies on disk."""

    path: Path
    offset: int
    size: int
    index: int


def records(directory: Path) -> list[Record]:
    """Every entry in the segments of this directory, superseded ones too, in order of writing."""
    found = []
    for segment_id in segment.segment_ids([path.name for path in directory.iterdir()]):
        scan, _ = segment.scan(OsDisk(), str(directory), segment_id)
        for position, offset in enumerate(scan.ends[:-1]):
            size = scan.ends[position + 1] - offset
            index = scan.header.prev_index + 1 + position
            found.append(Record(Path(scan.path), offset, size, index))
    return found


def damage_entry(directory: Path, index: int) -> Record:
    """Flip a bit in the payload of the newest record of this entry."""
    record = [record for record in records(directory) if record.index == index][-1]
    data = record.path.read_bytes()
    record.path.write_bytes(flip(data, (record.offset + frame.FRAME_BYTES) * 8))
    return record


def cut_tail(directory: Path, size: int) -> Path:
    """Take `size` bytes off the end of the newest segment."""
    path = records(directory)[-1].path
    path.write_bytes(path.read_bytes()[:-size])
    return path
