"""Entries through the real replica and the real store."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import engine_harness as make
import pytest
from engine_harness import EngineHarness
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from populate import terminate
from replica_rig import TINY_CACHE, Rig, dump, entry, play
from strategies import Wish, random_wishes, wishes

from raftflow.cluster.codec import UndecodableEntry, decode_event
from raftflow.cluster.replica import PIECE_COMMANDS
from raftflow.cluster.store import (
    CopyRefused,
    CorruptRecord,
    RunFilter,
    StoreSettings,
    WriterTimes,
)
from raftflow.cluster.store.records import unframe
from raftflow.engine.apply import Applied
from raftflow.engine.commands import Batch, Command, RegisterTypes
from raftflow.engine.ids import RunKey, WorkflowKey
from raftflow.engine.rejections import Reason, Rejection, Started
from raftflow.engine.state import Run
from raftflow.raftlog.journal import LogEntry

few = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


async def through(folder: Path, entries: Sequence[LogEntry], **options: object) -> Rig:
    rig = await Rig(folder, **options).start()  # type: ignore[arg-type]
    await rig.feed(entries)
    await rig.settle()
    return rig


async def check_rows(rig: Rig, harness: EngineHarness) -> None:
    """The store holds what the engine alone arrived at."""
    for key in harness.rows.runs:
        expected = harness.rows.load_run(key)
        assert await rig.store.run(key) == expected
        newest = harness.rows.current[WorkflowKey(key.namespace, key.workflow_id)]
        view = await rig.replica.run_view(key.namespace, key.workflow_id)
        assert view is not None
        assert view.key.run_id == newest
        records = await rig.store.events(key, limit=10_000)
        assert [decode_event(unframe(each)) for each in records] == harness.rows.events[key]
        signals = sorted(harness.rows.signals.get(key, {}).items())
        assert await rig.store.signals_of(key) == [signal for _, signal in signals]
    timers = await rig.store.timers_due(2**62, limit=10_000)
    assert sorted(timers, key=repr) == sorted(harness.rows.timers.values(), key=repr)
    expected_counts: dict[object, int] = {}
    for run in harness.rows.runs.values():
        if run.key.namespace == "default":
            expected_counts[run.status] = expected_counts.get(run.status, 0) + 1
    counts = await rig.store.counts(RunFilter(namespace="default"))
    assert counts.by_status == expected_counts


@pytest.mark.slow
@few
@given(wishes(max_size=30))
async def test_the_store_holds_what_the_engine_decided(
    tmp_path_factory: pytest.TempPathFactory, wanted: list[Wish]
) -> None:
    harness, entries = play(wanted)
    rig = await through(tmp_path_factory.mktemp("replica"), entries)
    await check_rows(rig, harness)
    await rig.stop()


@pytest.mark.slow
@few
@given(wishes(max_size=30), st.data())
async def test_a_crash_anywhere_leaves_no_trace(
    tmp_path_factory: pytest.TempPathFactory, wanted: list[Wish], data: st.DataObject
) -> None:
    _, entries = play(wanted)
    straight = await through(tmp_path_factory.mktemp("straight"), entries)
    crashed = Rig(tmp_path_factory.mktemp("crashed"))
    for stop in sorted(data.draw(st.lists(st.integers(1, len(entries)), max_size=3))):
        await crashed.start()
        await crashed.feed(entries[:stop])
        if data.draw(st.booleans()):
            await crashed.settle()
        await crashed.crash()
    await crashed.start()
    await crashed.feed(entries)
    assert crashed.replica.digest == straight.replica.digest
    for rig in (straight, crashed):
        await rig.stop()
    assert dump(straight.folder / "state.db") == dump(crashed.folder / "state.db")


@pytest.mark.slow
@few
@given(wishes(max_size=30))
async def test_evicted_and_loaded_again_equals_hot(
    tmp_path_factory: pytest.TempPathFactory, wanted: list[Wish]
) -> None:
    harness, entries = play(wanted)
    hot = await through(tmp_path_factory.mktemp("hot"), entries)
    cold = await Rig(tmp_path_factory.mktemp("cold"), cache=TINY_CACHE).start()
    for each in entries:
        await cold.feed([each])
        await cold.settle()
        cold.replica._hot.evict(cold.store.written_index)
        assert cold.replica.hot_runs <= 1
    assert cold.replica.digest == hot.replica.digest
    await check_rows(cold, harness)
    for rig in (hot, cold):
        await rig.stop()
    assert dump(hot.folder / "state.db") == dump(cold.folder / "state.db")


_CHILD = """
import asyncio, json, sys, tempfile
from pathlib import Path
from replica_rig import Rig, play
from strategies import random_wishes

