"""Damage is told from a crash: one is refused with file and offset, the other is healed."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable

import pytest
from corrupt import cuts, flip
from crash_disk import CrashDisk, PowerLoss

from raftflow.raftlog import segment
from raftflow.raftlog.errors import JournalDamaged
from raftflow.raftlog.journal import Journal, LogEntry
from raftflow.raftlog.segment import HEADER_BYTES, SegmentHeader

DIRECTORY = "/raft"
FIRST = segment.segment_path(DIRECTORY, 1)
SECOND = segment.segment_path(DIRECTORY, 2)
THIRD = segment.segment_path(DIRECTORY, 3)


def open_journal(disk: CrashDisk, segment_bytes: int = HEADER_BYTES + 160) -> Journal:
    return Journal.open(DIRECTORY, disk=disk, segment_bytes=segment_bytes)


def some(first: int, last: int, term: int = 1) -> list[LogEntry]:
    return [LogEntry(index, term, b"entry %d" % index) for index in range(first, last + 1)]


def found_in(files: dict[str, bytes]) -> list[LogEntry]:
    journal = open_journal(CrashDisk(files))
    if journal.last_index == journal.prev_index:
        return []
    return journal.entries(journal.first_index, journal.last_index + 1, 1 << 20)


def acknowledged() -> dict[str, bytes]:
    """Entries 1 to 4 in one segment, 5 and 6 in the next; all were flushed."""
    disk = CrashDisk()
    journal = open_journal(disk)
    journal.append(some(1, 4))
    journal.flush()
    journal.append(some(5, 5))
    journal.flush()
    journal.append(some(6, 6))
    journal.flush()
    assert sorted(disk.files()) == [FIRST, SECOND]
    return disk.files()


def half_acknowledged() -> tuple[dict[str, bytes], int]:
    """Entries 1 and 2 were flushed; 3 and 4 were written, the power went before the sync."""
    disk = CrashDisk()
    journal = open_journal(disk, 1 << 20)
    journal.append(some(1, 2))
    journal.flush()
    synced = len(disk.files()[FIRST])
    journal.append(some(3, 4))
    disk.stop_at(len(disk.operations) + 1)
    with pytest.raises(PowerLoss):
        journal.flush()
    assert len(disk.files()[FIRST]) > synced
    return disk.files(), synced


def interesting_bits(data: bytes) -> list[int]:
    """Every bit of the header, the marks and the frames; of the empty space only a few."""
    places = set(range(64)) | set(range(512, 544)) | set(range(1024, 1056))
    places |= set(range(HEADER_BYTES, len(data))) | set(range(0, HEADER_BYTES, 251))
    return [offset * 8 + bit for offset in sorted(places) for bit in range(8)]


def refused(files: dict[str, bytes], path: str) -> JournalDamaged:
    with pytest.raises(JournalDamaged) as damage:
        open_journal(CrashDisk(files))
    assert damage.value.path == path
    assert re.search(rf"{path}: offset \d+: .+ What to do: .+", str(damage.value))
    return damage.value


@pytest.mark.slow
@pytest.mark.parametrize("path", [FIRST, SECOND])
def test_no_flipped_bit_loses_an_acknowledged_entry(path: str) -> None:
    files = acknowledged()
    for bit in interesting_bits(files[path]):
        damaged = files | {path: flip(files[path], bit)}
        if bit // 8 >= HEADER_BYTES or bit // 8 < 44:
            damage = refused(damaged, path)
            assert damage.offset <= bit // 8
        else:
            assert found_in(damaged) == some(1, 6)


@pytest.mark.slow
@pytest.mark.parametrize("path", [FIRST, SECOND])
def test_no_cut_loses_an_acknowledged_entry(path: str) -> None:
    files = acknowledged()
    for size, data in cuts(files[path]):
        if HEADER_BYTES > size > 1100 and size % 97:
            continue
        assert refused(files | {path: data}, path).offset <= size


@pytest.mark.slow
def test_an_unacknowledged_tail_is_cut_where_it_is_torn() -> None:
    files, synced = half_acknowledged()
    data = files[FIRST]
    middle = synced + (len(data) - synced) // 2  # where entry 4 begins
    assert found_in(files) == some(1, 4)
    for size in range(synced, len(data)):
        assert found_in({FIRST: data[:size]}) == some(1, 3 if size >= middle else 2)
    for bit in range(synced * 8, len(data) * 8):
        expected = some(1, 3 if bit // 8 >= middle else 2)
        assert found_in({FIRST: flip(data, bit)}) == expected
    for bit in range(HEADER_BYTES * 8, synced * 8):
        refused({FIRST: flip(data, bit)}, FIRST)


def test_the_torn_tail_is_reported() -> None:
    files, synced = half_acknowledged()
    journal = open_journal(CrashDisk({FIRST: files[FIRST][:-1]}))
    assert journal.torn_tail is not None
    assert journal.torn_tail.path == FIRST
    assert journal.torn_tail.offset > synced
    assert "the file ends before" in journal.torn_tail.reason


def test_a_later_frame_proves_that_an_earlier_one_was_on_disk() -> None:
    """After a power loss the mark may be one flush old; the frames written since still tell."""
    disk = CrashDisk()
    journal = open_journal(disk, 1 << 20)
    journal.append(some(1, 1))
    journal.flush()
    marks = disk.files()[FIRST][:HEADER_BYTES]
    flushed = [len(disk.files()[FIRST])]
    for index in (2, 3):
        journal.append(some(index, index))
        journal.flush()
        flushed.append(len(disk.files()[FIRST]))
    data = marks + disk.files()[FIRST][HEADER_BYTES:]
    assert found_in({FIRST: data}) == some(1, 3)
    for bit in range(flushed[0] * 8, flushed[1] * 8):
        assert refused({FIRST: flip(data, bit)}, FIRST).offset == flushed[0]
    zeroed = data[: flushed[0]] + bytes(flushed[1] - flushed[0]) + data[flushed[1] :]
    refused({FIRST: zeroed}, FIRST)
    # Nothing says that the very last one was on disk.
    assert found_in({FIRST: flip(data, flushed[1] * 8)}) == some(1, 2)


def test_damage_before_the_last_segment_is_no_crash_whatever_the_marks_say() -> None:
    files = acknowledged()
    data = flip(flip(files[FIRST], 512 * 8), 1024 * 8)
    assert found_in(files | {FIRST: data}) == some(1, 6)
    damage = refused(files | {FIRST: data[:-1]}, FIRST)
    assert "complete on disk" in damage.message


def test_what_an_interrupted_reset_left_is_removed() -> None:
    disk = CrashDisk()
    journal = open_journal(disk)
    journal.append(some(1, 9))
    journal.flush()
    disk.stop_at(len(disk.operations) + 5)  # the new segment is named for good
    with pytest.raises(PowerLoss):
        journal.reset(20, 3)
    after = disk.bare()
    assert FIRST in after.files()
    journal = open_journal(after)
    assert (journal.prev_index, journal.last_index, journal.last_term) == (20, 20, 3)
    assert len(after.files()) == 1


@pytest.mark.parametrize(
    ("change", "path", "message"),
    [
        (lambda one, two: {SECOND: two, THIRD: one}, THIRD, "the file holds segment 1"),
        (lambda one, two: {FIRST: one}, FIRST, "a later segment was written"),
        (lambda one, two: {FIRST: one, THIRD: two}, THIRD, "the file holds segment 2"),
        (lambda one, two: {FIRST: one, THIRD: segment_three()}, SECOND, "is missing"),
        (lambda one, two: {FIRST: one, SECOND: beyond()}, SECOND, "entries 5 to 8 are missing"),
        (lambda one, two: {FIRST: one, SECOND: other_term()}, SECOND, "has term 1"),
    ],
)
def test_a_missing_or_misplaced_segment_is_refused(
    change: Callable[[bytes, bytes], dict[str, bytes]], path: str, message: str
) -> None:
    files = acknowledged()
    assert message in refused(change(files[FIRST], files[SECOND]), path).message


def written(header: SegmentHeader) -> bytes:
    disk = CrashDisk()
    part = segment.create(disk, DIRECTORY, header, b"", array("I", [HEADER_BYTES]))
    return disk.files()[part.path]


def segment_three() -> bytes:
    return written(SegmentHeader(3, 4, 1))


def beyond() -> bytes:
    return written(SegmentHeader(2, 8, 1))


def other_term() -> bytes:
    return written(SegmentHeader(2, 3, 2))
