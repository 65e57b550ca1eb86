"""The store: state.db behind async methods. One thread writes, a few read."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import structlog

from raftflow.cluster.background import in_thread
from raftflow.cluster.codec.shapes import UnknownValue
from raftflow.cluster.store import audit, copies, duties, families, lists, trail
from raftflow.cluster.store.aggregates import Aggregates
from raftflow.cluster.store.batch import AppliedState, WriteBatch
from raftflow.cluster.store.connection import prepare
from raftflow.cluster.store.errors import (
    CorruptRecord,
    StoreDamaged,
    StoreError,
    StoreIOError,
    not_a_store,
)
from raftflow.cluster.store.readers import Readers, applied_state
from raftflow.cluster.store.views import (
    AuditFilter,
    AuditPage,
    Chain,
    ClosedRun,
    Loaded,
    MessagePage,
    RunCounts,
    RunFilter,
    RunPage,
    RunSummary,
    TaskPage,
)
from raftflow.cluster.store.writer import DEFAULT_TIMES, Writer, WriterTimes
from raftflow.engine.ids import RunKey, WorkflowKey
from raftflow.engine.state import Catalog, Run, Signal, TimerRow

log = structlog.get_logger("raftflow.store")

T = TypeVar("T")

MAX_RUNS_OF_ONE_ID = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """``queue_bytes`` bounds what has been applied and is not yet written."""

    times: WriterTimes = DEFAULT_TIMES
    queue_bytes: int = 32 << 20
    readers: int = 2


DEFAULT_SETTINGS = StoreSettings()

_EXIT_FATAL = 70


def end_process(error: StoreError) -> None:
    """Rule 8: the node never carries on from a state that may be wrong."""
    log.critical("node_stopping", reason=str(error))
    os._exit(_EXIT_FATAL)


class Store:
    """Opened with `Store.open`; every method runs on the event loop that opened it."""

    def __init__(
        self, path: str, settings: StoreSettings, on_fatal: Callable[[StoreError], None]
    ) -> None:
        self.path = path
        self._on_fatal = on_fatal
        self._on_rot: Callable[[CorruptRecord], None] | None = None
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._queued_bytes = 0
        self._submitted_index = 0
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._room: list[asyncio.Future[None]] = []
        self._usable = asyncio.Event()  # clear while a copy is being swapped in
        self._listeners: list[Callable[[int, int], None]] = []
        self.written = AppliedState(0, 0, 0, bytes(16), 1)
        self.checkpointed_index = 0
        self.catalog = Catalog()

    @classmethod
    async def open(
        cls,
        path: str | os.PathLike[str],
        *,
        settings: StoreSettings = DEFAULT_SETTINGS,
        on_fatal: Callable[[StoreError], None] = end_process,
        on_rot: Callable[[CorruptRecord], None] | None = None,
    ) -> Store:
        """Create, migrate or recover the file. Raises StoreError. ``on_fatal`` hears of what goes
        wrong in its threads later, on the loop; it must end the process. ``on_rot`` hears of
        records that are not as they were written; without it they cost their run alone."""
        store = cls(os.fspath(path), settings, on_fatal)
        store._on_rot = on_rot
        await store._start()
        return store

    async def close(self) -> None:
        """Write what was submitted, checkpoint, close."""
        self._usable.clear()
        await asyncio.to_thread(self._writer.stop)
        await asyncio.to_thread(self._readers.close)

    async def abandon(self) -> None:
        """Close as a crash would: what is not written is lost."""
        self._usable.clear()
        await asyncio.to_thread(self._writer.abandon)
        await asyncio.to_thread(self._readers.close)

    # ---- writing --------------------------------------------------------------------------------

    @property
    def written_index(self) -> int:
        return self.written.index

    def on_progress(self, listener: Callable[[int, int], None]) -> None:
        """``listener(written index, checkpointed index)`` is called when either moved."""
        self._listeners.append(listener)

    def submit(self, batch: WriteBatch) -> None:
        """Write behind, in order. The caller asks `has_room` first."""
        self._queued_bytes += batch.size
        self._submitted_index = batch.applied.index
        self._writer.submit(batch)

    @property
    def has_room(self) -> bool:
        return self._queued_bytes < self._settings.queue_bytes

    async def room(self) -> None:
        """Wait until another batch may be submitted."""
        while not self.has_room:
            future: asyncio.Future[None] = self._loop.create_future()
            self._room.append(future)
            await future

    async def wait_written(self, index: int) -> None:
        """Wait until everything up to ``index`` is in the file; the writer hurries."""
        if self.written.index >= index:
            return
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiters.append((index, future))
        self._writer.hurry()
        await future

    async def checkpoint(self) -> int:
        """Make what is written durable. Returns the index up to which the log is not needed."""
        return await self._in_writer(self._writer.checkpoint)

    # ---- loading for apply ----------------------------------------------------------------------

    async def load(
        self,
        workflows: Iterable[WorkflowKey],
        runs: Iterable[RunKey],
        requests: Iterable[tuple[str, str]],
    ) -> Loaded:
        """Aggregates as they are written. A thread of its own: no list delays apply."""
        wanted = (tuple(workflows), tuple(runs), tuple(requests))
        loaded = await self._read(
            self._readers.load(lambda db: Aggregates(self.path, db).load(*wanted))
        )
        for problem in loaded.damaged.values():
            self._tell_rot(problem)
        return loaded

    async def oldest_request_ms(self) -> int | None:
        """When the first remembered request id expires."""
        return await self._ask(duties.oldest_request_ms)

    async def request_bits(self) -> bytes:
        """The map of all remembered request ids, as `sieve.Sieve.fill` takes it."""
        return await self._ask(duties.request_bits)

    # ---- questions ------------------------------------------------------------------------------

    async def list_runs(self, wanted: RunFilter) -> RunPage:
        """Raises BadCursor. Sees everything that was applied here before the call."""
        return await self._ask(
            lambda db: lists.list_runs(db, wanted, applied_state(db).index), settle=True
        )

    async def counts(self, wanted: RunFilter) -> RunCounts:
        """Of all statuses and pages."""
        return await self._ask(lambda db: lists.counts(db, wanted), settle=True)

    async def runs_of(
        self, workflow: WorkflowKey, cursor: str = ""
    ) -> tuple[list[RunSummary], str]:
        """A page of an id's runs, newest first, and the cursor of the next one. Raises
        BadCursor."""
        return await self._ask(
            lambda db: lists.runs_of(db, workflow, cursor, MAX_RUNS_OF_ONE_ID), settle=True
        )

    async def run_ids_of(self, workflow: WorkflowKey) -> list[str]:
        """All of an id's runs, oldest first."""
        return await self._ask(lambda db: lists.run_ids_of(db, workflow), settle=True)

    async def summaries(self, keys: Sequence[RunKey]) -> list[RunSummary | None]:
        """One for each run, None for what is not kept; fewer when a page has no room for more."""
        return await self._ask(lambda db: families.summaries(self.path, db, keys), settle=True)

    async def chain(self, key: RunKey) -> Chain:
        """The runs that continued as each other, this one among them. Raises CorruptRecord."""
        return await self._ask(lambda db: families.chain(self.path, db, key), settle=True)

    async def run(self, key: RunKey) -> Run | None:
        """The aggregate as it is written. Raises CorruptRecord."""
        return await self._ask(lambda db: Aggregates(self.path, db).find(key))

    async def newest(self, workflow: WorkflowKey) -> str | None:
        """The id of the newest run, as it is written."""

        def read(db: sqlite3.Connection) -> str | None:
            found = Aggregates(self.path, db).newest(workflow)
            return found and found[1]

        return await self._ask(read)

    async def signals_of(self, key: RunKey) -> list[Signal]:
        """All of the run's signals, taken or not, in order of arrival. Raises CorruptRecord."""

        def read(db: sqlite3.Connection) -> list[Signal]:
            aggregates = Aggregates(self.path, db)
            run_no = aggregates.run_no(key)
            return [] if run_no is None else aggregates.signals(run_no)

        return await self._ask(read, settle=True)

    async def events(self, key: RunKey, *, start: int = 1, limit: int) -> list[bytes]:
        """Framed records from event ``start`` on, verified. Raises CorruptRecord."""

        def read(db: sqlite3.Connection) -> list[bytes]:
            aggregates = Aggregates(self.path, db)
            run_no = aggregates.run_no(key)
            return [] if run_no is None else aggregates.events(run_no, start, limit)

        return await self._ask(read, settle=True)

    async def audit_log(self, wanted: AuditFilter) -> AuditPage:
        """Raises CorruptRecord."""
        return await self._ask(lambda db: trail.page(self.path, db, wanted), settle=True)

    # ---- duties of a new leader -----------------------------------------------------------------

    async def open_tasks(self, *, after: tuple[int, int] | None, limit: int) -> TaskPage:
        """Decisions and activities that are queued or leased, page by page."""
        return await self._ask(lambda db: duties.open_tasks(self.path, db, after, limit))

    async def timers_due(
        self, horizon_ms: int, *, after: TimerRow | None = None, limit: int
    ) -> list[TimerRow]:
        """Armed timers that fire at or before ``horizon_ms``, the next ones first."""
        return await self._ask(lambda db: duties.timers_due(db, horizon_ms, after, limit))

    async def outbox(self, *, after: int, limit: int) -> MessagePage:
        """Messages that were not delivered, page by page; ``after`` 0 is the first one."""
        return await self._ask(lambda db: duties.outbox(db, after, limit), settle=True)

    async def closed_runs(
        self, bounds: Mapping[str, int], *, after: ClosedRun | None, limit: int
    ) -> list[ClosedRun]:
        """Runs that closed before the bound of their namespace (in ``bounds``, sorted by name), by
        namespace and closing time."""
        return await self._ask(lambda db: duties.closed_runs(db, bounds, after, limit))

    async def outdated_audit(self, before_ms: int, limit: int) -> int:
        """The last of the oldest rows of the audit log that may go; 0 when none may."""
        return await self._ask(lambda db: trail.outdated(db, before_ms, limit))

    async def audit(self, place: audit.Place) -> audit.Slice:
        """Hold a slice of the rows against what must be true of them."""
        return await self._ask(lambda db: audit.look(self.path, db, place))

    # ---- copies ---------------------------------------------------------------------------------

    async def copy_to(self, path: str | os.PathLike[str]) -> copies.Copy:
        """A copy of everything written, durable and hashed when it returns. Raises StoreFull, and
        goes on: only the copy has found no room."""
        await self._usable.wait()
        return await self._read(self._readers.copy(lambda db: copies.make(db, os.fspath(path))))

    async def replace_with(self, path: str, sha256: str, expected: tuple[int, int]) -> AppliedState:
        """Verify a copy, which must be at the (index, term) expected, and put it in the place of
        this store. Raises CopyRefused, after which nothing has changed: also for a copy that is
        older than what was submitted."""
        found = await asyncio.to_thread(copies.verify, path, sha256, expected)
        copies.refuse_older(path, found.index, max(self._submitted_index, self.written.index))
        self._usable.clear()
        await asyncio.to_thread(self._writer.stop)
        await asyncio.to_thread(self._readers.close)
        try:
            await in_thread(copies.swap, path, self.path)
        except OSError as error:
            raise self._fail(copies.swap_failed(self.path, error)) from error
        await self._start()
        log.info("store_replaced", path=self.path, index=self.written.index)
        return self.written

    # ---- inside ---------------------------------------------------------------------------------

    async def _start(self) -> None:
        db = await in_thread(prepare, self.path)
        try:
            self.written = applied_state(db)
            self.catalog = duties.catalog(self.path, db)
        except (sqlite3.Error, TypeError, UnknownValue, CorruptRecord) as error:
            db.close()
            raise not_a_store(self.path, error) from error
        self._submitted_index = self.written.index
        self.checkpointed_index = 0
        self._queued_bytes = 0
        self._writer = Writer(self.path, db, self._settings.times, _Events(self))
        self._readers = Readers(self.path, self._settings.readers)
        self._writer.start()
        self._usable.set()
        # What a crash left in the WAL becomes durable before the log is asked to forget it.
        await self.checkpoint()
        self._wake()

    async def _ask(self, question: Callable[[sqlite3.Connection], T], *, settle: bool = False) -> T:
        await self._usable.wait()
        if settle:
            await self.wait_written(self._submitted_index)
        return await self._read(self._readers.ask(question))

    async def _read(self, reading: Awaitable[T]) -> T:
        try:
            return await reading
        except CorruptRecord as error:
            self._tell_rot(error)
            raise
        except (StoreDamaged, StoreIOError) as error:
            raise self._fail(error) from error

    def _tell_rot(self, error: CorruptRecord) -> None:
        if error.is_rot and self._on_rot is not None:
            self._on_rot(error)

    async def _in_writer(self, job: Callable[[], T]) -> T:
        future: asyncio.Future[T] = self._loop.create_future()

        def run() -> None:
            result = job()
            self._loop.call_soon_threadsafe(_resolve, future, result)

        self._writer.run(run)
        return await future

    def _moved(self, applied: AppliedState | None, size: int, checkpointed: int) -> None:
        """On the loop: a transaction or a checkpoint is done."""
        if applied is not None:
            self.written = applied
            self._queued_bytes -= size
        self.checkpointed_index = max(self.checkpointed_index, checkpointed)
        self._wake()

    def _wake(self) -> None:
        index = self.written.index
        if self._waiters:
            due = [future for at, future in self._waiters if at <= index]
            self._waiters = [waiter for waiter in self._waiters if waiter[0] > index]
            for future in due:
                _resolve(future, None)
            if self._waiters:
                self._writer.hurry()
        if self._room and self.has_room:
            waiting, self._room = self._room, []
            for future in waiting:
                _resolve(future, None)
        for listener in self._listeners:
            listener(index, self.checkpointed_index)

    def _fail(self, error: StoreError) -> StoreError:
        self._on_fatal(error)
        return error


class _Events:
    """Brings what the writer says from its thread to the loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._loop = asyncio.get_running_loop()

    def on_written(self, batch: WriteBatch, _entries: int) -> None:
        self._call(self._store._moved, batch.applied, batch.size, 0)

    def on_checkpointed(self, index: int) -> None:
        self._call(self._store._moved, None, 0, index)

    def on_fatal(self, error: StoreError) -> None:
        self._call(self._store._fail, error)

    def _call(self, function: Callable[..., object], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:  # the loop is closed: nobody is left to be told
            log.warning("store_event_dropped", path=self._store.path)


def _resolve(future: asyncio.Future[T], result: T) -> None:
    if not future.done():
        future.set_result(result)