async def main():
    _, entries = play(random_wishes(7, 150))
    with tempfile.TemporaryDirectory() as folder:
        rig = await Rig(Path(folder)).start()
        await rig.feed(entries)
        print(json.dumps([rig.replica.applied_index, rig.replica.digest.hex()]))
        await rig.stop()

asyncio.run(main())
"""


@pytest.mark.slow
def test_the_digest_does_not_depend_on_the_hash_seed() -> None:
    support = Path(make.__file__).parent
    answers = []
    for seed in ("0", "12345"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(support)}
        done = subprocess.run(
            [sys.executable, "-c", _CHILD],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        answers.append(json.loads(done.stdout))
    assert answers[0] == answers[1]
    assert answers[0][0] > 100


def flip(path: Path, offset: int) -> None:
    """Damage one byte."""
    content = bytearray(path.read_bytes())
    content[offset] ^= 0xFF
    path.write_bytes(content)


def damage_run(path: Path, workflow_id: str) -> None:
    """Damage one byte of the run's row."""
    db = sqlite3.connect(path)
    with db:
        chosen = (workflow_id,)
        record = bytearray(
            db.execute("SELECT record FROM runs WHERE workflow_id = ?", chosen).fetchone()[0]
        )
        record[20] ^= 0xFF
        db.execute("UPDATE runs SET record = ? WHERE workflow_id = ?", (record, *chosen))
    db.close()


def starts(count: int, *, first: int = 0) -> list[object]:
    return [make.start(f"w{n}", run_id=f"r{n}") for n in range(first, first + count)]


def born() -> list[LogEntry]:
    """A log that knows a type."""
    register = RegisterTypes(namespace="default", workflow_types=("Order",))
    return [LogEntry(1, 1, b""), entry(2, [register], 1_000_000)]


async def test_a_large_entry_is_applied_in_pieces_and_told_once(tmp_path: Path) -> None:
    count = 2 * PIECE_COMMANDS + 5
    rig = await Rig(tmp_path).start()
    told: list[tuple[Applied, Batch]] = []
    rig.replica.subscribe(lambda applied, batch: told.append((applied, batch)))
    await rig.feed([*born(), entry(3, starts(count), 1_000_001)])
    applied, batch = told[-1]
    assert batch.index == 3
    assert [reply.command_id for reply in applied.replies] == [f"c{n}" for n in range(count)]
    await rig.settle()
    assert (await rig.store.counts(RunFilter(namespace="default"))).total == count
    await rig.stop()


async def test_cold_keys_of_waiting_entries_are_loaded_in_few_jobs(tmp_path: Path) -> None:
    rig = await Rig(tmp_path).start()
    jobs: list[int] = []
    load = rig.store.load

    async def counting(workflows, runs, requests):  # type: ignore[no-untyped-def]
        jobs.append(len(workflows))
        return await load(workflows, runs, requests)

    rig.store.load = counting  # type: ignore[method-assign]
    log = [*born(), *[entry(3 + n, starts(1, first=n), 1_000_001) for n in range(50)]]
    await rig.feed(log)
    assert sum(jobs) == 50
    assert len(jobs) <= 5
    await rig.stop()


async def test_a_slow_store_holds_apply_up(tmp_path: Path) -> None:
    slow = StoreSettings(times=WriterTimes(linger_ms=50), queue_bytes=1)
    rig = await Rig(tmp_path, settings=slow).start()
    log = [*born(), *[entry(3 + n, starts(1, first=n), 1_000_001) for n in range(5)]]
    ahead = 0

    def watch(_applied: Applied, batch: Batch) -> None:
        nonlocal ahead
        ahead = max(ahead, batch.index - rig.store.written_index)

    rig.replica.subscribe(watch)
    await rig.feed(log)
    assert ahead <= 1
    await rig.stop()


