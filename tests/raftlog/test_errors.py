"""An error names the file, the place and the way out."""

from __future__ import annotations

import errno
import os

import pytest

from raftflow.raftlog.errors import (
    JournalDamaged,
    JournalFull,
    JournalIOError,
    JournalLocked,
    naming,
)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_says_to_free_space(code: int) -> None:
    with pytest.raises(JournalFull) as raised, naming("/raft/1", 96, "writing entries"):
        raise OSError(code, os.strerror(code))
    error = raised.value
    assert str(error).startswith("/raft/1: offset 96: writing entries failed: ")
    assert "free space on the volume" in str(error)


def test_other_errors_say_to_check_the_disk() -> None:
    with pytest.raises(JournalIOError) as raised, naming("/raft/1", 96, "writing"):
        raise OSError(errno.EIO, "Input/output error")
    assert not isinstance(raised.value, JournalFull)
    assert str(raised.value) == (
        "/raft/1: offset 96: writing failed: Input/output error (errno 5). What to do: check the "
        "disk and the kernel log (dmesg), then start the node again. Nothing that was not on "
        "disk has been acknowledged."
    )


def test_damage_points_to_the_other_copies() -> None:
    error = JournalDamaged("/raft/1", 4096, "the checksum does not match")
    assert (error.path, error.offset) == ("/raft/1", 4096)
    assert "raftflow log verify" in str(error)
    assert "`raftflow node rebuild`" in str(error)


def test_a_lock_says_who_has_it() -> None:
    assert "another process" in str(JournalLocked("/raft"))
