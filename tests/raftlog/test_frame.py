"""A frame is read back as it was written, or not at all."""

from __future__ import annotations

import pytest
from corrupt import cuts, flips

from raftflow.raftlog import frame
from raftflow.raftlog.frame import FRAME_BYTES, FrameFault, LogEntry

ENTRIES = [LogEntry(7, 3, b"one"), LogEntry(8, 3, b"\0" * 40), LogEntry(1 << 60, 1 << 50, b"z")]


def test_round_trip() -> None:
    parts, ends = frame.encode(ENTRIES, seed=5, synced=77, offset=100)
    data = bytes(100) + b"".join(parts)
    offset = 100
    for entry, end in zip(ENTRIES, ends, strict=True):
        found = frame.decode(data, offset, 5)
        assert (found.index, found.term, found.synced) == (entry.index, entry.term, 77)
        assert frame.payload_of(data, offset, found) == entry.payload
        assert found.end == end == offset + FRAME_BYTES + len(entry.payload)
        offset = end


def test_a_run_is_read_whole_or_not_at_all() -> None:
    entries = [LogEntry(index, 4, b"x" * index) for index in range(1, 4)]
    parts, ends = frame.encode(entries, seed=5, synced=0, offset=0)
    data = b"".join(parts)
    assert frame.decode_run(data, 1, 5) == entries
    places = [0, *ends]
    for offset, damaged in flips(data):
        with pytest.raises(FrameFault) as fault:
            frame.decode_run(damaged, 1, 5)
        assert fault.value.offset == max(place for place in places if place <= offset)
    for size, damaged in cuts(data):
        if size not in places:
            with pytest.raises(FrameFault):
                frame.decode_run(damaged, 1, 5)


def test_a_frame_belongs_to_its_segment() -> None:
    parts, _ = frame.encode(ENTRIES, seed=5, synced=0, offset=0)
    with pytest.raises(FrameFault, match="checksum"):
        frame.decode(b"".join(parts), 0, 6)


def test_every_cut_and_flip_is_noticed() -> None:
    parts, ends = frame.encode(ENTRIES[:1], seed=5, synced=9, offset=0)
    data = b"".join(parts)
    for _, damaged in [*cuts(data), *flips(data)]:
        with pytest.raises(FrameFault):
            frame.decode(damaged, 0, 5)
    assert frame.decode(data, 0, 5).end == ends[0]


def test_zeros_are_no_frame() -> None:
    with pytest.raises(FrameFault, match="impossible frame length 0"):
        frame.decode(bytes(500), 0, 5)