async def test_compaction_follows_the_checkpoint_and_keeps_a_tail(tmp_path: Path) -> None:
    rig = await Rig(tmp_path, log_tail_entries=10).start()
    log = [*born(), *[entry(3 + n, starts(1, first=n), 1_000_001) for n in range(30)]]
    await rig.feed(log)
    await rig.settle()
    assert rig.consensus.compacted == []
    assert await rig.store.checkpoint() == 32
    await asyncio.sleep(0)
    assert rig.consensus.compacted == [22]
    assert rig.replica.snapshot_index == 32
    await rig.stop()


async def test_an_unknown_entry_is_fatal(tmp_path: Path) -> None:
    rig = await Rig(tmp_path).start()
    rig.replica.on_apply([LogEntry(1, 1, b"\xff\xff")])
    with pytest.raises(TimeoutError):
        await rig.replica.wait_applied(1, timeout_ms=50)
    assert isinstance(rig.consensus.errors[0], UndecodableEntry)
    await rig.crash()


async def test_views_of_runs_hot_cold_and_missing(tmp_path: Path) -> None:
    rig = await Rig(tmp_path, cache=TINY_CACHE).start()
    await rig.feed([*born(), entry(3, starts(3), 1_000_001)])
    await rig.settle()
    rig.replica._hot.evict(rig.store.written_index)
    assert rig.replica.hot_run(RunKey("default", "w0", "r0")) is None
    views: list[Run | None] = [
        await rig.replica.run_view("default", "w0"),
        await rig.replica.run_view("default", "w0", "r0"),
        await rig.replica.run_view("default", "w2"),
    ]
    assert [view and view.key.run_id for view in views] == ["r0", "r0", "r2"]
    assert await rig.replica.run_view("default", "w0", "r1") is None
    assert await rig.replica.run_view("default", "w9") is None
    await rig.stop()


async def test_the_newest_run_is_hot_though_nobody_asked_for_its_id(tmp_path: Path) -> None:
    rig = await Rig(tmp_path).start()
    await rig.feed([*born(), entry(3, starts(1), 1_000_001)])
    await rig.stop()
    await rig.start()  # nothing is hot; what names the run alone does not tell which is the newest
    await rig.feed([entry(4, [make.signal("w0", "go", run_id="r0")], 1_000_002)])
    hot = rig.replica.hot_run(RunKey("default", "w0", "r0"))
    assert hot is not None
    assert rig.replica.hot_newest(WorkflowKey("default", "w0")) is None
    assert await rig.replica.run_view("default", "w0") is hot  # not what is written of it so far
    await rig.stop()


async def test_a_copy_brings_another_node_to_the_same_state(tmp_path: Path) -> None:
    _, entries = play(random_wishes(3, 60))
    first = await Rig(tmp_path / "a").start()
    await first.feed(entries[:40])
    await first.settle()
    path, manifest = await first.replica.make_copy()
    assert manifest.index == 40
    await first.feed(entries)

    second = await Rig(tmp_path / "b").start()
    await second.feed(entries[:7])
    waiter = asyncio.create_task(second.replica.wait_applied(40, timeout_ms=5_000))
    await second.replica.install(path, manifest)
    await waiter
    assert second.replica.applied_index == 40
    await second.feed(entries)
    assert second.replica.digest == first.replica.digest
    first.replica.release(manifest.snapshot_id)
    for rig in (first, second):
        await rig.stop()
    assert dump(first.folder / "state.db") == dump(second.folder / "state.db")


async def test_a_copy_that_is_older_or_damaged_is_refused(tmp_path: Path) -> None:
    first = await Rig(tmp_path / "a").start()
    await first.feed([*born(), entry(3, starts(3), 1_000_001)])
    await first.settle()
    path, manifest = await first.replica.make_copy()
    with pytest.raises(CopyRefused, match="older"):
        await first.replica.install(path, manifest)

    second = await Rig(tmp_path / "b").start()
    flip(Path(path), 5_000)
    with pytest.raises(CopyRefused, match="SHA-256"):
        await second.replica.install(path, manifest)
    await second.feed(born())
    assert second.replica.applied_index == 2
    for rig in (first, second):
        await rig.stop()


