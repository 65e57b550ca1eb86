"""The real disk keeps its side of the port."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from raftflow.raftlog.disk import OsDisk


def test_makedirs_may_be_repeated_and_refuses_a_file(tmp_path: Path) -> None:
    disk = OsDisk()
    disk.makedirs(str(tmp_path / "a" / "b"))
    disk.makedirs(str(tmp_path / "a" / "b"))
    assert disk.listdir(str(tmp_path / "a")) == ["b"]
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FileExistsError):
        disk.makedirs(str(tmp_path / "file"))


def test_write_read_rename_unlink(tmp_path: Path) -> None:
    disk = OsDisk()
    fd = disk.create(str(tmp_path / "one"))
    disk.pwrite(fd, b"hello", 3)
    disk.fdatasync(fd)
    assert disk.size(fd) == 8
    assert disk.pread(fd, 100, 0) == b"\0\0\0hello"
    disk.rename(str(tmp_path / "one"), str(tmp_path / "two"))
    disk.fsync_dir(str(tmp_path))
    disk.close(fd)
    fd = disk.open(str(tmp_path / "two"))
    assert disk.pread(fd, 2, 4) == b"el"
    with pytest.raises(OSError):
        disk.pwrite(fd, b"x", 0)
    disk.close(fd)
    disk.unlink(str(tmp_path / "two"))
    assert disk.listdir(str(tmp_path)) == []


def test_short_reads_and_writes_are_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = OsDisk()
    fd = disk.create(str(tmp_path / "file"))
    pread, pwrite = os.pread, os.pwrite
    monkeypatch.setattr(os, "pread", lambda fd, size, at: pread(fd, min(size, 3), at))
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, data[:4], at))
    disk.pwrite(fd, b"0123456789", 1)
    assert disk.pread(fd, 100, 0) == b"\x000123456789"
    assert disk.pread(fd, 10, 1) == b"0123456789"
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: 0)
    with pytest.raises(OSError) as stuck:
        disk.pwrite(fd, b"x", 0)
    assert stuck.value.errno == errno.EIO
    disk.close(fd)


def test_the_lock_is_released_by_close(tmp_path: Path) -> None:
    disk = OsDisk()
    fd = disk.lock(str(tmp_path))
    with pytest.raises(BlockingIOError):
        disk.lock(str(tmp_path))
    disk.close(fd)
    disk.close(disk.lock(str(tmp_path)))
