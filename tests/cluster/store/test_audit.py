"""The audit finds nothing in what the engine wrote, and each way to break the rows is told."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import engine_harness as make
import pytest
from populate import apply, decide, populate, view
from replica_rig import Rig, play
from strategies import random_wishes

from raftflow.cluster.codec import rows
from raftflow.cluster.store import Store
from raftflow.cluster.store.audit import INVARIANTS, Finding, Place
from raftflow.cluster.store.records import frame, unframe
from raftflow.engine.commands import AwaitSignal, CompleteWorkflow, StartChildWorkflow, StartTimer

GOLDEN = Path(__file__).parents[2] / "golden"


async def walk(store: Store) -> list[Finding]:
    found: list[Finding] = []
    place: Place | None = Place()
    while place is not None:
        part = await store.audit(place)
        found += part.findings
        place = part.following
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
async def test_what_the_engine_wrote_is_as_it_must_be(tmp_path: Path, seed: int) -> None:
    _, entries = play(random_wishes(seed, 150, crowded=bool(seed % 2)))
    rig = await Rig(tmp_path).start()
    for each in entries:
        await rig.feed([each])
        if each.index % 10 == 0:
            await rig.settle()
            assert await walk(rig.store) == []
    await rig.settle()
    assert await walk(rig.store) == []
    await rig.stop()


@pytest.mark.parametrize("version", ["v0.1.0", "v0.2.0"])
async def test_what_earlier_releases_wrote_is_as_it_must_be(tmp_path: Path, version: str) -> None:
    shutil.copytree(GOLDEN / version / "data", tmp_path, dirs_exist_ok=True)
    store = await Store.open(tmp_path / "state.db")
    assert store.written_index > 10
    assert await walk(store) == []
    await store.close()


@pytest.mark.slow
async def test_many_runs_take_many_slices(tmp_path: Path) -> None:
    rig = await Rig(tmp_path).start()
    await populate(rig, ["first"])
    many = [make.start(f"w{n}", "Order", run_id=f"r{n}", request_id=f"q{n}") for n in range(600)]
    await apply(rig, *many)
    place: Place | None = Place()
    slices = checked = 0
    while place is not None:
        part = await rig.store.audit(place)
        assert part.findings == ()
        assert part.index == rig.replica.applied_index
        slices, checked, place = slices + 1, checked + part.checked, part.following
    assert slices >= 7  # 256 rows at most each
    assert checked == 601 + 600 + 1
    await rig.stop()


def child(sequence: int, workflow_id: str) -> StartChildWorkflow:
    return StartChildWorkflow(
        step_name="c",
        sequence=sequence,
        workflow_type="Order",
        workflow_id=workflow_id,
        task_queue="default",
        input=b"",
    )


async def a_family(folder: Path) -> Path:
    """A parent that waits for a timer, a signal, an activity and a child, another to be started; a
    child that owes its report, and a run that is over."""
    rig = await Rig(folder).start()
    await populate(rig, ["parent", "done"], request_id="")
    await apply(rig, make.start("asked", "Order", run_id="run-asked", request_id="q1"))
    await decide(
        rig,
        "parent",
        make.activity(1, "work"),
        StartTimer(step_name="t", sequence=2, delay_ms=60_000),
        AwaitSignal(step_name="s", sequence=3, signal_name="go"),
        child(4, "kid"),
        child(5, "later"),
    )
    parent = await view(rig, "parent")
    await apply(rig, make.deliver(parent.key, 1, parent.outbox[1], new_run_id="run-kid"))
    await decide(rig, "done", CompleteWorkflow(output=b"1"))
    assert await walk(rig.store) == []
    await rig.stop()
    return folder / "state.db"


RUN = "(SELECT run_no FROM runs WHERE workflow_id = '{}')"
FIRST = f"({RUN} << 24)"
BREAKAGES = {
    "the timer row is gone": ("timers", f"DELETE FROM timers WHERE run_no = {RUN}", "parent"),
    "a timer of a closed run is left": (
        "timers",
        f"INSERT INTO timers VALUES ({RUN}, 1, 1, 5)",
        "done",
    ),
    "an event is gone": ("history", f"DELETE FROM events WHERE event_no = {FIRST} + 2", "done"),
    "the last event is gone": (
        "history",
        f"DELETE FROM events WHERE event_no = (SELECT max(event_no) FROM events"
        f" WHERE event_no < {FIRST} + 16777216)",
        "asked",
    ),
    "a step is gone": ("counts", f"DELETE FROM steps WHERE step_no = {FIRST} + 5", "parent"),
    "the start of a child is gone": (
        "wakeup",
        f"DELETE FROM outbox WHERE message_no BETWEEN {FIRST} AND {FIRST} + 99",
        "parent",
    ),
    "the child is gone": ("children", "DELETE FROM runs WHERE workflow_id = 'kid'", "parent"),
    "an open task is not in its index": (
        "tasks",
        f"UPDATE steps SET task_state = 0 WHERE step_no = {FIRST} + 1",
        "parent",
    ),
    "a column differs from the record": (
        "records",
        "UPDATE runs SET closed_ms = 7 WHERE workflow_id = '{}'",
        "asked",
    ),
    "a byte of the record is another": (
        "records",
        "UPDATE runs SET record = x'00' WHERE workflow_id = '{}'",
        "asked",
    ),
    "the answered run is gone": (
        "requests",
        "DROP TRIGGER runs_deleted; DELETE FROM runs WHERE workflow_id = '{}'",
        "asked",
    ),
    "rows without a run": (
        "rows",
        "DROP TRIGGER runs_deleted; DELETE FROM runs WHERE workflow_id = '{}'",
        "done",
    ),
    "rows after the last run": ("rows", "INSERT INTO events VALUES (99 << 24, x'00')", ""),
    "a memo without a run": ("rows", "INSERT INTO memos VALUES (99, 'x')", ""),
    "a counter is wrong": ("counts", "UPDATE counters SET runs = runs + 1", ""),
}


@pytest.mark.parametrize("how", BREAKAGES)
async def test_each_breakage_is_told(tmp_path: Path, how: str) -> None:
    invariant, statements, workflow_id = BREAKAGES[how]
    path = await a_family(tmp_path)
    db = sqlite3.connect(path)
    db.executescript(statements.replace("{}", workflow_id))
    db.close()
    store = await Store.open(path)
    found = await walk(store)
    await store.close()
    named = [each for each in found if each.invariant == invariant]
    assert named, found
    if invariant != "rows" and workflow_id == "parent":
        assert {each.workflow_id for each in named} == {workflow_id}
    assert {each.invariant for each in found} <= set(INVARIANTS)


async def test_a_run_that_nothing_would_wake_is_told(tmp_path: Path) -> None:
    """With a record whose checksum is right: no CRC would notice."""
    path = await a_family(tmp_path)
    db = sqlite3.connect(path)
    run_no, record = db.execute(
        "SELECT run_no, record FROM runs WHERE workflow_id = 'asked'"
    ).fetchone()
    _, run, _ = rows.decode_run(unframe(record))
    run.decision = type(run.decision)()
    db.execute(
        "UPDATE runs SET record = ?, decision_state = 0 WHERE run_no = ?",
        (frame(rows.encode_run(run, run_no)), run_no),
    )
    db.commit()
    db.close()
    store = await Store.open(path)
    [finding] = await walk(store)
    await store.close()
    assert finding == Finding(
        "wakeup", "default", "asked", "run-asked", "open, and nothing will ever wake it"
    )
