"""Threads that read: one for what apply waits for, a few for questions, one for copies.

Each thread has its own connection, and each job its own read transaction: what it sees is one
state.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from raftflow.cluster.codec.shapes import UnknownValue
from raftflow.cluster.store.batch import AppliedState
from raftflow.cluster.store.connection import connect
from raftflow.cluster.store.errors import fatal, senseless, unreadable

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], T]


def applied_state(db: sqlite3.Connection) -> AppliedState:
    """Raises UnknownValue."""
    row = db.execute(
        "SELECT log_index, log_term, time_ms, digest, next_run_no FROM applied"
    ).fetchone()
    # No checksum covers it, and everything that waits for an index compares with it.
    if row is None or [type(value) for value in row] != [int, int, int, bytes, int]:
        raise UnknownValue(f"how far it is cannot be told: {row!r:.100}")
    return AppliedState(*row)


class Readers:
    """Closed as a whole before the file is swapped."""

    def __init__(self, path: str, questions: int) -> None:
        self._path = path
        self._local = threading.local()
        self._lock = threading.Lock()
        self._connections: list[sqlite3.Connection] = []
        self._loader = ThreadPoolExecutor(1, thread_name_prefix="store-load")
        self._askers = ThreadPoolExecutor(questions, thread_name_prefix="store-read")
        self._copier = ThreadPoolExecutor(1, thread_name_prefix="store-copy")

    async def load(self, job: Job[T]) -> T:
        return await self._submit(self._loader, job)

    async def ask(self, job: Job[T]) -> T:
        return await self._submit(self._askers, job)

    async def copy(self, job: Job[T]) -> T:
        return await self._submit(self._copier, job)

    def close(self) -> None:
        """Wait for running jobs, then close every connection. Blocks."""
        for pool in (self._loader, self._askers, self._copier):
            pool.shutdown(wait=True)
        for db in self._connections:
            db.close()
        self._connections.clear()

    async def _submit(self, pool: ThreadPoolExecutor, job: Job[T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(pool, self._run, job)

    def _run(self, job: Job[T]) -> T:
        try:
            db = self._connection()
        except sqlite3.Error as error:
            raise fatal(self._path, error) from error
        try:
            db.execute("BEGIN")
            try:
                return job(db)
            finally:
                if db.in_transaction:  # an error may have ended it
                    db.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise unreadable(self._path, error) from error
        except UnknownValue as error:
            raise senseless(self._path, error) from error

    def _connection(self) -> sqlite3.Connection:
        db: sqlite3.Connection | None = getattr(self._local, "db", None)
        if db is None:
            db = self._local.db = connect(self._path)
            with self._lock:
                self._connections.append(db)
        return db
