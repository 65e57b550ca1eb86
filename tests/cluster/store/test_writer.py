"""The writer's statements: many rows at a time, and none that walks through a table."""

import sqlite3
from collections.abc import Iterator

import pytest

from raftflow.cluster.store import writer
from raftflow.cluster.store.connection import build
from raftflow.cluster.store.writer import _Many

MANY = {name: value for name, value in vars(writer).items() if isinstance(value, _Many)}


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    build(connection, 0)
    yield connection
    connection.close()


@pytest.mark.parametrize("name", MANY)
def test_no_statement_scans_a_table(db: sqlite3.Connection, name: str) -> None:
    for size, statement in MANY[name]._statements:
        values = [0] * statement.count("?")
        plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
        scans = [line for line in plan if line.startswith("SCAN") and "CONSTANT ROW" not in line]
        assert scans in ([], ["SCAN new"]), (size, plan)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 63, 64, 65, 150])
def test_all_rows_are_written_however_many_there_are(db: sqlite3.Connection, count: int) -> None:
    rows = [(number, bytes([number])) for number in range(count)]
    writer._PUT_EVENTS.run(db, rows)
    assert db.execute("SELECT * FROM events").fetchall() == rows


def test_runs_change_each_by_its_own_row(db: sqlite3.Connection) -> None:
    who = ("default", "w", "r", "Order", "default", 1)
    writer._INSERT_RUNS.run(db, [(*who, 1, 1, 0, 1, 1, b"", no, 2) for no in range(1, 21)])
    changed = [(3 if no % 2 else 1, 10 + no, 0, no, 0, bytes([no]), no) for no in range(1, 21)]
    writer._UPDATE_RUNS.run(db, changed)
    writer._MOVE_RUNS.run(db, [row[-1:] for row in changed])
    columns = "status, updated_ms, closed_ms, history_length, decision_state, record, run_no"
    assert db.execute(f"SELECT {columns} FROM runs ORDER BY run_no").fetchall() == changed
    phases = db.execute("SELECT phase, count(*) FROM runs GROUP BY phase").fetchall()
    assert phases == [(2, 10), (3, 10)]
    counted = db.execute("SELECT phase, runs FROM counters ORDER BY phase").fetchall()
    assert counted == phases
