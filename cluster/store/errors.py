"""What goes wrong with state.db. Errors of the disk or the file are final: the node stops."""

from __future__ import annotations

import sqlite3

from raftflow.cluster.errors import HistoryDamaged
from raftflow.cluster.store.records import BadRecord

_FETCH = (
    "start this node again: it fetches the state from the others. If it ends once more, run"
    " `raftflow node rebuild` on its data directory and, while all other nodes run, start it"
    " (with a single node: restore a backup)"
)


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
    return StoreDamaged(path, f"its content is damaged: {error}", _FETCH)


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
        return StoreDamaged(path, f"the file is damaged: {problem}", _FETCH)
    return StoreIOError(
        path, problem, "check the disk, then start the node again; if it goes on, " + _FETCH
    )


def senseless(path: str, error: Exception) -> StoreDamaged:
    """The file holds what is never written."""
    return StoreDamaged(path, f"what is in it makes no sense: {error}", _FETCH)
