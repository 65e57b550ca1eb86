"""Opening, writing behind, checkpoints, and what disks do."""

from __future__ import annotations

import asyncio
import dataclasses
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import engine_harness as make
import pytest
from eventually import eventually
from populate import apply, child, decide, populate, terminate, view
from replica_rig import TINY_CACHE, Rig, dump, entry

from raftflow.cluster.store import (
    AppliedState,
    CorruptRecord,
    RowEncoder,
    RunFilter,
    Store,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreSettings,
    StoreTooNew,
    WriteBatch,
    WriterTimes,
    aggregates,
)
from raftflow.cluster.store.records import unframe
from raftflow.engine.commands import IdReusePolicy, RegisterTypes, StartTimer
from raftflow.engine.events import Event, SignalReceived, TimerFired
from raftflow.engine.ids import RunKey, WorkflowKey
from raftflow.engine.state import Changes, ReportChild, Run, RunStatus

NEVER = StoreSettings(times=WriterTimes(linger_ms=0, checkpoint_every_ms=10_000_000))
KEY = RunKey("default", "order", "run-order")
ALLOW = IdReusePolicy.ALLOW_DUPLICATE
GOLDEN = Path(__file__).resolve().parent.parent.parent / "golden"


def state(index: int) -> AppliedState:
    return AppliedState(index, 1, index, bytes(16), 1)


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def damage_pages(path: Path) -> None:
    """Overwrite the header of every page of the runs and their indexes."""
    db = sqlite3.connect(path)
    roots = db.execute("SELECT rootpage FROM sqlite_schema WHERE tbl_name = 'runs'").fetchall()
    db.close()
    content = bytearray(path.read_bytes())
    for (root,) in roots:
        if root:
            content[(root - 1) * 4096 : (root - 1) * 4096 + 64] = b"\xee" * 64
    path.write_bytes(content)


def execute(path: Path, sql: str) -> None:
    db = sqlite3.connect(path)
    with db:
        db.execute(sql)
    db.close()


