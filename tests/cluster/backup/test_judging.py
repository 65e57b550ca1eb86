from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from populate import populate
from replica_rig import Rig

from raftflow.cluster.backup.judging import AGREES, READ, RECORDS, checked, judge
from raftflow.cluster.backup.manifest import BackupError, Manifest
from raftflow.cluster.store import copies

PIECE = 1 << 16


async def backup_of(rig: Rig, *ids: str) -> tuple[Path, Manifest]:
    """A copy of a store with these runs, and what it says of itself."""
    await populate(rig, ids)
    copy = await rig.store.copy_to(rig.folder / "copy.db")
    applied = copy.applied
    return Path(copy.path), Manifest(
        cluster_id="shop",
        node_id="n1",
        version="0.4.0",
        feature_level=4,
        index=applied.index,
        term=applied.term,
        time_ms=applied.time_ms,
        digest=applied.digest.hex(),
        size=copy.size,
        sha256=copy.sha256,
        created_at="2026-11-30T07:13:00+00:00",
    )


def quiet(_what: str, _size: int) -> None:
    pass


def pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            yield piece


async def test_a_whole_backup_is_found_whole(rig: Rig) -> None:
    path, manifest = await backup_of(rig, "a", "b", "c")
    told: dict[str, int] = {}

    def progress(what: str, size: int) -> None:
        told[what] = told.get(what, 0) + size

    assert b"".join(checked(pieces(path), manifest, progress)) == path.read_bytes()
    verdict = judge(path, manifest, progress)
    assert (verdict.runs, verdict.violations) == (3, ())
    assert told[READ] == manifest.size
    assert told[RECORDS] > 0
    assert AGREES in told


async def test_other_bytes_than_were_announced_are_refused(rig: Rig) -> None:
    path, manifest = await backup_of(rig, "a")
    for wrong, said in (
        (replace(manifest, sha256="0" * 64), "SHA-256"),
        (replace(manifest, size=manifest.size + 1), "cut short"),
    ):
        with pytest.raises(BackupError, match=said):
            list(checked(pieces(path), wrong, quiet))


async def test_another_state_than_the_manifest_says_is_refused(rig: Rig) -> None:
    path, manifest = await backup_of(rig, "a")
    for wrong in (
        replace(manifest, index=manifest.index + 1),
        replace(manifest, digest="00" * 16),
        replace(manifest, time_ms=0),
    ):
        with pytest.raises(BackupError, match="they do not belong together"):
            judge(path, wrong, quiet)


async def test_a_record_that_has_rotted_is_found(rig: Rig) -> None:
    path, manifest = await backup_of(rig, "a")
    change(path, "UPDATE events SET record = zeroblob(length(record)) WHERE event_no % 2 = 1")
    with pytest.raises(BackupError, match=r"damaged: .*events"):
        judge(path, manifest, quiet)


async def test_what_is_no_store_is_damaged(rig: Rig) -> None:
    path, manifest = await backup_of(rig, "a")
    for content in (b"", b"x" * 5_000, path.read_bytes()[: manifest.size // 2]):
        path.write_bytes(content)
        with pytest.raises(BackupError, match="damaged"):
            judge(path, manifest, quiet)


async def test_an_invariant_that_does_not_hold_is_told_and_no_damage(rig: Rig) -> None:
    path, manifest = await backup_of(rig, "a")
    change(path, "UPDATE counters SET runs = runs + 1")
    (violation,) = judge(path, manifest, quiet).violations
    assert violation.startswith("counts: ")


def change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute(statement)
        db.commit()
    with closing(copies.immutable(str(path))) as db:
        assert db.execute("PRAGMA quick_check").fetchone() == ("ok",)
