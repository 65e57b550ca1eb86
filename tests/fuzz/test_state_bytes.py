"""Whatever rows and pages a store holds: it says so in the documented ways, and never lies."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import sqlite3
from collections.abc import Awaitable, Coroutine
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from accepted import COPY, STATE
from hypothesis import given
from hypothesis import strategies as st
from mutations import bent, fuzzed
from replica_rig import PROMPT, Rig, play
from strategies import random_wishes

from raftflow.cluster.store import Store
from raftflow.cluster.store.audit import Place
from raftflow.cluster.store.errors import StoreError, StoreFull
from raftflow.cluster.store.records import frame, unframe
from raftflow.cluster.store.views import RunFilter
from raftflow.engine.ids import RunKey, WorkflowKey

RECORDS = ("runs", "events", "steps", "signals", "namespaces", "requests", "arrivals", "outbox")
COLUMNS = {
    "runs": ("status", "phase", "closed_ms", "history_length", "decision_state", "run_id"),
    "steps": ("task_state",),
    "signals": ("taken",),
    "timers": ("kind", "sequence", "fire_at_ms", "run_no"),
    "outbox": ("target_workflow_id", "starts"),
    "applied": ("log_index", "log_term", "time_ms", "next_run_no"),
    "counters": ("runs", "phase"),
    "attributes": ("value", "is_text"),
    "requests": ("expires_ms",),
}
STRANGE: st.SearchStrategy[Any] = st.one_of(
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.sampled_from([0, 1, 2, 7, 99, -1, "", "x", b"", b"\xff\xfe", 1.5]),
    st.text(max_size=5),
)


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with rows of each kind, whole in its file."""
    folder = tmp_path_factory.mktemp("healthy")

    async def make() -> None:
        _, entries = play(random_wishes(5, 150, crowded=True))
        rig = await Rig(folder).start()
        await rig.feed(entries)
        await rig.stop()

    asyncio.run(make())
    db = sqlite3.connect(folder / "state.db")
    db.execute("PRAGMA journal_mode = DELETE")
    db.close()
    return folder / "state.db"


def within_reason(reading: Coroutine[Any, Any, None]) -> None:
    """Whatever is wrong with a store, nobody waits for ever."""
    asyncio.run(asyncio.wait_for(reading, 60))


async def quietly(reading: Awaitable[object]) -> object:
    try:
        return await reading
    except StoreFull:
        raise
    except STATE:
        return None


async def read_all(path: Path) -> None:
    """Everything that a node reads of its store, and the audit."""
    fatal: list[StoreError] = []
    try:
        store = await Store.open(path, settings=PROMPT, on_fatal=fatal.append)
    except STATE:
        return
    keys = [("default", f"w{n}") for n in range(6)]
    for namespace, workflow_id in keys:
        workflow = WorkflowKey(namespace, workflow_id)
        run_id = await quietly(store.newest(workflow))
        await quietly(store.load([workflow], [], [(namespace, "q1")]))
        await quietly(store.run_ids_of(workflow))
        if isinstance(run_id, str):
            key = RunKey(namespace, workflow_id, run_id)
            await quietly(store.run(key))
            await quietly(store.events(key, limit=100))
            await quietly(store.signals_of(key))
    await quietly(store.list_runs(RunFilter(namespace="default")))
    await quietly(store.counts(RunFilter(namespace="default")))
    await quietly(store.open_tasks(after=None, limit=100))
    await quietly(store.timers_due(1 << 62, limit=100))
    await quietly(store.outbox(after=0, limit=100))
    await quietly(store.closed_runs({"default": 1 << 62}, after=None, limit=100))
    place: Place | None = Place()
    while place is not None:
        part = await quietly(store.audit(place))
        place = getattr(part, "following", None)
    assert all(isinstance(each, STATE) for each in fatal), fatal
    await store.close()


def spoil(db: sqlite3.Connection, data: st.DataObject) -> None:
    """Other bytes in a record, their checksum right or not, or another value in a column."""
    if data.draw(st.booleans()):
        table = data.draw(st.sampled_from(RECORDS))
        found = db.execute(f"SELECT record FROM {table}").fetchall()
        if not found:
            return
        row = data.draw(st.integers(0, len(found) - 1))
        corpus = [bytes(record) for (record,) in found[:40]]
        record: Any = found[row][0]
        match data.draw(st.integers(0, 2)):
            case 0:
                record = data.draw(bent([record, *corpus]))
            case 1:
                record = frame(data.draw(bent([unframe(each) for each in [record, *corpus]])))
            case _:
                record = data.draw(STRANGE)
        column, value = "record", record
    else:
        table = data.draw(st.sampled_from(sorted(COLUMNS)))
        column = data.draw(st.sampled_from(COLUMNS[table]))
        count = db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        if not count:
            return
        row, value = data.draw(st.integers(0, count - 1)), data.draw(STRANGE)
    keys = [each[1] for each in db.execute(f"PRAGMA table_info({table})") if each[5]]
    where = db.execute(f"SELECT {','.join(keys)} FROM {table} LIMIT 1 OFFSET {row}").fetchone()
    matching = " AND ".join(f"{key} = ?" for key in keys)
    try:
        db.execute(f"UPDATE {table} SET {column} = ? WHERE {matching}", (value, *where))
    except (sqlite3.IntegrityError, OverflowError, UnicodeEncodeError):
        pass


@fuzzed()
@given(data=st.data())
def test_spoiled_rows_are_told_in_the_documented_ways(healthy: Path, data: st.DataObject) -> None:
    with TemporaryDirectory() as name:
        path = Path(name) / "state.db"
        shutil.copy(healthy, path)
        db = sqlite3.connect(path)
        for _ in range(data.draw(st.integers(1, 4))):
            spoil(db, data)
        db.commit()
        db.close()
        within_reason(read_all(path))


@fuzzed()
@given(data=st.data())
def test_bent_pages_are_told_in_the_documented_ways(healthy: Path, data: st.DataObject) -> None:
    content = healthy.read_bytes()
    with TemporaryDirectory() as name:
        path = Path(name) / "state.db"
        path.write_bytes(data.draw(bent([content])))
        within_reason(read_all(path))


@fuzzed(share=2)
@given(data=st.data())
def test_damaged_and_hostile_copies_change_nothing(healthy: Path, data: st.DataObject) -> None:
    """With a hash that is not theirs they are refused; with one that is, they are as good or as bad
    as a state found at the start."""
    content = healthy.read_bytes()
    sent = data.draw(bent([content]))
    hostile = data.draw(st.booleans())
    announced = hashlib.sha256(sent if hostile else content).hexdigest()
    with TemporaryDirectory() as name:
        within_reason(install(Path(name), healthy, sent, announced, same=sent == content))


async def install(folder: Path, healthy: Path, sent: bytes, sha256: str, *, same: bool) -> None:
    fatal: list[StoreError] = []
    store = await Store.open(folder / "state.db", settings=PROMPT, on_fatal=fatal.append)
    part = folder / "part"
    part.write_bytes(sent)
    db = sqlite3.connect(f"file:{healthy}?immutable=1", uri=True)
    expected = db.execute("SELECT log_index, log_term FROM applied").fetchone()
    db.close()
    refused = hashlib.sha256(sent).hexdigest() != sha256
    try:
        await store.replace_with(str(part), sha256, expected)
    except COPY:
        assert store.written_index == 0
        assert await store.run_ids_of(WorkflowKey("default", "w0")) == []
        await store.close()
        return
    except STATE:
        assert not refused
        return  # it was swapped in and does not open: the node stops, and says so
    assert same or not refused
    await store.close()
    await read_all(folder / "state.db")