async def test_a_new_store_is_at_zero_and_opens_again(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    for _ in range(2):
        store = await Store.open(path)
        assert (store.written.index, store.written.next_run_no) == (0, 1)
        assert list(store.catalog.namespaces) == ["default"]
        await store.close()
    assert names(tmp_path) == ["state.db"]


async def test_what_waits_becomes_one_transaction_in_order(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "state.db", settings=NEVER)
    seen: list[int] = []
    store.on_progress(lambda written, _checkpointed: seen.append(written))
    for index in range(1, 101):
        store.submit(WriteBatch(state(index)))
    await store.wait_written(100)
    assert store.written_index == 100
    assert seen == sorted(seen)
    assert len(seen) < 100
    await store.close()


async def test_a_lone_batch_waits_for_company_unless_someone_waits_for_it(
    tmp_path: Path,
) -> None:
    patient = StoreSettings(times=WriterTimes(linger_ms=60_000))
    store = await Store.open(tmp_path / "state.db", settings=patient)
    store.submit(WriteBatch(state(1)))
    async with asyncio.timeout(5):
        await store.wait_written(1)
    store.submit(WriteBatch(state(2)))
    async with asyncio.timeout(5):
        await store.close()
    store = await Store.open(tmp_path / "state.db")
    assert store.written_index == 2
    await store.close()


async def test_room_comes_back_when_batches_are_written(tmp_path: Path) -> None:
    narrow = StoreSettings(times=WriterTimes(linger_ms=10), queue_bytes=1)
    store = await Store.open(tmp_path / "state.db", settings=narrow)
    assert store.has_room
    store.submit(WriteBatch(state(1)))
    assert not store.has_room
    await store.room()
    assert store.has_room
    assert store.written_index == 1
    await store.close()


async def test_checkpoints_follow_on_their_own(tmp_path: Path) -> None:
    often = StoreSettings(times=WriterTimes(linger_ms=0, checkpoint_every_ms=20))
    store = await Store.open(tmp_path / "state.db", settings=often)
    store.submit(WriteBatch(state(7)))
    await eventually(lambda: store.checkpointed_index == 7)
    await store.close()


async def test_a_checkpoint_held_up_by_a_reader_counts_only_when_whole(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "state.db", settings=NEVER)
    store.submit(WriteBatch(state(1)))
    assert await store.checkpoint() == 1
    reader = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM applied").fetchall()
    store.submit(WriteBatch(state(2)))
    assert await store.checkpoint() == 1
    reader.execute("COMMIT")
    assert await store.checkpoint() == 2
    reader.close()
    await store.close()


async def test_a_checkpoint_that_was_held_up_is_soon_tried_again(tmp_path: Path) -> None:
    times = WriterTimes(linger_ms=0, checkpoint_every_ms=20, retry_ms=5)
    store = await Store.open(tmp_path / "state.db", settings=StoreSettings(times=times))
    reader = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM applied").fetchall()
    store.submit(WriteBatch(state(3)))
    await store.wait_written(3)
    await asyncio.sleep(0.05)
    assert store.checkpointed_index == 0
    reader.execute("COMMIT")
    await eventually(lambda: store.checkpointed_index == 3)
    reader.close()
    await store.close()


async def test_the_wal_is_cut_when_it_has_grown(tmp_path: Path) -> None:
    times = WriterTimes(linger_ms=0, checkpoint_every_ms=10_000_000, truncate_wal_bytes=1)
    store = await Store.open(tmp_path / "state.db", settings=StoreSettings(times=times))
    store.submit(WriteBatch(state(1)))
    assert await store.checkpoint() == 1
    assert (tmp_path / "state.db-wal").stat().st_size == 0
    await store.close()


async def test_damage_that_a_question_meets_ends_the_node(tmp_path: Path) -> None:
    rig = await Rig(tmp_path).start()
    await populate(rig, [f"w{n}" for n in range(50)])
    await rig.stop()
    damage_pages(tmp_path / "state.db")
    errors: list[StoreError] = []
    store = await Store.open(tmp_path / "state.db", on_fatal=errors.append)
    with pytest.raises(StoreDamaged, match="fetches a copy from the others"):
        await store.list_runs(RunFilter(namespace="default"))
    assert isinstance(errors[0], StoreDamaged)
    await store.abandon()


_CHILD = """
import asyncio, os, sys
from raftflow.cluster.store import AppliedState, Store, WriteBatch

async def main():
    store = await Store.open(sys.argv[1])
    for index in range(1, 51):
        store.submit(WriteBatch(AppliedState(index, 1, index, bytes(16), 1)))
    await store.wait_written(50)
    os._exit(9)

asyncio.run(main())
"""


@pytest.mark.slow
async def test_a_killed_process_leaves_what_it_wrote(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", _CHILD, str(path)], check=False, timeout=60
    )
    assert done.returncode == 9
    store = await Store.open(path)
    assert store.written_index == 50
    assert store.checkpointed_index == 50  # what the WAL held is durable before it is relied on
    await store.close()


async def test_a_full_disk_ends_the_node_and_says_so(tmp_path: Path) -> None:
    errors: list[StoreError] = []
    store = await Store.open(tmp_path / "state.db", settings=NEVER, on_fatal=errors.append)
    await store._in_writer(lambda: store._writer._db.execute("PRAGMA max_page_count = 1"))
    batch = WriteBatch(state(1))
    batch.events = [(n, bytes(4_000)) for n in range(100)]
    store.submit(batch)
    await eventually(lambda: errors)
    assert isinstance(errors[0], StoreFull)
    assert "state.db" in str(errors[0])
    assert "free space" in errors[0].remedy
    assert store.written_index == 0
    await store.abandon()


async def test_rows_that_do_not_fit_end_the_node(tmp_path: Path) -> None:
    errors: list[StoreError] = []
    store = await Store.open(tmp_path / "state.db", settings=NEVER, on_fatal=errors.append)
    for index in (1, 2):
        batch = WriteBatch(state(index))
        batch.events = [(1, b"the same event twice")]
        store.submit(batch)
    await eventually(lambda: errors)
    assert "does not fit its rows" in str(errors[0])
    await store.abandon()


@pytest.mark.parametrize("content", [b"x" * 8_192, b"SQLite format 3\x00" + b"\xff" * 8_192])
async def test_a_file_that_is_no_database_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "state.db").write_bytes(content)
    with pytest.raises(StoreDamaged, match=r"state\.db"):
        await Store.open(tmp_path / "state.db")


async def test_a_foreign_database_is_refused(tmp_path: Path) -> None:
    execute(tmp_path / "state.db", "CREATE TABLE theirs (x)")
    with pytest.raises(StoreDamaged, match="not a raftflow store"):
        await Store.open(tmp_path / "state.db")


async def test_a_later_schema_is_refused(tmp_path: Path) -> None:
    await (await Store.open(tmp_path / "state.db")).close()
    execute(tmp_path / "state.db", "PRAGMA user_version = 99")
    with pytest.raises(StoreTooNew, match="99"):
        await Store.open(tmp_path / "state.db")


