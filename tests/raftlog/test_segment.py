"""Headers, marks, and what a scan says of a file."""

from __future__ import annotations

from array import array
from struct import pack

import pytest
from corrupt import flip
from crash_disk import CrashDisk
from crc32c import crc32c

from raftflow.raftlog import frame, segment
from raftflow.raftlog.errors import JournalDamaged
from raftflow.raftlog.frame import LogEntry
from raftflow.raftlog.segment import HEADER_BYTES, Scan, Segment, SegmentHeader

DIRECTORY = "/raft"
HEADER = SegmentHeader(3, 10, 2)
PATH = segment.segment_path(DIRECTORY, 3)


def written(disk: CrashDisk, header: SegmentHeader = HEADER) -> Segment:
    entries = [LogEntry(11, 2, b"eleven"), LogEntry(12, 2, b"twelve"), LogEntry(13, 4, b"more")]
    parts, ends = frame.encode(entries, seed=header.seed, synced=HEADER_BYTES, offset=HEADER_BYTES)
    starts = array("I", [HEADER_BYTES]) + ends
    return segment.create(disk, DIRECTORY, header, b"".join(parts), starts)


def scan_of(data: bytes) -> Scan:
    return segment.scan(CrashDisk({PATH: data}), DIRECTORY, 3)[0]


def test_a_scan_finds_what_was_written() -> None:
    disk = CrashDisk()
    part = written(disk)
    scan = scan_of(disk.files()[PATH])
    assert scan.header == HEADER
    assert scan.ends == part.ends
    assert [scan.terms[index] for index in range(10, 14)] == [2, 2, 2, 4]
    assert (scan.terms.last_index, scan.synced, scan.sealed) == (13, part.synced, False)
    assert scan.damage is None


def test_the_newest_valid_mark_counts() -> None:
    disk = CrashDisk()
    part = written(disk)
    good = part.synced
    for synced in (good - 3, good - 2, good - 1):
        part.synced = synced
        part.mark_synced(disk)
    data = disk.files()[PATH]
    assert scan_of(data).synced == good - 1
    # The last one went to the first place; without it the one before counts.
    assert scan_of(flip(data, 512 * 8)).synced == good - 2
    # No crash takes both: then all that is there counts as acknowledged.
    assert scan_of(flip(flip(data, 512 * 8), 1024 * 8)).synced == len(data)


def test_a_sealed_segment_says_so() -> None:
    disk = CrashDisk()
    written(disk).mark_synced(disk, sealed=True)
    assert scan_of(disk.files()[PATH]).sealed


def test_a_file_that_ends_before_its_mark_is_damaged() -> None:
    disk = CrashDisk()
    part = written(disk)
    scan = scan_of(disk.files()[PATH][: part.ends[-2]])
    assert scan.damage is not None
    assert scan.damage.offset == part.ends[-2] < scan.synced


def test_trim_forgets_from_an_index_on() -> None:
    part = written(CrashDisk())
    part.trim(13)
    assert (part.count, part.last_index) == (2, 12)
    part.trim(20)
    assert part.count == 2
    part.trim(5)
    assert (part.count, part.ends.tolist()) == (0, [HEADER_BYTES])


def test_reading_checks_again() -> None:
    disk = CrashDisk()
    part = written(disk)
    assert [entry.payload for entry in part.read(disk, 12, 14, 1 << 20)] == [b"twelve", b"more"]
    disk.pwrite(part.fd, b"T", part.ends[1] + frame.FRAME_BYTES)
    with pytest.raises(JournalDamaged, match="checksum") as damaged:
        part.read(disk, 11, 14, 1 << 20)
    assert damaged.value.offset == part.ends[1]


def test_a_file_that_shrank_is_noticed() -> None:
    disk = CrashDisk()
    part = written(disk)
    for size in range(part.ends[0], part.ends[-1]):
        shorter = CrashDisk({PATH: disk.files()[PATH][:size]})
        part.fd = shorter.open(PATH)
        with pytest.raises(JournalDamaged) as damaged:
            part.read(shorter, 11, 14, 1 << 20)
        assert damaged.value.offset in part.ends
        assert damaged.value.offset <= size


def test_frames_of_other_entries_are_noticed() -> None:
    disk = CrashDisk()
    part = written(disk)
    part.header = SegmentHeader(3, 11, 2)
    with pytest.raises(JournalDamaged, match="entry 11 where entry 12 was written"):
        part.read(disk, 12, 14, 1 << 20)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:100], "ends within its header"),
        (lambda data: b"NOTALOG!" + data[8:], "not a segment of a raftflow journal"),
        (lambda data: flip(data, 20 * 8), "checksum of the header"),
    ],
)
def test_a_bad_header_is_refused(change: object, message: str) -> None:
    disk = CrashDisk()
    written(disk)
    assert callable(change)
    with pytest.raises(JournalDamaged, match=message):
        scan_of(change(disk.files()[PATH]))


def test_a_renamed_segment_is_refused() -> None:
    disk = CrashDisk()
    written(disk, SegmentHeader(4, 10, 2))
    with pytest.raises(JournalDamaged, match="the file holds segment 4"):
        scan_of(disk.files()[segment.segment_path(DIRECTORY, 4)])


def test_a_newer_format_asks_for_a_newer_release() -> None:
    disk = CrashDisk()
    written(disk)
    data = bytearray(disk.files()[PATH])
    data[8:12] = pack("<I", segment.VERSION + 1)
    data[40:44] = pack("<I", crc32c(bytes(data[:40])))
    with pytest.raises(JournalDamaged, match="start the release that wrote it"):
        scan_of(bytes(data))
