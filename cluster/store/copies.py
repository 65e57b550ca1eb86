"""Copies of state.db: state.db itself is the node's snapshot.

A copy is made in one read transaction (a paged backup beside a busy writer starts again at every
commit and never ends), fsynced and hashed. It is installed by rename, after the old file's WAL is
gone: a new file beside an old WAL would be repaired with foreign pages.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass

from raftflow.cluster.codec.shapes import UnknownValue
from raftflow.cluster.durable import sync_directory
from raftflow.cluster.store import scrub
from raftflow.cluster.store.batch import AppliedState
from raftflow.cluster.store.errors import CopyRefused, CorruptRecord, StoreError, fatal
from raftflow.cluster.store.readers import applied_state

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Copy:
    """A finished copy, and how far it is."""

    path: str
    applied: AppliedState
    size: int
    sha256: str


def make(db: sqlite3.Connection, path: str) -> Copy:
    """Copy what this connection's transaction sees. Raises StoreError. Blocks."""
    try:
        return _make(db, path)
    except (OSError, sqlite3.Error) as error:
        raise fatal(path, error) from error


def _make(db: sqlite3.Connection, path: str) -> Copy:
    if os.path.exists(path):
        os.unlink(path)
    target = sqlite3.connect(path, isolation_level=None)
    try:
        target.execute("PRAGMA synchronous = OFF")  # fsynced as a whole below
        target.execute("PRAGMA journal_mode = OFF")
        db.backup(target, pages=-1)
    finally:
        target.close()
    with open(path, "rb") as file:
        os.fsync(file.fileno())
    sync_directory(os.path.dirname(path))
    return Copy(path, _applied(path), os.path.getsize(path), file_sha256(path))


def verify(path: str, sha256: str, expected: tuple[int, int]) -> AppliedState:
    """Raises CopyRefused. Blocks."""
    if file_sha256(path) != sha256:
        raise CopyRefused(path, "its SHA-256 is not the one announced", "fetch it again")
    try:
        found = _applied(path)
        _check_all(path)
    except sqlite3.Error as error:
        raise CopyRefused(path, f"it does not open: {error}", "fetch another copy") from error
    except (StoreError, CorruptRecord, UnknownValue) as error:
        # The disk it was made on has rotted: that must not spread.
        raise CopyRefused(path, f"it is damaged: {error}", "fetch another copy") from error
    if (found.index, found.term) != expected:
        problem = f"it ends at {found.index} of term {found.term}, announced was {expected}"
        raise CopyRefused(path, problem, "fetch another copy")
    return found


def refuse_older(path: str, index: int, newest: int) -> None:
    if index <= newest:
        raise CopyRefused(
            path,
            f"it ends at index {index}, this node is at {newest}",
            "nothing needs to be done: an older copy never replaces a newer state",
        )


def swap(path: str, target: str) -> None:
    """Rename a verified copy over the store, which is closed. Blocks."""
    folder = os.path.dirname(target)
    for suffix in ("-wal", "-shm"):
        if os.path.exists(target + suffix):
            os.unlink(target + suffix)
    sync_directory(folder)
    with open(path, "rb") as file:
        os.fsync(file.fileno())
    os.replace(path, target)
    sync_directory(folder)


def swap_failed(path: str, error: OSError) -> StoreError:
    return fatal(path, error)


def file_sha256(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _applied(path: str) -> AppliedState:
    with closing(immutable(path)) as db:
        return applied_state(db)


def _check_all(path: str) -> None:
    with closing(immutable(path)) as db:
        for _ in scrub.steps(path, db):
            pass


def immutable(path: str) -> sqlite3.Connection:
    """To read a copy: the file is complete, and no WAL may appear beside it."""
    db = sqlite3.connect(f"file:{_quoted(path)}?immutable=1", uri=True)
    db.execute("PRAGMA temp_store = MEMORY")
    return db


def _quoted(path: str) -> str:
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
