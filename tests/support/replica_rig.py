"""A replica on a real store, fed by a log in memory that stands in for consensus."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from engine_harness import EngineHarness
from strategies import Player, Wish

from raftflow.cluster.codec import encode_command, encode_entry
from raftflow.cluster.replica import Replica, ReplicaSettings
from raftflow.cluster.store import Store, StoreSettings, WriterTimes
from raftflow.cluster.working_set import DEFAULT_BOUNDS, CacheBounds
from raftflow.engine.commands import Command
from raftflow.engine.limits import DEFAULT_LIMITS
from raftflow.raftlog.journal import LogEntry

PROMPT = StoreSettings(times=WriterTimes(linger_ms=0))
TINY_CACHE = CacheBounds(runs=1, run_bytes=1, requests=1)


class FakeConsensus:
    """Remembers what it was told; a fatal error is raised where it happens."""

    def __init__(self) -> None:
        self.compacted: list[int] = []
        self.errors: list[BaseException] = []

    def compact(self, index: int) -> None:
        self.compacted.append(index)

    def fatal(self, error: BaseException) -> NoReturn:
        self.errors.append(error)
        raise error


def entry(index: int, commands: Sequence[Command], time_ms: int, *, term: int = 1) -> LogEntry:
    encoded = [encode_command(f"c{n}", command) for n, command in enumerate(commands)]
    payload = encode_entry(encoded, time_ms=time_ms, term=term, node="n1", limits=DEFAULT_LIMITS)
    return LogEntry(index, term, payload)


def play(wishes: Sequence[Wish]) -> tuple[EngineHarness, list[LogEntry]]:
    """What the engine alone makes of the wishes, and the log that brought it there. A no-op stands
    at the front, as after an election."""
    harness = EngineHarness()
    player = Player(harness)
    player.begin()
    for wish in wishes:
        player.play(wish)
    entries = [LogEntry(1, 1, b"")]
    time_ms = 1_000_000
    for advance_ms, commands in player.batches:
        time_ms += advance_ms
        entries.append(entry(len(entries) + 1, commands, time_ms))
    return harness, entries


class Rig:
    """One node's replica; `restart` opens it again on the same file."""

    def __init__(
        self,
        folder: Path,
        *,
        settings: StoreSettings = PROMPT,
        cache: CacheBounds = DEFAULT_BOUNDS,
        log_tail_entries: int = 10,
    ) -> None:
        self.folder = folder
        self.settings = settings
        self.cache = cache
        self.tail = log_tail_entries
        self.consensus = FakeConsensus()

    async def start(self) -> Rig:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.store = await Store.open(
            self.folder / "state.db", settings=self.settings, on_fatal=self.consensus.errors.append
        )
        settings = ReplicaSettings(
            snapshots=self.folder / "copies", log_tail_entries=self.tail, cache=self.cache
        )
        self.replica = Replica(store=self.store, settings=settings)
        self.replica.attach(self.consensus)
        return self

    async def feed(self, entries: Sequence[LogEntry]) -> None:
        """Hand over what the replica has not applied, and wait until it has."""
        todo = [each for each in entries if each.index > self.replica.applied_index]
        if todo:
            self.replica.on_apply(todo)
            await self.replica.wait_applied(todo[-1].index, timeout_ms=30_000)

    async def settle(self) -> None:
        await self.replica.written(self.replica.applied_index)

    async def crash(self) -> None:
        """Stop in the middle: what the store has not written is gone."""
        await self.replica.stop()
        await self.store.abandon()

    async def stop(self) -> None:
        await self.replica.stop()
        await self.store.close()


TABLES = (
    "applied",
    "runs",
    "events",
    "steps",
    "signals",
    "timers",
    "namespaces",
    "types",
    "tokens",
    "audit_log",
    "arrivals",
    "outbox",
    "attributes",
    "memos",
    "counters",
)


def dump(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Every row of the file that is part of the state. Counters at zero are as good as absent."""
    db = sqlite3.connect(path)
    try:
        rows = {table: sorted(db.execute(f"SELECT * FROM {table}")) for table in TABLES}
    finally:
        db.close()
    rows["counters"] = [row for row in rows["counters"] if row[-1]]
    return rows
