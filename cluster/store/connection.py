"""How state.db is opened, and what its file is asked to be."""

from __future__ import annotations

import os
import sqlite3
from importlib.resources import files

import structlog

from raftflow.cluster.store.errors import StoreDamaged, StoreTooNew, fatal, senseless

log = structlog.get_logger("raftflow.store")

APPLICATION_ID = 0x72666C77  # "rflw"
SCHEMA_VERSION = 3  # schema_<n>.sql brings version n - 1 to n

_WRITER_CACHE_KIB = 32 << 10
_READER_CACHE_KIB = 4 << 10


def connect(path: str, *, writer: bool = False) -> sqlite3.Connection:
    """A connection for one thread at a time. No mmap (a disk error would be SIGBUS), a bounded
    cache, and no checkpoint but the writer's own."""
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30.0)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")
    db.execute("PRAGMA wal_autocheckpoint = 0")
    db.execute("PRAGMA mmap_size = 0")
    db.execute("PRAGMA temp_store = MEMORY")
    db.execute(f"PRAGMA cache_size = -{_WRITER_CACHE_KIB if writer else _READER_CACHE_KIB}")
    if not writer:
        db.execute("PRAGMA query_only = 1")
    return db


def prepare(path: str) -> sqlite3.Connection:
    """Open the file for writing, creating or migrating it; refuse what is not ours."""
    is_new = not os.path.exists(path)
    try:
        db = connect(path, writer=True)
        try:
            if is_new or not _has_tables(db):
                build(db, 0)
            _check(path, db)
        except BaseException:
            db.close()
            raise
        return db
    except (sqlite3.Error, OSError) as error:
        if getattr(error, "sqlite_errorname", "") == "SQLITE_ERROR" and not is_new:
            # An unknown file format, a schema that makes no sense: no statement of ours is wrong.
            raise senseless(path, error) from error
        raise fatal(path, error) from error


def build(db: sqlite3.Connection, version: int) -> None:
    """Bring the schema from ``version`` (0: nothing is there) to ours, in one transaction."""
    folder = files("raftflow.cluster.store")
    steps = range(version + 1, SCHEMA_VERSION + 1)
    scripts = "".join([folder.joinpath(f"schema_{step}.sql").read_text() for step in steps])
    db.executescript(
        f"BEGIN IMMEDIATE; {scripts} PRAGMA application_id = {APPLICATION_ID};"
        f" PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
    )


def _has_tables(db: sqlite3.Connection) -> bool:
    return db.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone() is not None


def _check(path: str, db: sqlite3.Connection) -> None:
    if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise StoreDamaged(path, "this is not a raftflow store", "move the file away")
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version > SCHEMA_VERSION:
        raise StoreTooNew(
            path,
            f"its schema version is {version}, this program knows {SCHEMA_VERSION}",
            "run the version that wrote it, or a later one",
        )
    if version < SCHEMA_VERSION:
        build(db, version)
        log.info("store_migrated", path=path, from_version=version, to_version=SCHEMA_VERSION)
