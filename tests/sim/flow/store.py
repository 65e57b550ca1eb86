"""One node's store and replica: the product's rows, statements and working set, without threads.

What was written is on the disk: it survives the process. What was applied since is gone with it,
and comes back from the log. A copy of the file is what another node installs.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from raftflow.cluster.codec.commands import decode_entry
from raftflow.cluster.store import (
    AppliedState,
    ClosedRun,
    MessagePage,
    RowEncoder,
    TaskPage,
    WriteBatch,
    audit,
    duties,
    lists,
)
from raftflow.cluster.store.aggregates import Aggregates
from raftflow.cluster.store.audit import Finding, Place, Slice
from raftflow.cluster.store.connection import build
from raftflow.cluster.store.readers import applied_state
from raftflow.cluster.store.store import MAX_RUNS_OF_ONE_ID
from raftflow.cluster.store.views import RunFilter, RunPage, RunSummary
from raftflow.cluster.store.writer import _write_rows
from raftflow.cluster.working_set import CacheBounds, HotSet, keys_of
from raftflow.engine.apply import Applied, apply, touched_keys
from raftflow.engine.commands import Batch
from raftflow.engine.digest import roll
from raftflow.engine.ids import RunKey, WorkflowKey
from raftflow.engine.state import Catalog, Run, Signal, TimerRow
from raftflow.raftlog.journal import LogEntry

PATH = "state.db"

Subscriber = Callable[[Applied, Batch], None]
Hold = Callable[[], float]  # how long a question to the store takes


def blank() -> bytes:
    """The file of a store in which nothing was written."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    build(db, 0)
    return db.serialize()


BLANK = blank()


class Disk:
    """state.db."""

    def __init__(self) -> None:
        self.db = sqlite3.connect(":memory:", isolation_level=None)
        self.install(BLANK)

    def install(self, file: bytes) -> None:
        self.db.close()
        self.db = sqlite3.connect(":memory:", isolation_level=None)
        self.db.deserialize(file)
        self.db.execute("PRAGMA foreign_keys")  # the first statement reads the file
        self.written = applied_state(self.db)

    def write(self, batch: WriteBatch) -> None:
        self.db.execute("BEGIN")
        _write_rows(self.db, batch)
        self.db.execute("COMMIT")
        self.written = batch.applied

    def copy(self) -> bytes:
        return self.db.serialize()


class SimStore:
    """The questions that a leader asks, each answered a little later."""

    def __init__(self, disk: Disk, settle: Callable[[], None], hold: Hold) -> None:
        self._disk = disk
        self._settle = settle
        self._hold = hold

    async def open_tasks(self, *, after: tuple[int, int] | None, limit: int) -> TaskPage:
        await asyncio.sleep(self._hold())
        return duties.open_tasks(PATH, self._disk.db, after, limit)

    async def timers_due(
        self, horizon_ms: int, *, after: TimerRow | None = None, limit: int
    ) -> list[TimerRow]:
        await asyncio.sleep(self._hold())
        return duties.timers_due(self._disk.db, horizon_ms, after, limit)

    async def outbox(self, *, after: int, limit: int) -> MessagePage:
        await asyncio.sleep(self._hold())
        self._settle()
        return duties.outbox(self._disk.db, after, limit)

    async def closed_runs(
        self, bounds: Mapping[str, int], *, after: ClosedRun | None, limit: int
    ) -> list[ClosedRun]:
        await asyncio.sleep(self._hold())
        return duties.closed_runs(self._disk.db, bounds, after, limit)

    async def oldest_request_ms(self) -> int | None:
        await asyncio.sleep(self._hold())
        return duties.oldest_request_ms(self._disk.db)

    # ---- what handlers ask -----------------------------------------------------------------------

    async def list_runs(self, wanted: RunFilter) -> RunPage:
        db = await self._settled()
        return lists.list_runs(db, wanted, applied_state(db).index)

    async def runs_of(
        self, workflow: WorkflowKey, cursor: str = ""
    ) -> tuple[list[RunSummary], str]:
        return lists.runs_of(await self._settled(), workflow, cursor, MAX_RUNS_OF_ONE_ID)

    async def run_ids_of(self, workflow: WorkflowKey) -> list[str]:
        return lists.run_ids_of(await self._settled(), workflow)

    async def signals_of(self, key: RunKey) -> list[Signal]:
        aggregates = Aggregates(PATH, await self._settled())
        run_no = aggregates.run_no(key)
        return [] if run_no is None else aggregates.signals(run_no)

    async def events(self, key: RunKey, *, start: int = 1, limit: int) -> list[bytes]:
        aggregates = Aggregates(PATH, await self._settled())
        run_no = aggregates.run_no(key)
        return [] if run_no is None else aggregates.events(run_no, start, limit)

    async def audit(self, place: Place) -> Slice:
        return audit.look(PATH, await self._settled(), place)

    async def _settled(self) -> sqlite3.Connection:
        await asyncio.sleep(self._hold())
        self._settle()
        return self._disk.db


