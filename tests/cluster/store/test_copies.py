"""Copies of the store: made beside writes, verified, swapped in."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from populate import populate
from replica_rig import Rig, dump

from raftflow.cluster.store import CopyRefused, RunFilter, Store, WriteBatch, copies
from raftflow.cluster.store.batch import AppliedState


async def test_a_copy_is_one_state_while_writes_go_on(rig: Rig) -> None:
    await populate(rig, [f"w{n}" for n in range(20)])
    stop = asyncio.Event()

    async def write() -> None:
        number = 20
        while not stop.is_set():
            await populate(rig, [f"w{number}"])
            number += 1

    writing = asyncio.create_task(write())
    for number in range(3):
        copy = await rig.store.copy_to(rig.folder / f"copy{number}.db")
        rows = dump(Path(copy.path))
        assert rows["applied"][0][1] == copy.applied.index
        # Each run took one entry, after the one that registered its type and the no-ops.
        assert len(rows["runs"]) == copy.applied.next_run_no - 1
        assert copies.verify(copy.path, copy.sha256, (copy.applied.index, 1)) == copy.applied
    stop.set()
    await writing


async def test_what_does_not_verify_is_refused_and_nothing_changes(rig: Rig) -> None:
    await populate(rig, ["a"])
    copy = await rig.store.copy_to(rig.folder / "copy.db")
    other = await Store.open(rig.folder / "other.db")
    at = (copy.applied.index, copy.applied.term)
    with pytest.raises(CopyRefused, match="SHA-256"):
        await other.replace_with(copy.path, "0" * 64, at)
    with pytest.raises(CopyRefused, match="announced was"):
        await other.replace_with(copy.path, copy.sha256, (at[0] + 1, at[1]))
    other.submit(WriteBatch(AppliedState(at[0], 1, 0, bytes(16), 1)))
    with pytest.raises(CopyRefused, match="older"):
        await other.replace_with(copy.path, copy.sha256, at)
    await other.wait_written(at[0])
    await other.close()


async def test_questions_wait_while_a_copy_is_swapped_in(rig: Rig) -> None:
    await populate(rig, ["a", "b"])
    copy = await rig.store.copy_to(rig.folder / "copy.db")
    other = await Store.open(rig.folder / "other.db")
    at = (copy.applied.index, copy.applied.term)
    swap = asyncio.create_task(other.replace_with(copy.path, copy.sha256, at))
    answers = []
    while not swap.done():
        answers.append((await other.counts(RunFilter(namespace="default"))).total)
        await asyncio.sleep(0)
    assert set(answers) <= {0, 2}
    assert (await other.counts(RunFilter(namespace="default"))).total == 2
    assert other.written.index == at[0]
    assert other.checkpointed_index == at[0]
    await other.close()


def test_an_old_wal_never_meets_a_new_file(tmp_path: Path) -> None:
    copy, target = tmp_path / "copy.db", tmp_path / "state.db"
    copy.write_bytes(b"new")
    for suffix in ("", "-wal", "-shm"):
        Path(f"{target}{suffix}").write_bytes(b"old")
    copies.swap(os.fspath(copy), os.fspath(target))
    assert target.read_bytes() == b"new"
    assert [each.name for each in tmp_path.iterdir()] == ["state.db"]
