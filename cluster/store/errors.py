"""What goes wrong with state.db. Errors of the disk or the file are final: the node stops."""

from __future__ import annotations

import sqlite3

from raftflow.cluster.errors import HistoryDamaged
from raftflow.cluster.store.records import BadRecord

FETCH = (
    "start the node again: it fetches a copy from the others (a single node has nobody to ask: put"
    " back a copy of its data directory that was made while it was stopped)"
)
_REBUILD = "while all other nodes run, empty its data directory with `raftflow node rebuild DIR`"


class StoreError(Exception):
    """Names the file, what happened and the way out."""

    def __init__(self, path: str, problem: str, remedy: str) -> None:
        super().__init__(f"{path}: {problem}; {remedy}")
        self.path = path
        self.problem = problem
        self.remedy = remedy


class StoreFull(StoreError):
    """No space left. What was acknowledged is in the Raft log."""


class StoreIOError(StoreError):
    """A read, write or fsync failed. The page cache may lie afterwards: never tried again."""


class StoreDamaged(StoreError):
    """The file is not what was written."""


class StoreTooNew(StoreError):
    """Written by a later version."""


class CopyRefused(StoreError):
    """A copy that does not verify, or is older than what is here."""


class CorruptRecord(HistoryDamaged):
    """One row of one run fails its checksum or cannot be read: with a single node that run alone
    is UNKNOWN; a node that has peers fetches a copy from them."""

    def __init__(self, path: str, where: str, problem: str) -> None:
        super().__init__(f"{path}: {where}: {problem}")
        self.where = where
        self.problem = problem

    @property
    def is_rot(self) -> bool:
        """The bytes are not those that were written; else they may be a bug, the same on every
        node."""
        return isinstance(self.__cause__, BadRecord)


def not_a_store(path: str, error: Exception) -> StoreDamaged:
    """It opens, but what must stand in it does not."""
    return StoreDamaged(path, f"its content is damaged: {error}", FETCH)


def fatal(path: str, error: sqlite3.Error | OSError) -> StoreError:
    """Say what an error of SQLite or the system means for the operator."""
    if isinstance(error, sqlite3.IntegrityError | sqlite3.ProgrammingError):
        return StoreError(path, f"an entry does not fit its rows: {error}", "report this bug")
    name = getattr(error, "sqlite_errorname", None) or type(error).__name__
    problem = f"{error} ({name})"
    if name == "SQLITE_FULL" or (isinstance(error, OSError) and error.errno == 28):
        return StoreFull(
            path,
            f"the disk is full: {problem}",
            "free space and start the node again: nothing acknowledged is lost",
        )
    if name == "SQLITE_ERROR":
        return StoreError(path, problem, "report this bug")
    # Without a code, the sqlite3 module itself could not make sense of a value.
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "OperationalError")):
        return StoreDamaged(path, f"the file is damaged: {problem}", FETCH)
    return StoreIOError(
        path, problem, "check the disk, then start the node again; if it goes on, " + _REBUILD
    )


def unreadable(path: str, error: sqlite3.Error) -> StoreError:
    """The same on a connection that only reads, and has its temporary tables in memory. It needs no
    room: SQLite calls a file full as well that refers to a page which no file can have."""
    if getattr(error, "sqlite_errorname", "") == "SQLITE_FULL":
        return StoreDamaged(path, f"the file refers to a page that cannot be: {error}", FETCH)
    return fatal(path, error)


def senseless(path: str, error: Exception) -> StoreDamaged:
    """The file holds what is never written."""
    return StoreDamaged(path, f"what is in it makes no sense: {error}", FETCH)
