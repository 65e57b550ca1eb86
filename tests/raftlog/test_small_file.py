import errno

import pytest
from crash_disk import CrashDisk

from raftflow.raftlog.errors import JournalDamaged, JournalIOError
from raftflow.raftlog.small_file import SmallFile


def file(disk: CrashDisk, *, magic: bytes = b"SOMEFILE") -> SmallFile:
    disk.makedirs("/raft")
    return SmallFile(disk, "/raft", "some", magic=magic, what="some numbers", remedy="try this")


def test_what_was_written_is_read() -> None:
    disk = CrashDisk()
    file(disk).write(7, 3, b"abc")
    assert file(disk).read() == (7, 3, b"abc")


def test_it_survives_a_power_loss() -> None:
    disk = CrashDisk()
    file(disk).write(7, 3, b"abc")
    assert file(disk.bare()).read() == (7, 3, b"abc")


def test_another_files_content_is_not_taken_for_its_own() -> None:
    disk = CrashDisk()
    file(disk, magic=b"OTHERONE").write(7, 3, b"abc")
    with pytest.raises(JournalDamaged, match="format version"):
        file(disk).read()


def test_a_failed_write_is_final() -> None:
    disk = CrashDisk()
    made = file(disk)
    disk.fail_at(len(disk.operations) + 3, errno.EIO)
    for _ in range(2):
        with pytest.raises(JournalIOError, match="writing some numbers"):
            made.write(1, 0, b"")
