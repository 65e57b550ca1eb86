"""Who belongs to the cluster survives power losses, and is never guessed."""

from __future__ import annotations

import errno
import random
from pathlib import Path

import pytest
from crash_disk import CrashDisk, PowerLoss

from raftflow.cluster.consensus.configurations import Held
from raftflow.cluster.consensus.membership import Configuration, Member
from raftflow.cluster.consensus.membership_file import FILE, MembershipFile
from raftflow.raftlog.disk import OsDisk
from raftflow.raftlog.errors import JournalDamaged, JournalIOError


def held(index: int, count: int = 3) -> Held:
    members = tuple(Member(f"n{i}", f"host-{i}:9233", i != 1, f"i{index}") for i in range(count))
    return Held(index, Configuration(members, 3))


def test_a_new_directory_holds_nothing(tmp_path: Path) -> None:
    assert MembershipFile.open(str(tmp_path / "raft"), OsDisk()).held is None


def test_what_was_stored_is_read_again_and_nothing_older_replaces_it(tmp_path: Path) -> None:
    file = MembershipFile.open(str(tmp_path), OsDisk())
    file.store(held(0))
    file.store(held(1 << 40, count=7))
    file.store(held(9))
    assert MembershipFile.open(str(tmp_path), OsDisk()).held == held(1 << 40, count=7)


def test_every_cut_and_every_flipped_byte_is_refused(tmp_path: Path) -> None:
    MembershipFile.open(str(tmp_path), OsDisk()).store(held(7))
    path = tmp_path / FILE
    good = path.read_bytes()
    damaged = [good[:size] for size in range(len(good))]
    damaged += [good[:at] + bytes([good[at] ^ 0x40]) + good[at + 1 :] for at in range(len(good))]
    for data in damaged:
        path.write_bytes(data)
        with pytest.raises(JournalDamaged) as refused:
            MembershipFile.open(str(tmp_path), OsDisk())
        assert str(path) in str(refused.value)
        assert "never delete this file" in str(refused.value)


def test_a_power_loss_at_any_moment_leaves_one_or_the_other() -> None:
    """What `store` came back from is there."""
    operation, done = 0, False
    while not done:
        disk, done = CrashDisk(), True
        MembershipFile.open("/raft", disk).store(held(5))
        file = MembershipFile.open("/raft", disk)
        disk.stop_at(len(disk.operations) + operation)
        try:
            file.store(held(8))
        except PowerLoss:
            done = False
        for after in disk.crash_states(random.Random(operation)):
            found = MembershipFile.open("/raft", after).held
            assert found == held(8) if done else found in (held(5), held(8))
        operation += 1
    assert operation > 4


def test_after_a_failed_write_nothing_more_is_stored() -> None:
    operation, done = 0, False
    while not done:
        disk, done = CrashDisk(), True
        file = MembershipFile.open("/raft", disk)
        file.store(held(5))
        disk.fail_at(len(disk.operations) + operation, errno.EIO)
        try:
            file.store(held(8))
        except JournalIOError:
            done = False
            with pytest.raises(JournalIOError):
                file.store(held(9))
            assert file.held == held(5)
        operation += 1
    assert operation > 4


def test_reading_it_makes_it_durable() -> None:
    """What can be read may be in the page cache only, after a directory fsync that failed."""
    disk = CrashDisk()
    file = MembershipFile.open("/raft", disk)
    file.store(held(5))
    before = len(disk.operations)
    file.store(held(8))
    disk.fail_at(len(disk.operations) + (len(disk.operations) - before) - 1, errno.EIO)
    with pytest.raises(JournalIOError):
        file.store(held(9))
    after = disk.killed()
    assert MembershipFile.open("/raft", after).held == held(9)
    for state in after.crash_states(random.Random(1)):
        assert MembershipFile.open("/raft", state).held == held(9)
