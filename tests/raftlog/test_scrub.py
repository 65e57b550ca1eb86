"""Every byte of a segment that counts is read again, in bounded steps."""

import pytest
from corrupt import flip
from crash_disk import CrashDisk
from repair_rig import DIRECTORY, opened

from raftflow.raftlog import scrub, segment
from raftflow.raftlog.errors import JournalDamaged
from raftflow.raftlog.journal import LogEntry

PATH = segment.segment_path(DIRECTORY, 1)


def disk_with(sizes: list[int]) -> CrashDisk:
    disk = CrashDisk()
    journal = opened(disk, 1 << 30)
    for index, size in enumerate(sizes, 1):
        journal.append([LogEntry(index, 1, b"x" * size)])
        journal.flush()
    journal.close()
    return disk


def read(disk: CrashDisk, *, active: bool = False) -> int:
    return sum(scrub.steps(disk, DIRECTORY, 1, active=active))


@pytest.mark.parametrize("active", [False, True])
def test_a_sound_segment_is_read_to_its_end(active: bool) -> None:
    disk = disk_with([100, 300_000, 5, scrub.CHUNK_BYTES * 2, 7])
    assert read(disk, active=active) == len(disk.files()[PATH])


def test_damage_anywhere_is_found_with_its_offset() -> None:
    data = disk_with([40, 50, 60]).files()[PATH]
    for offset in range(4096, len(data)):
        with pytest.raises(JournalDamaged, match="offset"):
            read(CrashDisk({PATH: flip(data, offset * 8)}))
    with pytest.raises(JournalDamaged):
        read(CrashDisk({PATH: data[:-30]}))


def test_what_is_being_written_does_not_count() -> None:
    data = disk_with([40, 50]).files()[PATH]
    disk = CrashDisk({PATH: data + b"half a frame"})
    assert read(disk, active=True) == len(data)
    with pytest.raises(JournalDamaged):
        read(disk)
