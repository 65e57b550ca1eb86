"""The one thread that writes state.db.

Batches are handed over in order and merged: whatever waits becomes one transaction, in which a row
that changed ten times is written once. The applied index, term, time and digest are part of it, so
that a crash leaves a prefix of the log and the node replays from there.

A commit is not an fsync (synchronous = NORMAL). Only a checkpoint that copied the whole WAL makes
the file durable; the log may be compacted up to the index of the last such checkpoint.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

import structlog

from raftflow.cluster.store.batch import WriteBatch
from raftflow.cluster.store.errors import StoreError, fatal

log = structlog.get_logger("raftflow.store")

# Pages that a transaction dirties hold other rows and index entries too.
_WAL_FACTOR = 4
_WAITING = 2  # the least phase


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterTimes:
    """When the writer acts."""

    linger_ms: int = 100  # how long a lone batch waits for company, unless someone waits for it
    checkpoint_every_ms: int = 5_000
    checkpoint_wal_bytes: int = 32 << 20
    truncate_wal_bytes: int = 256 << 20
    retry_ms: int = 100  # after a checkpoint that a reader held up
    transaction_bytes: int = 8 << 20  # a transaction takes in no more than about this


DEFAULT_TIMES = WriterTimes()


class WriterEvents(Protocol):
    """Called on the writer's thread."""

    def on_written(self, batch: WriteBatch, entries: int) -> None: ...

    def on_checkpointed(self, index: int) -> None: ...

    def on_fatal(self, error: StoreError) -> None: ...


class Writer:
    """Owns the writing connection from start to stop."""

    def __init__(
        self, path: str, db: sqlite3.Connection, times: WriterTimes, events: WriterEvents
    ) -> None:
        self._path = path
        self._db = db
        self._times = times
        self._events = events
        self._lock = threading.Condition()
        self._pending: list[WriteBatch] = []
        self._pending_bytes = 0
        self._jobs: list[Callable[[], None]] = []
        self._hurry = False
        self._stopping = False
        self._abandoned = False
        self._written_index = _applied_index(db)
        self._checkpointed_index = 0
        self._checkpoint_due = 0.0
        self._wal_bytes = 0  # about what was written since the last checkpoint
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, batch: WriteBatch) -> None:
        with self._lock:
            self._pending.append(batch)
            self._pending_bytes += batch.size
            if len(self._pending) == 1 or self._pending_bytes > self._times.transaction_bytes:
                self._lock.notify()

    def hurry(self) -> None:
        """Someone waits for what has been submitted: do not linger."""
        with self._lock:
            if self._pending and not self._hurry:
                self._hurry = True
                self._lock.notify()

    def run(self, job: Callable[[], None]) -> None:
        """Run ``job`` on the writer's thread, between transactions."""
        with self._lock:
            self._jobs.append(job)
            self._lock.notify()

    def stop(self) -> None:
        """Write what is pending, checkpoint, close. Blocks."""
        with self._lock:
            self._stopping = True
            self._lock.notify()
        self._thread.join()

    def abandon(self) -> None:
        """Drop what is pending and close, as a crash would. Blocks."""
        with self._lock:
            self._abandoned = self._stopping = True
            self._pending.clear()
            self._lock.notify()
        self._thread.join()

    def checkpoint(self) -> int:
        """On the writer's thread: copy the WAL into the file and fsync. Returns the index that is
        durable now; the old one when a reader held part of the WAL."""
        index = self._written_index
        # Beside readers that never pause the WAL would grow for ever: then they are waited for.
        mode = "TRUNCATE" if self._wal_file_bytes() > self._times.truncate_wal_bytes else "PASSIVE"
        busy, in_wal, copied = self._db.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
        if not busy and in_wal == copied:
            self._wal_bytes = 0
            if index > self._checkpointed_index:
                self._checkpointed_index = index
                self._events.on_checkpointed(index)
        elif mode == "TRUNCATE":
            log.warning("checkpoint_held_up", path=self._path, wal_pages=in_wal, copied=copied)
        return self._checkpointed_index

    def _wal_file_bytes(self) -> int:
        try:
            return os.path.getsize(self._path + "-wal")
        except FileNotFoundError:
            return 0

    # ---- the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._checkpoint_due = time.monotonic() + self._times.checkpoint_every_ms / 1_000
            while True:
                batches, jobs, stopping = self._next()
                if batches:
                    self._write(batches)
                for job in jobs:
                    job()
                if stopping and not self._pending:
                    break
                self._checkpoint_if_due()
            if not self._abandoned:
                self.checkpoint()
            self._db.close()
        except sqlite3.Error as error:
            self._events.on_fatal(fatal(self._path, error))
        except BaseException as error:  # noqa: BLE001  the thread's death must end the node
            self._events.on_fatal(
                StoreError(self._path, f"the writer failed: {error!r}", "report this bug")
            )

    def _next(self) -> tuple[list[WriteBatch], list[Callable[[], None]], bool]:
        """Wait for work, then take all of it, bounded by the size of a transaction."""
        times = self._times
        with self._lock:
            if not (self._pending or self._jobs or self._stopping):
                self._lock.wait(self._idle_s())
            urgent = self._hurry or self._jobs or self._stopping
            if self._pending and not urgent and self._pending_bytes <= times.transaction_bytes:
                self._lock.wait(times.linger_ms / 1_000)
            taken = size = 0
            for batch in self._pending:
                if taken and size + batch.size > times.transaction_bytes:
                    break
                size += batch.size
                taken += 1
            batches = self._pending[:taken]
            del self._pending[:taken]
            self._pending_bytes -= size
            # Jobs come after everything that was submitted before them.
            jobs: list[Callable[[], None]] = []
            if not self._pending:
                jobs, self._jobs = self._jobs, []
                self._hurry = False
            return batches, jobs, self._stopping

    def _idle_s(self) -> float | None:
        if self._written_index == self._checkpointed_index:
            return None
        return max(0.001, self._checkpoint_due - time.monotonic())

    def _checkpoint_if_due(self) -> None:
        if self._written_index == self._checkpointed_index:
            return
        now = time.monotonic()
        if now >= self._checkpoint_due or self._wal_bytes > self._times.checkpoint_wal_bytes:
            whole = self.checkpoint() == self._written_index
            pause_ms = self._times.checkpoint_every_ms if whole else self._times.retry_ms
            self._checkpoint_due = time.monotonic() + pause_ms / 1_000

    def _write(self, batches: list[WriteBatch]) -> None:
        merged = batches[0]
        for batch in batches[1:]:
            merged.merge(batch)
        self._db.execute("BEGIN IMMEDIATE")
        _write_rows(self._db, merged)
        self._db.execute("COMMIT")
        self._written_index = merged.applied.index
        self._wal_bytes += _WAL_FACTOR * merged.size
        self._events.on_written(merged, len(batches))