def schema(path: Path) -> list[tuple[str, str]]:
    db = sqlite3.connect(path)
    found = db.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()
    version = db.execute("PRAGMA user_version").fetchone()[0]
    db.close()
    return [*found, ("version", str(version))]


def runs_of(path: Path) -> list[tuple[object, ...]]:
    db = sqlite3.connect(path)
    found = db.execute("SELECT * FROM runs ORDER BY run_no").fetchall()
    db.close()
    return found


def store_of_release_1(path: Path) -> None:
    released = GOLDEN / "v0.1.0" / "data"
    for suffix in ("", "-wal", "-shm"):
        shutil.copy(released / f"state.db{suffix}", f"{path}{suffix}")


@pytest.mark.parametrize("column", ["log_index", "log_term", "time_ms", "digest", "next_run_no"])
@pytest.mark.parametrize("value", ["ª§", b"\x00", 1.5, 3])
async def test_a_store_that_does_not_say_how_far_it_is_is_damaged(
    tmp_path: Path, column: str, value: object
) -> None:
    """Whoever waits for an index would wait for ever."""
    path = tmp_path / "state.db"
    await (await Store.open(path, settings=NEVER)).close()
    db = sqlite3.connect(path)
    db.execute(f"UPDATE applied SET {column} = ?", (value,))
    db.commit()
    db.close()
    if isinstance(value, bytes if column == "digest" else int):
        await (await Store.open(path)).close()
        return
    with pytest.raises(StoreDamaged, match="how far it is cannot be told"):
        await Store.open(path)


async def test_a_store_of_an_older_release_becomes_like_a_new_one(tmp_path: Path) -> None:
    old, new = tmp_path / "old.db", tmp_path / "new.db"
    store_of_release_1(old)
    before = runs_of(old)
    for path in (old, new):
        await (await Store.open(path)).close()
    assert schema(old) == schema(new)
    assert runs_of(old) == before
    assert len(before) == 10


