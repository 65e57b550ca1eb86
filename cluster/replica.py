"""The replica: committed entries in, state out. The same on every node.

Entries are decoded as they arrive; the keys they touch that are cold are loaded from the store in
one job for all that wait; each entry is applied to the hot set on the event loop, in slices that
leave it free. What changed is encoded once: the store writes it behind, and the digest rolls over
it. Backpressure goes one way: a store that lags holds apply up, and apply the log.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn, Protocol

import structlog

from raftflow.cluster.background import end, spawn
from raftflow.cluster.codec.commands import decode_entry
from raftflow.cluster.consensus.types import SnapshotManifest
from raftflow.cluster.digest_ring import DigestRing
from raftflow.cluster.store import AppliedState, Copy, CopyRefused, RowEncoder, Store
from raftflow.cluster.working_set import DEFAULT_BOUNDS, CacheBounds, HotSet, Key, Wanted, keys_of
from raftflow.engine.apply import Applied, apply, touched_keys
from raftflow.engine.commands import Batch
from raftflow.engine.digest import roll
from raftflow.engine.ids import RunKey, WorkflowKey
from raftflow.engine.state import Catalog, Changes, Run
from raftflow.raftlog.journal import LogEntry

log = structlog.get_logger("raftflow.replica")

# How far ahead entries are decoded, so that their cold keys are loaded together.
_AHEAD_ENTRIES = 256
_AHEAD_BYTES = 8 << 20
_SLICE_S = 0.004
_COPY = "copy-"  # and its number: the directory of a copy that is being read
# Commands applied without a pause. Each piece rolls the digest once, so that all nodes must agree.
PIECE_COMMANDS = 64

Subscriber = Callable[[Applied, Batch], None]


class Consensus(Protocol):
    """What the replica asks of the layer below."""

    def compact(self, index: int) -> None: ...

    def fatal(self, error: BaseException) -> NoReturn: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSettings:
    """``snapshots`` is a directory of this replica's own: what it holds at start is removed."""

    snapshots: Path
    log_tail_entries: int = 10_000
    cache: CacheBounds = DEFAULT_BOUNDS


@dataclass(slots=True)
class _Queued:
    entry: LogEntry
    batch: Batch
    keys: tuple[Key, ...]