def _applied_index(db: sqlite3.Connection) -> int:
    index: int = db.execute("SELECT log_index FROM applied").fetchone()[0]
    return index


class _Many:
    """A statement for many rows. sqlite3 lets go of the interpreter at every step, and a row of
    `executemany` is one: beside a busy event loop each of them would wait for its turn."""

    SIZES = (64, 8, 1)

    def __init__(self, statement: str, columns: int) -> None:
        """``{rows}`` in the statement stands for the rows, each of so many columns."""
        row = f"({','.join('?' * columns)})"
        self._statements = [
            (size, statement.format(rows=",".join([row] * size))) for size in self.SIZES
        ]

    def run(self, db: sqlite3.Connection, rows: Iterable[tuple[Any, ...]]) -> None:
        waiting, start = list(rows), 0
        for size, statement in self._statements:
            while start + size <= len(waiting):
                db.execute(statement, list(chain.from_iterable(waiting[start : start + size])))
                start += size


_INSERT_RUNS = _Many(
    """INSERT INTO runs (namespace, workflow_id, run_id, workflow_type, task_queue,
    started_ms, status, updated_ms, closed_ms, history_length, decision_state, record, run_no,
    phase) VALUES {rows}""",
    14,
)
_UPDATE_RUNS = _Many(
    """UPDATE runs SET status = new.column1, updated_ms = new.column2,
    closed_ms = new.column3, history_length = new.column4, decision_state = new.column5,
    record = new.column6 FROM (VALUES {rows}) AS new WHERE run_no = new.column7""",
    7,
)
# A statement of its own: it leaves the indexes of most runs alone.
_MOVE_RUNS = _Many(
    """UPDATE runs SET phase = max(status, 2)
    WHERE run_no IN (VALUES {rows}) AND phase <> max(status, 2)""",
    1,
)
_PUT_STEPS = _Many("INSERT OR REPLACE INTO steps VALUES {rows}", 3)
_PUT_SIGNALS = _Many("INSERT OR REPLACE INTO signals VALUES {rows}", 3)
_PUT_EVENTS = _Many("INSERT INTO events VALUES {rows}", 2)
_PUT_ARRIVALS = _Many("INSERT OR REPLACE INTO arrivals VALUES {rows}", 2)
_DROP_ARRIVALS = _Many("DELETE FROM arrivals WHERE arrival_no IN (VALUES {rows})", 1)
_PUT_OUTBOX = _Many("INSERT OR REPLACE INTO outbox VALUES {rows}", 5)
_DROP_OUTBOX = _Many("DELETE FROM outbox WHERE message_no IN (VALUES {rows})", 1)
_DROP_ATTRIBUTES = _Many("DELETE FROM attributes WHERE run_no IN (VALUES {rows})", 1)
_PUT_ATTRIBUTES = _Many("INSERT OR REPLACE INTO attributes VALUES {rows}", 5)
_PUT_MEMOS = _Many("INSERT INTO memos VALUES {rows}", 2)
_DELETE_RUNS = _Many("DELETE FROM runs WHERE run_no IN (VALUES {rows})", 1)
_PUT_TIMERS = _Many("INSERT OR REPLACE INTO timers VALUES {rows}", 4)
# Row by row: for many at once SQLite would walk through all timers.
_DROP_TIMER = "DELETE FROM timers WHERE run_no = ? AND kind = ? AND sequence = ?"
_PUT_NAMESPACES = _Many("INSERT OR REPLACE INTO namespaces VALUES {rows}", 2)
_PUT_TYPES = _Many("INSERT OR IGNORE INTO types VALUES {rows}", 2)
_PUT_TOKENS = _Many("INSERT OR REPLACE INTO tokens VALUES {rows}", 2)
_DROP_TOKENS = _Many("DELETE FROM tokens WHERE token_id IN (VALUES {rows})", 1)
_PUT_AUDIT = _Many("INSERT INTO audit_log VALUES {rows}", 3)
_FORGET_AUDIT = "DELETE FROM audit_log WHERE audit_no <= ? AND time_ms < ?"
_PUT_REQUESTS = _Many("INSERT OR REPLACE INTO requests VALUES {rows}", 4)
_FORGET_REQUESTS = """DELETE FROM requests WHERE (namespace, request_id) IN (
    SELECT namespace, request_id FROM requests INDEXED BY requests_by_expiry
    WHERE expires_ms <= ? ORDER BY expires_ms LIMIT ?)"""
