"""All of a store is read again: a byte that is not as it was written is found and named."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import engine_harness as make
import pytest
from populate import apply, decide, populate
from replica_rig import Rig

from raftflow.cluster.store import CopyRefused, CorruptRecord, Store, StoreDamaged, copies, scrub


def zero_page(path: str, number: int) -> None:
    with open(path, "r+b") as file:
        file.seek(4096 * number)
        file.write(bytes(4096))


def point_nowhere(path: str, number: int) -> None:
    """In a page that has others below it, the last of them is 2^32 - 1."""
    with open(path, "r+b") as file:
        file.seek(4096 * number)
        assert file.read(1) == b"\x05"
        file.seek(4096 * number + 8)
        file.write(b"\xff\xff\xff\xff")


async def copied(rig: Rig) -> copies.Copy:
    """Of a store with records in every table."""
    await populate(rig, ["a", "b", "c"])
    await decide(rig, "a", make.activity(1))
    await apply(rig, make.start("asked", "Order", run_id="run-asked", request_id="q1"))
    return await rig.store.copy_to(rig.folder / "copy.db")


def read(path: Path | str) -> int:
    db = sqlite3.connect(path)
    try:
        return sum(scrub.steps(str(path), db))
    finally:
        db.close()


async def test_a_sound_store_is_read_to_its_end(rig: Rig) -> None:
    assert read((await copied(rig)).path) > 0


@pytest.mark.parametrize("table", ["runs", "events", "steps", "requests"])
async def test_a_record_that_rotted_is_named(rig: Rig, table: str) -> None:
    copy = await copied(rig)
    with sqlite3.connect(copy.path) as db:
        assert db.execute(f"UPDATE {table} SET record = zeroblob(30)").rowcount > 0
    db.close()
    with pytest.raises(CorruptRecord, match=table) as caught:
        read(copy.path)
    assert caught.value.is_rot


async def test_a_damaged_page_is_found(rig: Rig) -> None:
    copy = await copied(rig)
    zero_page(copy.path, 3)
    with pytest.raises((StoreDamaged, CorruptRecord)):
        read(copy.path)


async def test_a_page_that_cannot_be_is_damage_and_no_full_disk(rig: Rig) -> None:
    """SQLite says of both that the database is full."""
    await populate(rig, ["a"])
    for _ in range(300):
        await apply(rig, make.signal("a", "go", payload=bytes(200)))
    copy = await rig.store.copy_to(rig.folder / "copy.db")
    with sqlite3.connect(copy.path) as db:
        root = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'events'").fetchone()[0]
    db.close()
    point_nowhere(copy.path, root - 1)
    with pytest.raises(StoreDamaged, match="a page that cannot be"):
        read(copy.path)


async def test_a_copy_with_rot_in_it_is_not_installed(rig: Rig) -> None:
    copy = await copied(rig)
    with sqlite3.connect(copy.path) as db:
        db.execute("UPDATE events SET record = zeroblob(30)")
    db.close()
    other = await Store.open(rig.folder / "other.db")
    at = (copy.applied.index, copy.applied.term)
    with pytest.raises(CopyRefused, match="damaged"):
        await other.replace_with(copy.path, copies.file_sha256(copy.path), at)
    await other.close()
