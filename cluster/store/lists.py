"""Lists of runs: newest first, filtered, searched, counted; never a scan of everything.

Every filter that an index serves is served by it, in descending run number. Times become bounds on
run numbers (both rise with the log). Where filters are combined, the index with the fewest
candidates leads and the others are checked on its rows.
"""

from __future__ import annotations

import sqlite3
import time
from typing import Any

from raftflow.cluster.store.views import BadCursor, RunFilter, RunPage, RunSummary
from raftflow.engine.ids import RunKey, WorkflowKey
from raftflow.engine.state import RunStatus

EXACT_TOTAL = 10_000
# A search by fewer than three characters has no trigram: it looks at this many runs and goes on
# from there with the cursor.
SHORT_SEARCH_RUNS = 20_000
# Counting gives up after this long and says so (`total_exact`).
_COUNT_BUDGET_S = 0.1
_TRIGRAM = 3
_PROGRESS_STEPS = 10_000

# Qualified: the text index has columns of the same names.
_COLUMNS = (
    "runs.namespace, runs.workflow_id, runs.run_id, runs.workflow_type, runs.task_queue,"
    " runs.status, runs.started_ms, runs.updated_ms, runs.closed_ms, runs.history_length,"
    " runs.run_no"
)
_STATUS = {int(item): item for item in RunStatus}


def counts(db: sqlite3.Connection, namespace: str) -> dict[RunStatus, int]:
    found = db.execute(
        "SELECT status, sum(runs) FROM counters WHERE namespace = ? GROUP BY status", (namespace,)
    )
    return {_STATUS[status]: total for status, total in found if total}


def runs_of(db: sqlite3.Connection, workflow: WorkflowKey, limit: int) -> list[RunSummary]:
    found = db.execute(
        f"SELECT {_COLUMNS} FROM runs INDEXED BY runs_by_workflow"
        " WHERE namespace = ? AND workflow_id = ? ORDER BY run_no DESC LIMIT ?",
        (workflow.namespace, workflow.workflow_id, limit),
    )
    return [_summary(row) for row in found]


def list_runs(db: sqlite3.Connection, wanted: RunFilter, applied_index: int) -> RunPage:
    low, high = _bounds(db, wanted)
    top = min(high, _cursor(wanted.cursor, high))
    floor = low
    if 0 < len(wanted.query) < _TRIGRAM:
        floor = max(low, _short_search_floor(db, wanted.namespace, top))
    sql, values = _query(db, wanted, floor, top)
    found = db.execute(
        f"SELECT {_COLUMNS} {sql} LIMIT ? OFFSET ?",
        (*values, wanted.limit + 1, wanted.offset),
    ).fetchall()
    rows = found[: wanted.limit]
    cursor = ""
    if len(found) > wanted.limit and rows:
        cursor = str(rows[-1][-1])
    elif floor > low:
        cursor = str(floor)  # older runs have not been looked at yet
    total, exact = _total(db, wanted, max(floor, low), high)
    return RunPage(
        total=total,
        total_exact=exact and floor <= low,
        runs=tuple([_summary(row) for row in rows]),
        next_cursor=cursor,
        applied_index=applied_index,
    )


def _summary(row: tuple[Any, ...]) -> RunSummary:
    return RunSummary(
        key=RunKey(row[0], row[1], row[2]),
        workflow_type=row[3],
        task_queue=row[4],
        status=_STATUS[row[5]],
        started_ms=row[6],
        updated_ms=row[7],
        closed_ms=row[8],
        history_length=row[9],
    )


# ---- which rows ---------------------------------------------------------------------------------


def _query(
    db: sqlite3.Connection, wanted: RunFilter, low: int, high: int
) -> tuple[str, tuple[Any, ...]]:
    """FROM, WHERE and ORDER BY of the runs that match, numbered from ``low`` to ``high``."""
    terms, values = (
        ["runs.namespace = ?", "runs.run_no BETWEEN ? AND ?"],
        [wanted.namespace, low, high],
    )
    if wanted.statuses:
        terms.append(f"runs.status IN ({','.join('?' * len(wanted.statuses))})")
        values.extend(int(status) for status in wanted.statuses)
    if wanted.workflow_type:
        terms.append("runs.workflow_type = ?")
        values.append(wanted.workflow_type)
    if wanted.task_queue:
        terms.append("runs.task_queue = ?")
        values.append(wanted.task_queue)
    source, order = f"runs INDEXED BY {_leading_index(db, wanted)}", "runs.run_no"
    if len(wanted.query) >= _TRIGRAM:
        # The planner walks the matches by descending rowid and looks each run up.
        source, order = "runs_text CROSS JOIN runs ON run_no = runs_text.rowid", "runs_text.rowid"
        terms[:0] = ["runs_text MATCH ?", "runs_text.rowid BETWEEN ? AND ?"]
        values[:0] = [_phrase(wanted.query), low, high]
    elif wanted.query:
        terms.append("(instr(lower(runs.workflow_id), ?) OR instr(lower(runs.workflow_type), ?))")
        values.extend([wanted.query.lower()] * 2)
    where = f"FROM {source} WHERE {' AND '.join(terms)} ORDER BY {order} DESC"
    return where, tuple(values)