_PUT_APPLIED = """UPDATE applied SET log_index = ?, log_term = ?, time_ms = ?, digest = ?,
    next_run_no = ?"""


def _write_rows(db: sqlite3.Connection, batch: WriteBatch) -> None:
    runs, opened = batch.runs, batch.opened
    _INSERT_RUNS.run(
        db, [(*who, *runs[no], max(runs[no][0], _WAITING)) for no, who in opened.items()]
    )
    changed = [columns for no, columns in runs.items() if no not in opened]
    _UPDATE_RUNS.run(db, changed)
    _MOVE_RUNS.run(db, [columns[-1:] for columns in changed])
    _PUT_EVENTS.run(db, batch.events)
    _PUT_STEPS.run(db, batch.steps.values())
    _PUT_SIGNALS.run(db, batch.signals.values())
    _write_pending(db, batch)
    _write_labels(db, batch)
    timers = batch.timers.items()
    _PUT_TIMERS.run(db, [(*key, at_ms) for key, at_ms in timers if at_ms is not None])
    db.executemany(_DROP_TIMER, [key for key, at_ms in timers if at_ms is None])
    _PUT_REQUESTS.run(db, [(*key, *row) for key, row in batch.requests.items()])
    if batch.forget:
        db.execute(_FORGET_REQUESTS, batch.forget)
    _PUT_NAMESPACES.run(db, batch.namespaces.items())
    _PUT_TYPES.run(db, batch.types)
    _write_access(db, batch)
    # With all their rows: also those that this transaction wrote before.
    _DELETE_RUNS.run(db, [(run_no,) for run_no in batch.deleted])
    applied = batch.applied
    db.execute(
        _PUT_APPLIED,
        (applied.index, applied.term, applied.time_ms, applied.digest, applied.next_run_no),
    )


def _write_pending(db: sqlite3.Connection, batch: WriteBatch) -> None:
    arrivals, outbox = batch.arrivals.items(), batch.outbox.items()
    _PUT_ARRIVALS.run(db, [(number, row) for number, row in arrivals if row is not None])
    _DROP_ARRIVALS.run(db, [(number,) for number, row in arrivals if row is None])
    _PUT_OUTBOX.run(db, [row for _, row in outbox if row is not None])
    _DROP_OUTBOX.run(db, [(number,) for number, row in outbox if row is None])


def _write_access(db: sqlite3.Connection, batch: WriteBatch) -> None:
    tokens = batch.tokens.items()
    _PUT_TOKENS.run(db, [(token_id, row) for token_id, row in tokens if row is not None])
    _DROP_TOKENS.run(db, [(token_id,) for token_id, row in tokens if row is None])
    _PUT_AUDIT.run(db, batch.audit)
    if batch.forget_audit:
        db.execute(_FORGET_AUDIT, batch.forget_audit)


def _write_labels(db: sqlite3.Connection, batch: WriteBatch) -> None:
    _DROP_ATTRIBUTES.run(db, [(no,) for no in batch.attributes if no not in batch.opened])
    _PUT_ATTRIBUTES.run(db, chain.from_iterable(batch.attributes.values()))
    _PUT_MEMOS.run(db, batch.memos.items())