async def test_a_migration_that_breaks_off_leaves_the_older_store(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    store_of_release_1(path)
    execute(path, "CREATE TABLE memos (in_the_way)")
    before = schema(path)
    with pytest.raises(StoreError, match="memos already exists"):
        await Store.open(path)
    assert schema(path) == before
    execute(path, "DROP TABLE memos")
    await (await Store.open(path)).close()


async def test_a_run_of_an_older_release_counts_those_before_it(tmp_path: Path) -> None:
    """Release 0.1 did not count them, and so no row does."""
    rig = await Rig(tmp_path, cache=TINY_CACHE).start()
    await populate(rig, ["again"])
    for run_id in ("second", "third"):
        await apply(rig, terminate("again"))
        await apply(rig, make.start("again", run_id=run_id, reuse=ALLOW))
    await rig.stop()
    await rig.start()
    loaded = await rig.store.load([WorkflowKey("default", "again")], [], [])
    (stored,) = loaded.runs.values()
    assert (stored.run.key.run_id, stored.run.older_runs) == ("third", 2)
    await rig.stop()


async def test_all_of_a_run_comes_back(tmp_path: Path) -> None:
    """Arrivals that wait, messages on their way, labels; with nothing left in memory."""
    rig = await Rig(tmp_path).start()
    await populate(rig, ["order"], search_attributes=(("tier", '"gold"'),), memo='{"a":1}')
    await decide(rig, "order", child(1), child(2, input=b""), make.activity(3, input=b"x"))
    live = await view(rig, "order")
    hold_back(rig, live, Event(1, 9, SignalReceived(name="go", payload=b"now", request_id="")))
    await rig.settle()
    stored = await rig.store.run(live.key)
    assert stored == live
    assert stored.arrivals
    assert len(stored.outbox) == 2
    await rig.stop()
    await rig.start()
    assert await view(rig, "order") == live
    await rig.stop()


def hold_back(rig: Rig, run: Run, *arrivals: Event) -> None:
    """As an entry that came while a decision was out."""
    changes = Changes(runs={run.key: run})
    for arrival in arrivals:
        run.arrivals[arrival.event_id] = changes.arrivals[run.key, arrival.event_id] = arrival
    submit(rig, changes)


def submit(rig: Rig, changes: Changes) -> None:
    replica = rig.replica
    encoder = RowEncoder()
    numbers = replica._hot.number(changes, replica.applied.next_run_no)
    encoder.add(changes, numbers)
    replica.applied = dataclasses.replace(replica.applied, index=replica.applied.index + 1)
    rig.store.submit(encoder.close(replica.applied))


async def test_what_joined_or_was_delivered_is_gone(rig: Rig) -> None:
    await populate(rig, ["order"])
    run = await view(rig, "order")
    hold_back(rig, run, *[Event(n, 9, TimerFired(sequence=n)) for n in (1, 2)])
    await rig.settle()
    joined = Changes(
        runs={run.key: run},
        arrivals={(run.key, 1): None},
        outbox={(run.key, 1): ReportChild("p", "p1", 2), (run.key, 2): None},
    )
    submit(rig, joined)
    await rig.settle()
    stored = await rig.store.run(run.key)
    assert stored is not None
    assert list(stored.arrivals) == [2]
    assert stored.outbox == {1: ReportChild("p", "p1", 2)}


async def test_nothing_is_left_of_a_deleted_run(tmp_path: Path) -> None:
    rig = await Rig(tmp_path).start()
    await populate(rig, ["other"])
    await rig.stop()
    empty = dump(tmp_path / "state.db")
    await rig.start()
    labels = {"search_attributes": (("tier", '"gold"'),), "memo": "{}"}
    await populate(rig, ["order"], execution_timeout_ms=10**6, **labels)
    await decide(
        rig,
        "order",
        make.activity(1, input=b"x"),
        StartTimer(step_name="t", sequence=2, delay_ms=10**6),
    )
    await apply(rig, make.signal("order", "go"), make.signal("order", "go"))
    await apply(rig, terminate("order"))
    await apply(rig, make.delete("order", "run-order"))
    await rig.stop()
    left = dump(tmp_path / "state.db")
    assert {**left, "applied": []} == {**empty, "applied": []}


async def test_a_run_that_lived_and_died_within_a_transaction_leaves_nothing(
    tmp_path: Path,
) -> None:
    patient = StoreSettings(times=WriterTimes(linger_ms=60_000))
    rig = await Rig(tmp_path, settings=patient).start()
    commands = [
        RegisterTypes(namespace="default", workflow_types=("Order",)),
        make.start("order"),
        terminate("order"),
        make.delete("order"),
        make.start("order"),  # under the same run id
    ]
    await rig.feed([entry(n, [each], 1_000_000) for n, each in enumerate(commands, start=1)])
    await rig.settle()
    rows = dump(tmp_path / "state.db")
    assert len(rows["runs"]) == len(rows["events"]) == 1
    assert (await view(rig, "order")).status is RunStatus.WAITING
    await rig.stop()


async def test_events_are_the_records_of_a_history_file(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await populate(rig, ["order"])
    await apply(rig, *[make.signal("order", "go", b"%d" % n) for n in range(5)])
    records = await rig.store.events(KEY, limit=100)
    assert len(records) == 6
    assert all(unframe(record) for record in records)
    assert await rig.store.events(KEY, start=3, limit=2) == records[2:4]
    assert await rig.store.events(KEY, start=7, limit=2) == []
    assert await rig.store.events(RunKey("default", "order", "none"), limit=9) == []
    monkeypatch.setattr(aggregates, "PAGE_BYTES", len(records[0]) + 1)
    assert await rig.store.events(KEY, limit=100) == records[:2]  # no room for more


async def test_a_damaged_event_is_named_and_the_run_stays_readable(tmp_path: Path) -> None:
    rig = await Rig(tmp_path).start()
    await populate(rig, ["order", "other"])
    await apply(rig, make.signal("order", "go", b"payload"))
    await rig.stop()
    execute(
        tmp_path / "state.db",
        f"UPDATE events SET record = zeroblob(9) WHERE event_no = {(1 << 24) + 2}",
    )
    await rig.start()
    with pytest.raises(CorruptRecord, match=r"state\.db: events row 16777218"):
        await rig.store.events(KEY, limit=9)
    assert len(await rig.store.events(KEY, limit=1)) == 1
    assert len(await rig.store.events(RunKey("default", "other", "run-other"), limit=9)) == 1
    await rig.stop()


async def test_a_missing_event_is_noticed(tmp_path: Path) -> None:
    rig = await Rig(tmp_path).start()
    await populate(rig, ["order"])
    await apply(rig, make.signal("order", "go"), make.signal("order", "go"))
    await rig.stop()
    execute(tmp_path / "state.db", f"DELETE FROM events WHERE event_no = {(1 << 24) + 2}")
    await rig.start()
    with pytest.raises(CorruptRecord, match="an event before it is missing"):
        await rig.store.events(KEY, limit=9)
    await rig.stop()


async def test_no_file_is_left_behind(rig: Rig) -> None:
    copy = await rig.store.copy_to(rig.folder / "copy.db")
    assert copy.path == str(rig.folder / "copy.db")
    assert names(rig.folder) == ["copy.db", "state.db", "state.db-shm", "state.db-wal"]
