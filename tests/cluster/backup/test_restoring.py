from __future__ import annotations

import os
from pathlib import Path

import pytest
from populate import populate
from replica_rig import Rig

from raftflow.cluster.backup.manifest import BackupError, Manifest
from raftflow.cluster.backup.restoring import Restoration
from raftflow.cluster.config import Address, Config, Peer
from raftflow.cluster.consensus.identity import DirectoryLock, IdentityError, claim_directory
from raftflow.cluster.consensus.membership import Member
from raftflow.cluster.consensus.membership_file import MembershipFile
from raftflow.cluster.store import RunFilter, Store
from raftflow.raftlog.disk import OsDisk
from raftflow.raftlog.hardstate import HardState
from raftflow.raftlog.journal import Journal

PEERS = tuple(Peer(f"n{n}", Address("10.0.0.1", 9230 + n)) for n in (1, 2, 3))
MANIFEST = Manifest(
    cluster_id="shop",
    node_id="n1",
    version="0.4.0",
    feature_level=4,
    index=42,
    term=5,
    time_ms=99,
    digest="ab" * 16,
    size=4096,
    sha256="cd" * 32,
    created_at="2026-11-30T07:13:00+00:00",
)


def config(directory: Path, **settings: object) -> Config:
    return Config(node_id="n2", data_dir=directory, peers=PEERS, **settings)  # type: ignore[arg-type]


def restored(directory: Path, content: bytes = b"state", **settings: object) -> Restoration:
    made = Restoration(config(directory, **settings), MANIFEST)
    made.begin()
    try:
        made.write_state(iter([content]))
        made.finish()
    finally:
        made.close()
    return made


def test_the_node_begins_after_the_backup_with_nothing_promised(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    made = restored(directory)
    claim = claim_directory(str(directory), cluster_id="", node_id="n2", only_at_birth=True)
    claim.lock.release()
    assert claim.identity.cluster_id == made.cluster_id != "shop"
    raft, disk = str(directory / "raft"), OsDisk()
    state = HardState.open(raft, disk, may_be_new=False)
    assert (state.term, state.voted_for) == (5, None)
    held = MembershipFile.open(raft, disk).held
    assert held is not None
    assert held.index == 42
    assert held.configuration.members == tuple(Member(p.id, str(p.raft)) for p in PEERS)
    journal = Journal.open(raft, disk=disk)
    assert (journal.prev_index, journal.prev_term, journal.last_index) == (42, 5, 42)
    assert journal.first_index == 43, "a log that was lost would begin at 0"
    journal.close()


def test_every_member_comes_to_the_same_id_by_itself(tmp_path: Path) -> None:
    ids = {restored(tmp_path / each).cluster_id for each in ("a", "b")}
    assert len(ids) == 1
    assert restored(tmp_path / "c", cluster_id="shop").cluster_id == "shop", "asked for"
    fewer = Config(node_id="n1", data_dir=tmp_path / "d", peers=PEERS[:1])
    assert Restoration(fewer, MANIFEST).cluster_id not in ids


def test_each_directory_is_a_disk_of_its_own(tmp_path: Path) -> None:
    incarnations = set()
    for each in ("a", "b"):
        made = restored(tmp_path / each)
        claim = claim_directory(str(tmp_path / each), cluster_id=made.cluster_id, node_id="n2")
        incarnations.add(claim.identity.incarnation)
        claim.lock.release()
    assert len(incarnations) == 2


def test_a_directory_with_anything_in_it_is_refused(tmp_path: Path) -> None:
    restored(tmp_path)
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(BackupError, match=r"not empty \(it holds node.json, raft, state.db\)"):
        Restoration(config(tmp_path), MANIFEST).begin()
    assert sorted(os.listdir(tmp_path)) == before


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    lock = DirectoryLock(str(tmp_path))
    with pytest.raises(IdentityError, match="in use by process"):
        Restoration(config(tmp_path), MANIFEST).begin()
    lock.release()


def test_an_interrupted_one_starts_no_node(tmp_path: Path) -> None:
    made = Restoration(config(tmp_path), MANIFEST)
    made.begin()
    made.write_state(iter([b"state"]))
    made.close()
    with pytest.raises(IdentityError, match=r"has no node\.json but is not empty"):
        claim_directory(str(tmp_path), cluster_id="shop", node_id="n2")


def test_given_up_it_leaves_the_directory_empty(tmp_path: Path) -> None:
    made = Restoration(config(tmp_path), MANIFEST)
    made.begin()
    made.write_state(iter([b"sta"]))
    made.give_up()
    made.close()
    again = Restoration(config(tmp_path), MANIFEST)
    again.begin()
    again.close()


def test_a_node_that_joins_is_not_restored(tmp_path: Path) -> None:
    joins = Config(node_id="n4", data_dir=tmp_path, join=PEERS, raft_addr=Address("10.0.0.1", 9999))
    with pytest.raises(BackupError, match="name the members with peers"):
        Restoration(joins, MANIFEST)


async def test_the_state_is_the_one_that_was_backed_up(rig: Rig, tmp_path: Path) -> None:
    await populate(rig, ["a", "b"])
    copy = await rig.store.copy_to(rig.folder / "copy.db")
    content = Path(copy.path).read_bytes()  # noqa: ASYNC240  a local file
    restored(tmp_path / "data", content)
    store = await Store.open(tmp_path / "data" / "state.db")
    assert store.written == copy.applied
    assert (await store.counts(RunFilter(namespace="default"))).total == 2
    await store.close()