class SimReplica:
    """Applies entries, as the replica does: loads what is cold, applies, numbers, encodes, rolls
    the digest. `settle` writes all that waits."""

    def __init__(self, disk: Disk, bounds: CacheBounds) -> None:
        self.disk = disk
        self._bounds = bounds
        self._subscribers: list[Subscriber] = []
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self.wake()

    def wake(self) -> None:
        """Begin with what is on the disk: after a start, or when a copy was installed."""
        self.hot = HotSet(duties.catalog(PATH, self.disk.db), self._bounds)
        self.hot.sieve.fill(duties.request_bits(self.disk.db))
        self.applied = self.disk.written
        self.unwritten: WriteBatch | None = None

    def settle(self) -> None:
        if self.unwritten is not None:
            self.disk.write(self.unwritten)
            self.unwritten = None

    def subscribe(self, listener: Subscriber) -> None:
        self._subscribers.append(listener)

    # ---- what the other parts ask ----------------------------------------------------------------

    @property
    def applied_index(self) -> int:
        return self.applied.index

    @property
    def time_ms(self) -> int:
        return self.applied.time_ms

    @property
    def catalog(self) -> Catalog:
        return self.hot.state.catalog

    def hot_run(self, key: RunKey) -> Run | None:
        return self.hot.state.runs.get(key)

    def hot_newest(self, workflow: WorkflowKey) -> Run | None:
        run_id = self.hot.state.current.get(workflow)
        return None if run_id is None else self.hot_run(RunKey(*workflow, run_id))

    async def written(self, index: int) -> None:
        await asyncio.sleep(0.002)
        assert self.applied.index >= index
        self.settle()

    async def wait_applied(self, index: int, *, timeout_ms: int) -> None:
        if self.applied.index >= index:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((index, future))
        async with asyncio.timeout(timeout_ms / 1_000):
            await future

    async def run_view(self, namespace: str, workflow_id: str, run_id: str = "") -> Run | None:
        self.settle()
        aggregates, workflow = Aggregates(PATH, self.disk.db), WorkflowKey(namespace, workflow_id)
        newest = aggregates.newest(workflow)
        run_id = run_id or (newest[1] if newest else "")
        return next(iter(self.runs([RunKey(*workflow, run_id)])), None)

    # ---- entries ---------------------------------------------------------------------------------

    def apply(self, entry: LogEntry) -> tuple[Applied, Batch]:
        batch, before, hot = (
            decode_entry(entry.index, entry.term, entry.payload),
            self.applied,
            self.hot,
        )
        assert batch.index == before.index + 1, (batch.index, before.index)
        if batch.time_ms < before.time_ms:
            batch = replace(batch, time_ms=before.time_ms)
        keys = keys_of([touched_keys(command) for _, command in batch.commands])
        hot.pin(keys)
        wanted = hot.begin_load()
        if wanted is not None:
            aggregates = Aggregates(PATH, self.disk.db)
            loaded = aggregates.load(wanted.workflows, wanted.runs, wanted.requests)
            assert not loaded.damaged, loaded.damaged
            hot.finish_load(wanted, loaded)
        applied = apply(hot.state, batch)
        encoder = RowEncoder()
        numbers = hot.number(applied.changes, before.next_run_no)
        rows = encoder.add(applied.changes, numbers)
        hot.changed(applied.changes, numbers, batch.index)
        hot.unpin(keys)
        self.applied = AppliedState(
            batch.index,
            batch.term,
            batch.time_ms,
            roll(before.digest, batch.index, (b"".join(rows),)),
            before.next_run_no + len(numbers.opened),
        )
        written = encoder.close(self.applied)
        if self.unwritten is None:
            self.unwritten = written
        else:
            self.unwritten.merge(written)
        return applied, batch

    def tell(self, applied: Applied, batch: Batch) -> None:
        for listener in self._subscribers:
            listener(applied, batch)
        for at, future in self._waiters:
            if at <= batch.index and not future.done():
                future.set_result(None)
        self._waiters = [waiter for waiter in self._waiters if waiter[0] > batch.index]
        self.hot.evict(self.disk.written.index)

    def runs(self, keys: Iterable[RunKey]) -> list[Run]:
        """Those of the runs that are kept, hot or not."""
        self.settle()
        aggregates = Aggregates(PATH, self.disk.db)
        found = [self.hot_run(key) or aggregates.find(key) for key in keys]
        return [run for run in found if run is not None]

    def findings(self) -> list[Finding]:
        """What the walk that every node makes in the background finds."""
        self.settle()
        found: list[Finding] = []
        place: Place | None = Place()
        while place is not None:
            seen = audit.look(PATH, self.disk.db, place)
            found += seen.findings
            place = seen.following
        return found

    # ---- the whole state, from its rows alone ----------------------------------------------------

    def all_runs(self) -> dict[RunKey, Run]:
        """Every run as its rows tell it."""
        self.settle()
        aggregates = Aggregates(PATH, self.disk.db)
        found = self.disk.db.execute("SELECT run_no FROM runs ORDER BY run_no").fetchall()
        runs = [aggregates.run(run_no) for (run_no,) in found]
        return {run.key: run for run in runs}
