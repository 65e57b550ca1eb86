from raftflow.cluster.consensus.outcast import no_member, old_copy


def test_the_way_out_can_be_copied() -> None:
    assert "n2 has seen a later start" in str(old_copy("/data", seen_by="n2"))
    assert "`raftflow node rebuild /data`" in str(old_copy("/data", seen_by="n2"))
    gone = str(no_member("n4", "was removed", directory="/data", address="h:1"))
    assert gone.startswith("n4 was removed. ")
    assert "`raftflow node rebuild /data` and `raftflow node add n4=h:1`" in gone