class Replica:
    """Owned by one event loop."""

    def __init__(self, *, store: Store, settings: ReplicaSettings) -> None:
        self._store = store
        self._settings = settings
        self._consensus: Consensus | None = None
        self._subscribers: list[Subscriber] = []
        self._incoming: deque[LogEntry] = deque()
        self._queue: deque[_Queued] = deque()
        self._queued_bytes = 0
        self._wake = asyncio.Event()
        self._turn = asyncio.Lock()  # held while entries are applied, or a copy is swapped in
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None
        self._load: asyncio.Task[None] | None = None
        self._filling: asyncio.Task[None] | None = None
        self._compacted_index = 0
        self._checkpointed_at = time.monotonic()
        self.digests = DigestRing()
        self._copies: dict[str, Path] = {}
        self._copy_number = 0
        self._hot = HotSet(store.catalog, settings.cache)
        self.applied = store.written
        self.digests.restart(self.applied.index, self.applied.digest)
        shutil.rmtree(settings.snapshots, ignore_errors=True)
        store.on_progress(self._on_progress)

    def attach(self, consensus: Consensus) -> None:
        """Begin to apply."""
        self._consensus = consensus
        self._task = asyncio.create_task(self._run(), name="replica")
        self._fill_sieve()

    async def stop(self) -> None:
        """Apply no more. What was applied is with the store."""
        for task in (self._task, self._load, self._filling):
            await end(task)
        self._task = self._load = self._filling = None

    # ---- what others see ------------------------------------------------------------------------

    @property
    def applied_index(self) -> int:
        return self.applied.index

    @property
    def applied_term(self) -> int:
        return self.applied.term

    @property
    def time_ms(self) -> int:
        """Log time of the last entry applied."""
        return self.applied.time_ms

    @property
    def digest(self) -> bytes:
        return self.applied.digest

    @property
    def catalog(self) -> Catalog:
        return self._hot.state.catalog

    @property
    def snapshot_index(self) -> int:
        """What the state on disk surely holds: it is this node's snapshot."""
        return self._store.checkpointed_index

    @property
    def snapshot_age_seconds(self) -> float:
        return time.monotonic() - self._checkpointed_at

    @property
    def hot_runs(self) -> int:
        return len(self._hot)

    def subscribe(self, listener: Subscriber) -> None:
        """``listener(applied, batch)`` is called after each entry, in the order of subscribing."""
        self._subscribers.append(listener)

    async def wait_applied(self, index: int, *, timeout_ms: int) -> None:
        """Raises TimeoutError."""
        if self.applied.index >= index:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((index, future))
        async with asyncio.timeout(timeout_ms / 1_000):
            await future

    async def written(self, index: int) -> None:
        """Wait until the store has written what was applied up to ``index``."""
        await self._store.wait_written(index)

    def hot_run(self, key: RunKey) -> Run | None:
        """The live aggregate, when it is in memory: to be read before the next await."""
        return self._hot.state.runs.get(key)

    def hot_newest(self, workflow: WorkflowKey) -> Run | None:
        """The same for the id's newest run."""
        run_id = self._hot.state.current.get(workflow)
        return None if run_id is None else self.hot_run(RunKey(*workflow, run_id))

    async def run_view(self, namespace: str, workflow_id: str, run_id: str = "") -> Run | None:
        """The run, or the id's newest; at least as new as all that was applied before the call.
        To be read before the next await. Raises CorruptRecord."""
        hot, workflow = self._hot, WorkflowKey(namespace, workflow_id)
        run_id = run_id or hot.state.current.get(workflow, "")
        if not run_id and not hot.is_gone(workflow):
            # Only which one: the run itself may be hot, and newer than what is written of it.
            run_id = await self._store.newest(workflow) or ""
        key = RunKey(namespace, workflow_id, run_id)
        if not run_id or hot.is_gone(key):
            return None
        if key in hot.damaged:
            raise hot.damaged[key]
        # Whatever is not hot is written: nothing newer exists.
        return hot.state.runs.get(key) or await self._store.run(key)

    # ---- entries --------------------------------------------------------------------------------

    def on_apply(self, entries: Sequence[LogEntry]) -> None:
        """Committed, in order, each once. Only taken in here."""
        self._incoming.extend(entries)
        self._wake.set()

    async def _run(self) -> None:
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                async with self._turn:
                    await self._work()
        except Exception as error:  # noqa: BLE001  state that may be wrong is never served
            self._fatal(error)

    async def _work(self) -> None:
        """Apply what can be applied; returns when it has to wait for a load, room or entries."""
        while True:
            self._take_in()
            self._start_load()
            until = time.perf_counter() + _SLICE_S
            while self._queue and time.perf_counter() < until:
                if not (self._hot.ready(self._queue[0].keys) and self._store.has_room):
                    return
                await self._apply(self._queue.popleft())
            self._hot.evict(self._store.written_index)
            if not self._queue and not self._incoming:
                return
            await asyncio.sleep(0)

    def _take_in(self) -> None:
        """Decode what arrived, a bounded way ahead of apply."""
        until = time.perf_counter() + _SLICE_S
        while self._incoming and len(self._queue) < _AHEAD_ENTRIES:
            if self._queue and (self._queued_bytes > _AHEAD_BYTES or time.perf_counter() > until):
                return
            entry = self._incoming.popleft()
            batch = decode_entry(entry.index, entry.term, entry.payload)
            keys = keys_of([touched_keys(command) for _, command in batch.commands])
            self._hot.pin(keys)
            self._queued_bytes += len(entry.payload)
            self._queue.append(_Queued(entry, batch, keys))

    def _start_load(self) -> None:
        wanted = self._hot.begin_load()
        if wanted is not None:
            self._load = asyncio.create_task(self._load_cold(self._hot, wanted), name="load-cold")

    def _fill_sieve(self) -> None:
        """Learn, in the background, which request ids the store holds already."""

        async def fill(hot: HotSet) -> None:
            hot.sieve.fill(await self._store.request_bits())

        if self._filling is not None:
            self._filling.cancel()
        self._filling = spawn(fill(self._hot), name="fill-sieve", fatal=self._fatal)

    async def _load_cold(self, hot: HotSet, wanted: Wanted) -> None:
        try:
            loaded = await self._store.load(wanted.workflows, wanted.runs, wanted.requests)
        except Exception as error:  # noqa: BLE001  without it the node cannot go on
            self._fatal(error)
        for key, problem in loaded.damaged.items():
            log.error("run_damaged", workflow_id=key.workflow_id, run_id=key.run_id, why=problem)
        hot.finish_load(wanted, loaded)
        self._wake.set()

    async def _apply(self, queued: _Queued) -> None:
        batch, before = queued.batch, self.applied
        assert batch.index == before.index + 1, (batch.index, before.index)
        if batch.time_ms < before.time_ms:  # log time never goes back; a no-op has none
            batch = replace(batch, time_ms=before.time_ms)
        encoder = RowEncoder()
        if len(batch.commands) <= PIECE_COMMANDS:
            applied, after = self._apply_piece(batch, before, encoder)
        else:
            applied, after = await self._apply_pieces(batch, before, encoder)
        self._hot.unpin(queued.keys)
        self._queued_bytes -= len(queued.entry.payload)
        self.applied = after
        self.digests.add(after.digest, encoder.parts)
        self._store.submit(encoder.close(after))
        for listener in self._subscribers:
            listener(applied, batch)
        self._wake_waiters()

    def _apply_piece(
        self, batch: Batch, before: AppliedState, encoder: RowEncoder
    ) -> tuple[Applied, AppliedState]:
        hot = self._hot
        applied = apply(hot.state, batch)
        changes = applied.changes
        numbers = hot.number(changes, before.next_run_no)
        rows = encoder.add(changes, numbers)
        hot.changed(changes, numbers, batch.index)
        return applied, AppliedState(
            batch.index,
            batch.term,
            batch.time_ms,
            roll(before.digest, batch.index, (b"".join(rows),)),  # each is framed
            before.next_run_no + len(numbers.opened),
        )

    async def _apply_pieces(
        self, batch: Batch, before: AppliedState, encoder: RowEncoder
    ) -> tuple[Applied, AppliedState]:
        """A large entry, with pauses. Readers may see its first part before its index is applied:
        it is committed all the same."""
        parts: list[Applied] = []
        changes = Changes()  # as much as subscribers look at
        state = before
        for start in range(0, len(batch.commands), PIECE_COMMANDS):
            commands = batch.commands[start : start + PIECE_COMMANDS]
            piece = replace(batch, commands=commands, first=start)
            applied, state = self._apply_piece(piece, state, encoder)
            parts.append(applied)
            changes.runs.update(applied.changes.runs)
            changes.steps.update(applied.changes.steps)
            changes.deleted.update(applied.changes.deleted)
            await asyncio.sleep(0)
        replies = tuple([reply for part in parts for reply in part.replies])
        effects = tuple([effect for part in parts for effect in part.effects])
        return Applied(replies, effects, changes), state

    def _wake_waiters(self) -> None:
        if not self._waiters:
            return
        index = self.applied.index
        due = [future for at, future in self._waiters if at <= index]
        self._waiters = [waiter for waiter in self._waiters if waiter[0] > index]
        for future in due:
            if not future.done():
                future.set_result(None)

    # ---- the store ------------------------------------------------------------------------------

    def _on_progress(self, _written: int, checkpointed: int) -> None:
        self._wake.set()
        if checkpointed > self._compacted_index:
            self._compacted_index = checkpointed
            self._checkpointed_at = time.monotonic()
            bound = checkpointed - self._settings.log_tail_entries
            if bound > 0 and self._consensus is not None:
                self._consensus.compact(bound)

    def _fatal(self, error: BaseException) -> NoReturn:
        assert self._consensus is not None
        self._consensus.fatal(error)

    # ---- snapshots (SnapshotStore) --------------------------------------------------------------

    async def make_copy(self) -> tuple[str, SnapshotManifest]:
        """A copy of the store, durable and hashed, for another node."""
        copy = await self.copy_of_state()
        applied, folder = copy.applied, Path(copy.path).parent
        snapshot_id = f"{applied.index}-{applied.term}-{folder.name.removeprefix(_COPY)}"
        self._copies[snapshot_id] = folder
        return copy.path, SnapshotManifest(
            index=applied.index,
            term=applied.term,
            size=copy.size,
            sha256=copy.sha256,
            snapshot_id=snapshot_id,
        )

    async def copy_of_state(self) -> Copy:
        """The same, in a directory of its own that is the caller's. Raises StoreError."""
        self._copy_number += 1
        folder = self._settings.snapshots / f"{_COPY}{self._copy_number}"
        folder.mkdir(parents=True)
        try:
            return await self._store.copy_to(folder / "state.db")
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def release(self, snapshot_id: str) -> None:
        """Nobody needs this copy any more."""
        folder = self._copies.pop(snapshot_id, None)
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    async def install(self, path: str, manifest: SnapshotManifest) -> None:
        """Replace the state by a copy that is newer. Raises CopyRefused, and then keeps what it
        has."""
        async with self._turn:
            if self._load is not None:
                await asyncio.gather(self._load, return_exceptions=True)
            if manifest.index <= self.applied.index:
                raise CopyRefused(
                    os.fspath(path),
                    f"it ends at index {manifest.index}, this node is at {self.applied.index}",
                    "nothing needs to be done: an older copy never replaces a newer state",
                )
            expected = (manifest.index, manifest.term)
            self.applied = await self._store.replace_with(path, manifest.sha256, expected)
            self._hot = HotSet(self._store.catalog, self._settings.cache)
            self._fill_sieve()
            waiting = [queued.entry for queued in self._queue]
            self._queue.clear()
            self.digests.restart(self.applied.index, self.applied.digest)
            self._queued_bytes = 0
            self._incoming = deque(
                entry for entry in (*waiting, *self._incoming) if entry.index > manifest.index
            )
        self._wake_waiters()
        self._wake.set()
