"""Directories and object stores keep files alike; `file://` is obstore over this machine's disk."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftflow.cluster.backup.manifest import MANIFEST, BackupError
from raftflow.cluster.backup.places import Objects, inside, place


@pytest.fixture(params=["directory", "object store"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    path = tmp_path / "kept"
    return str(path) if request.param == "directory" else f"file://{path}"


def test_what_is_written_is_read(where: str) -> None:
    content = [bytes([number]) * 3_000_000 for number in range(7)]
    place(inside(where, "a")).write("state.db", iter(content))
    assert b"".join(place(inside(where, "a")).read("state.db")) == b"".join(content)


def test_a_file_that_breaks_off_is_not_there(where: str) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"x" * 9_000_000
        raise BackupError("it is cut short")

    with pytest.raises(BackupError, match="cut short"):
        place(where).write("state.db", pieces())
    with pytest.raises(BackupError):
        b"".join(place(where).read("state.db"))
    path = Path(where.removeprefix("file://"))
    assert list(path.iterdir()) == []


def test_backups_are_those_with_a_manifest(where: str) -> None:
    assert place(where).backups() == []
    for name in ("b", "a"):
        place(inside(where, name)).write(MANIFEST, iter([b"{}"]))
    place(inside(where, "c")).write("state.db", iter([b"x"]))
    assert place(where).backups() == ["a", "b"]


def test_what_is_not_there_is_named(where: str) -> None:
    with pytest.raises(BackupError, match="kept"):
        b"".join(place(inside(where, "nothing")).read(MANIFEST))


@pytest.mark.parametrize("url", ["quux://x/y", "s3://"])
def test_a_store_that_cannot_be_is_refused(url: str) -> None:
    with pytest.raises(BackupError, match=url):
        place(url)


def test_without_obstore_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(BackupError, match=r"pip install 'raftflow\[backup\]'"):
        Objects("s3://bucket")
