"""The mark that a node abstains survives what the node does not."""

from crash_disk import CrashDisk

from raftflow.raftlog import abstaining


def test_a_mark_is_durable_until_it_is_cleared() -> None:
    disk = CrashDisk()
    disk.makedirs("/raft")
    assert not abstaining.marked(disk, "/raft")
    abstaining.mark(disk, "/raft", "the end of the log was lost")
    disk = CrashDisk(disk.killed().files())
    assert abstaining.marked(disk, "/raft")
    abstaining.clear(disk, "/raft")
    abstaining.clear(disk, "/raft")
    assert not abstaining.marked(CrashDisk(disk.killed().files()), "/raft")