async def test_a_damaged_run_stands_alone(tmp_path: Path) -> None:
    rig = await Rig(tmp_path).start()
    await rig.feed([*born(), entry(3, starts(2), 1_000_001)])
    await rig.stop()
    damage_run(tmp_path / "state.db", "w0")
    await rig.start()
    with pytest.raises(CorruptRecord, match="runs row 1: its checksum"):
        await rig.replica.run_view("default", "w0")
    told: list[Applied] = []
    rig.replica.subscribe(lambda applied, _batch: told.append(applied))
    both = [make.signal("w0", "go"), make.signal("w1", "go")]
    await rig.feed([entry(4, both, 1_000_002)])
    assert rig.replica.applied_index == 4
    view = await rig.replica.run_view("default", "w1")
    assert view is not None
    assert view.signals
    await rig.stop()


async def test_a_deleted_run_is_gone_before_the_store_has_deleted_it(tmp_path: Path) -> None:
    patient = StoreSettings(times=WriterTimes(linger_ms=60_000))
    rig = await Rig(tmp_path, settings=patient).start()
    await rig.feed([*born(), entry(3, starts(2), 1_000_001)])
    await rig.feed([entry(4, [terminate("w0"), terminate("w1")], 1_000_002)])
    await rig.settle()
    await rig.feed([entry(5, [make.delete("w0", "r0")], 1_000_003)])
    assert rig.store.written_index == 4
    assert await rig.replica.run_view("default", "w0") is None
    assert await rig.replica.run_view("default", "w0", "r0") is None
    assert await rig.replica.run_view("default", "w1", "r1") is not None
    told: list[Applied] = []
    rig.replica.subscribe(lambda applied, _batch: told.append(applied))
    await rig.feed([entry(6, [make.signal("w0", "go"), make.start("w0", run_id="r9")], 1_000_004)])
    unknown, started = [reply.answer for reply in told[-1].replies]
    assert isinstance(unknown, Rejection)
    assert unknown.reason is Reason.WORKFLOW_NOT_FOUND
    assert started == Started("r9", True)
    await rig.stop()


@pytest.mark.parametrize("settled", [True, False])
async def test_deletes_leave_the_same_state_hot_or_cold(tmp_path: Path, settled: bool) -> None:
    """A chain of runs of one id, deleted oldest first, whatever was written or evicted between."""
    again = make.IdReusePolicy.ALLOW_DUPLICATE
    commands: list[Command] = []
    for run_id in ("r1", "r2", "r3"):
        commands += [make.start("w", run_id=run_id, reuse=again), terminate("w")]
    commands += [make.delete("w", run_id) for run_id in ("r3", "r1", "r3", "r2", "r3", "r3")]
    commands += [make.start("w", run_id="r4")]
    log = [*born(), *[entry(n, [each], 1_000_000 + n) for n, each in enumerate(commands, start=3)]]
    hot = await through(tmp_path / "hot", log)
    cold = await Rig(tmp_path / "cold", cache=TINY_CACHE).start()
    for each in log:
        await cold.feed([each])
        if settled:
            await cold.settle()
        cold.replica._hot.evict(cold.store.written_index)
    await cold.settle()
    assert cold.replica.digest == hot.replica.digest
    for rig in (hot, cold):
        await rig.stop()
    assert dump(tmp_path / "hot" / "state.db") == dump(tmp_path / "cold" / "state.db")
    assert [row[3] for row in dump(tmp_path / "hot" / "state.db")["runs"]] == ["r4"]


async def test_a_large_entry_tells_of_all_its_runs(tmp_path: Path) -> None:
    rig = await Rig(tmp_path).start()
    count = PIECE_COMMANDS
    log = [*born(), entry(3, starts(count), 1_000_001)]
    ends = [terminate(f"w{n}") for n in range(count)]
    deletes = [make.delete(f"w{n}", f"r{n}") for n in range(count)]
    await rig.feed(log)
    told: list[Applied] = []
    rig.replica.subscribe(lambda applied, _batch: told.append(applied))
    await rig.feed([entry(4, [*ends, *deletes], 1_000_002)])
    assert len(told[-1].changes.deleted) == count
    await rig.stop()
