from __future__ import annotations

import gc
import hashlib
import os
from collections import namedtuple
from pathlib import Path

import pytest

from raftflow.cluster.backup import source
from raftflow.cluster.backup.source import BackupSource, Taken
from raftflow.cluster.errors import Overloaded, Unavailable
from raftflow.cluster.store import AppliedState, Copy, StoreFull

CONTENT = b"state" * 1_000_000
Usage = namedtuple("Usage", "total used free")


class Replica:
    """Makes copies of CONTENT."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.applied_index = 7
        self.waited: list[int] = []
        self.fault: Exception | None = None

    async def written(self, index: int) -> None:
        self.waited.append(index)

    async def copy_of_state(self) -> Copy:
        if self.fault is not None:
            raise self.fault
        folder = self.directory / f"copy-{len(self.waited)}"
        folder.mkdir()
        (folder / "state.db").write_bytes(CONTENT)
        applied = AppliedState(7, 2, 1_000, bytes(16), 3)
        sha256 = hashlib.sha256(CONTENT).hexdigest()
        return Copy(str(folder / "state.db"), applied, len(CONTENT), sha256)


@pytest.fixture
def replica(tmp_path: Path) -> Replica:
    (tmp_path / "state.db").write_bytes(CONTENT)
    (tmp_path / "made").mkdir()
    return Replica(tmp_path / "made")


@pytest.fixture
def backups(replica: Replica, tmp_path: Path) -> BackupSource:
    return BackupSource(
        replica=replica, data_dir=tmp_path, cluster_id="shop", node_id="n1", version="0.4.0"
    )


async def read(taken: Taken) -> bytes:
    return b"".join([piece async for piece in taken.pieces()])


async def test_the_copy_is_whole_and_leaves_nothing_behind(
    replica: Replica, backups: BackupSource
) -> None:
    taken = await backups.take(feature_level=4, caller="t")
    assert replica.waited == [7], "what was applied is written before it is copied"
    assert os.listdir(replica.directory) == []
    assert await read(taken) == CONTENT
    manifest = taken.manifest
    assert (manifest.index, manifest.term, manifest.size) == (7, 2, len(CONTENT))
    assert manifest.sha256 == hashlib.sha256(CONTENT).hexdigest()
    assert (manifest.cluster_id, manifest.node_id, manifest.feature_level) == ("shop", "n1", 4)


async def test_only_so_many_at_once_and_a_reader_that_went_away_counts_no_more(
    backups: BackupSource,
) -> None:
    held = [await backups.take(feature_level=4, caller="t") for _ in range(source.MOST_AT_ONCE)]
    with pytest.raises(Overloaded, match="ask another one"):
        await backups.take(feature_level=4, caller="t")
    held.clear()  # nobody ever read them
    gc.collect()
    await backups.take(feature_level=4, caller="t")


async def test_a_disk_without_room_is_left_alone(
    replica: Replica, backups: BackupSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = len(CONTENT) + source.SPARE_BYTES - 1
    monkeypatch.setattr(source.shutil, "disk_usage", lambda _path: Usage(1, 1, free))
    with pytest.raises(Unavailable, match="n1 has no room for a copy of its state"):
        await backups.take(feature_level=4, caller="t")
    assert os.listdir(replica.directory) == []


async def test_a_disk_that_is_full_all_the_same_is_told(
    replica: Replica, backups: BackupSource
) -> None:
    replica.fault = StoreFull("copy", "the disk is full", "free space")
    with pytest.raises(Unavailable, match="the disk is full"):
        await backups.take(feature_level=4, caller="t")