def _leading_index(db: sqlite3.Connection, wanted: RunFilter) -> str:
    one_status = len(wanted.statuses) == 1
    if wanted.workflow_type:
        index = "runs_by_type_status" if one_status else "runs_by_type"
    else:
        index = "runs_by_status" if one_status else "runs_by_namespace"
    if not wanted.task_queue:
        return index
    # A rare queue among many runs, or few runs in a busy queue?
    if index == "runs_by_namespace":
        return "runs_by_queue"
    in_queue = len(
        db.execute(
            "SELECT 1 FROM runs INDEXED BY runs_by_queue WHERE namespace = ? AND task_queue = ?"
            " LIMIT ?",
            (wanted.namespace, wanted.task_queue, EXACT_TOTAL),
        ).fetchall()
    )
    return "runs_by_queue" if in_queue < _counted(db, wanted) else index


def _phrase(query: str) -> str:
    escaped = query.replace('"', '""')
    return f'"{escaped}"'


def _short_search_floor(db: sqlite3.Connection, namespace: str, top: int) -> int:
    row = db.execute(
        "SELECT run_no FROM runs INDEXED BY runs_by_namespace WHERE namespace = ? AND run_no <= ?"
        " ORDER BY run_no DESC LIMIT 1 OFFSET ?",
        (namespace, top, SHORT_SEARCH_RUNS - 1),
    ).fetchone()
    return int(row[0]) if row else 0


def _cursor(text: str, high: int) -> int:
    if not text:
        return high
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise BadCursor(f"cursor {text!r} is not one that a list gave out")
    return int(text) - 1


def _bounds(db: sqlite3.Connection, wanted: RunFilter) -> tuple[int, int]:
    """Run numbers between which the start times lie: log time never goes back."""
    last = db.execute("SELECT max(run_no) FROM runs").fetchone()[0] or 0
    low, high = 0, last
    if wanted.started_after_ms is not None:
        low = _first_started(db, wanted.started_after_ms + 1, last)
    if wanted.started_before_ms is not None:
        high = _first_started(db, wanted.started_before_ms, last) - 1
    return low, high


def _first_started(db: sqlite3.Connection, at_ms: int, last: int) -> int:
    """The lowest run number from which on every run started at ``at_ms`` or later."""
    low, high = 0, last + 1
    while low < high:
        middle = (low + high) // 2
        row = db.execute(
            "SELECT run_no, started_ms FROM runs WHERE run_no >= ? ORDER BY run_no LIMIT 1",
            (middle,),
        ).fetchone()
        if row is None or row[1] >= at_ms:
            high = middle
        else:
            low = row[0] + 1
    return low


# ---- how many -----------------------------------------------------------------------------------


def _total(db: sqlite3.Connection, wanted: RunFilter, low: int, high: int) -> tuple[int, bool]:
    timed = wanted.started_after_ms is not None or wanted.started_before_ms is not None
    if not (wanted.query or wanted.task_queue or timed):
        total = _counted(db, wanted)
        return total, True
    sql, values = _query(db, wanted, low, high)
    deadline = time.monotonic() + _COUNT_BUDGET_S
    db.set_progress_handler(lambda: time.monotonic() > deadline, _PROGRESS_STEPS)
    total = 0
    try:
        for _ in db.execute(f"SELECT 1 {sql} LIMIT ?", (*values, EXACT_TOTAL + 1)):
            total += 1
    except sqlite3.OperationalError as error:
        if error.sqlite_errorname != "SQLITE_INTERRUPT":
            raise
        return total, False
    finally:
        db.set_progress_handler(None, 0)
    return min(total, EXACT_TOTAL), total <= EXACT_TOTAL


def _counted(db: sqlite3.Connection, wanted: RunFilter) -> int:
    """By status and type, from the counters alone."""
    sql, values = "namespace = ?", [wanted.namespace]
    if wanted.workflow_type:
        sql += " AND workflow_type = ?"
        values.append(wanted.workflow_type)
    by_status = dict(
        db.execute(f"SELECT status, sum(runs) FROM counters WHERE {sql} GROUP BY status", values)
    )
    wanted_statuses = [int(status) for status in wanted.statuses] or by_status
    return sum(by_status.get(status, 0) for status in wanted_statuses)
