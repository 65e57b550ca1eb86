"""Lists of runs: newest first, filtered, searched, counted; never a scan of everything.

Every filter that an index serves is served by it, in descending run number. Times become bounds on
run numbers (both rise with the log). Where filters are combined, the index with the fewest
candidates leads and the others are checked on its rows.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable
from typing import Any

from raftflow.cluster.store.batch import json_of
from raftflow.cluster.store.records import Words
from raftflow.cluster.store.views import PAGE_BYTES, BadCursor, RunFilter, RunPage, RunSummary
from raftflow.engine.ids import RunKey, WorkflowKey
from raftflow.engine.state import RunStatus

EXACT_TOTAL = 10_000
# A search by fewer than three characters has no trigram: it looks at this many runs and goes on
# from there with the cursor.
SHORT_SEARCH_RUNS = 20_000
# Counting gives up after this long and says so (`total_exact`).
_COUNT_BUDGET_S = 0.1
_TRIGRAM = 3
_LAST_RUN_NO = (1 << 63) - 1
_PROGRESS_STEPS = 10_000

# Qualified: the text index has columns of the same names.
_COLUMNS = (
    "runs.namespace, runs.workflow_id, runs.run_id, runs.workflow_type, runs.task_queue,"
    " runs.status, runs.started_ms, runs.updated_ms, runs.closed_ms, runs.history_length,"
    " runs.run_no"
)
_STATUS = Words({int(item): item for item in RunStatus})

Attribute = tuple[str, str]
_BY_ATTRIBUTE = """attributes AS led INDEXED BY attributes_by_value
    CROSS JOIN runs ON runs.run_no = led.run_no"""
_HAS_ATTRIBUTE = """EXISTS (SELECT 1 FROM attributes AS other
    WHERE other.run_no = runs.run_no AND other.name = ? AND other.value = ?)"""
_HAVING = """SELECT count(*) FROM (SELECT 1 FROM attributes INDEXED BY attributes_by_value
    WHERE namespace = ? AND name = ? AND value = ? LIMIT ?)"""
_LABELS_AT_ONCE = 10  # each run may have megabytes of them


def counts(db: sqlite3.Connection, namespace: str) -> dict[RunStatus, int]:
    by_status = _by_status(db, namespace, "")
    return {_STATUS[status]: total for status, total in sorted(by_status.items()) if total}


def runs_of(
    db: sqlite3.Connection, workflow: WorkflowKey, cursor: str, limit: int
) -> tuple[list[RunSummary], str]:
    """A page of an id's runs, newest first, and where the next one begins."""
    found = db.execute(
        f"SELECT {_COLUMNS} FROM runs INDEXED BY runs_by_workflow"
        " WHERE namespace = ? AND workflow_id = ? AND run_no <= ? ORDER BY run_no DESC LIMIT ?",
        (workflow.namespace, workflow.workflow_id, _cursor(cursor, _LAST_RUN_NO), limit + 1),
    ).fetchall()
    runs = _summaries(db, found[:limit])
    return runs, _next_cursor(found, runs)


def run_ids_of(db: sqlite3.Connection, workflow: WorkflowKey) -> list[str]:
    """All of an id's runs, oldest first."""
    found = db.execute(
        "SELECT run_id FROM runs INDEXED BY runs_by_workflow"
        " WHERE namespace = ? AND workflow_id = ? ORDER BY run_no",
        (workflow.namespace, workflow.workflow_id),
    )
    return [run_id for (run_id,) in found]


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
    runs = _summaries(db, found[: wanted.limit])
    cursor = _next_cursor(found, runs)
    if not cursor and floor > low:
        cursor = str(floor)  # older runs have not been looked at yet
    total, exact = _total(db, wanted, max(floor, low), high)
    return RunPage(
        total=total,
        total_exact=exact and floor <= low,
        runs=tuple(runs),
        next_cursor=cursor,
        applied_index=applied_index,
    )


def _summaries(db: sqlite3.Connection, found: list[tuple[Any, ...]]) -> list[RunSummary]:
    """The first of the rows found, as many as a page has room for with their labels."""
    summaries: list[RunSummary] = []
    size = 0
    for start in range(0, len(found), _LABELS_AT_ONCE):
        rows = found[start : start + _LABELS_AT_ONCE]
        numbers = [row[-1] for row in rows]
        chosen = f"WHERE run_no IN ({','.join('?' * len(numbers))})"
        attributes: dict[int, list[tuple[str, str]]] = {}
        for run_no, name, value, is_text in db.execute(
            f"SELECT run_no, name, value, is_text FROM attributes {chosen}", numbers
        ):
            attributes.setdefault(run_no, []).append((name, json_of(value, is_text=is_text)))
        memos = dict(db.execute(f"SELECT run_no, memo FROM memos {chosen}", numbers))
        for row in rows:
            labels, memo = attributes.get(row[-1], ()), memos.get(row[-1], "")
            summaries.append(_summary(row, labels, memo))
            size += len(memo) + sum(len(name) + len(value) for name, value in labels)
            if size >= PAGE_BYTES:
                return summaries
    return summaries


def _next_cursor(found: list[tuple[Any, ...]], runs: list[RunSummary]) -> str:
    """Where the rest of what was found begins, when ``runs`` are the first of it."""
    return str(found[len(runs) - 1][-1]) if 0 < len(runs) < len(found) else ""


def _summary(row: tuple[Any, ...], attributes: Iterable[tuple[str, str]], memo: str) -> RunSummary:
    return RunSummary(
        key=RunKey(row[0], row[1], row[2]),
        workflow_type=row[3],
        task_queue=row[4],
        status=_STATUS[row[5]],
        started_ms=row[6],
        updated_ms=row[7],
        closed_ms=row[8],
        history_length=row[9],
        search_attributes=tuple(sorted(attributes)),
        memo=memo,
    )


# ---- which rows ---------------------------------------------------------------------------------


def _query(
    db: sqlite3.Connection, wanted: RunFilter, low: int, high: int
) -> tuple[str, tuple[Any, ...]]:
    """FROM, WHERE and ORDER BY of the runs that match, numbered from ``low`` to ``high``."""
    by_text = bool(wanted.query) and _led_by_text(db, wanted)
    attribute = None if by_text else _leading_attribute(db, wanted)
    # The planner walks what leads by descending run number and looks each run up.
    if by_text:
        source, order = "runs_text CROSS JOIN runs ON run_no = runs_text.rowid", "runs_text.rowid"
        terms = ["runs_text MATCH ?", "runs_text.rowid BETWEEN ? AND ?"]
        values: list[Any] = [_phrase(wanted.query), low, high]
    elif attribute is not None:
        source, order = _BY_ATTRIBUTE, "led.run_no"
        terms = [
            "led.namespace = ? AND led.name = ? AND led.value = ?",
            "led.run_no BETWEEN ? AND ?",
        ]
        values = [wanted.namespace, *attribute, low, high]
    else:
        index = _leading_index(db, wanted)
        source, order = f"runs INDEXED BY {index}", "runs.run_no"
        # As the partial index says it.
        terms = ["runs.status = 1"] if index == "runs_running" else []
        values = []
    more, checked = _checks(wanted, low, high, text=not by_text, led=attribute)
    where = f"FROM {source} WHERE {' AND '.join(terms + more)} ORDER BY {order} DESC"
    return where, (*values, *checked)


def _checks(
    wanted: RunFilter, low: int, high: int, *, text: bool, led: Attribute | None
) -> tuple[list[str], list[Any]]:
    """What is asked of every candidate; ``led`` is the attribute that led there."""
    terms = ["runs.namespace = ?", "runs.run_no BETWEEN ? AND ?"]
    values: list[Any] = [wanted.namespace, low, high]
    if wanted.statuses:
        terms.append(f"runs.status IN ({','.join('?' * len(wanted.statuses))})")
        values += [int(status) for status in wanted.statuses]
        if len(wanted.statuses) == 1 and wanted.statuses[0] is not RunStatus.RUNNING:
            terms.append("runs.phase = ?")
            values.append(int(wanted.statuses[0]))
    if wanted.workflow_type:
        terms.append("runs.workflow_type = ?")
        values.append(wanted.workflow_type)
    if wanted.task_queue:
        terms.append("runs.task_queue = ?")
        values.append(wanted.task_queue)
    for attribute in wanted.attributes:
        if attribute != led:
            terms.append(_HAS_ATTRIBUTE)
            values += attribute
    if wanted.query and text:
        terms.append("(instr(lower(runs.workflow_id), ?) OR instr(lower(runs.workflow_type), ?))")
        values += [wanted.query.lower()] * 2
    return terms, values


def _led_by_text(db: sqlite3.Connection, wanted: RunFilter) -> bool:
    """Whether the text index leads: not for few letters, nor where the other filters leave little
    to look at. (Without it only ASCII letters are alike in both cases.)"""
    if len(wanted.query) < _TRIGRAM:
        return False
    if not wanted.query.isascii():
        return True
    if _narrow(wanted) and _counted(db, wanted) <= EXACT_TOTAL:
        return False
    return not wanted.attributes or _rarest_attribute(db, wanted)[0] > EXACT_TOTAL


def _leading_attribute(db: sqlite3.Connection, wanted: RunFilter) -> Attribute | None:
    """The rarest one, unless status and type leave less to look at."""
    if not wanted.attributes:
        return None
    having, attribute = _rarest_attribute(db, wanted)
    return None if _narrow(wanted) and _counted(db, wanted) < having else attribute


def _rarest_attribute(db: sqlite3.Connection, wanted: RunFilter) -> tuple[int, Attribute]:
    """With how many runs have it, counted up to the bound."""
    bound = EXACT_TOTAL + 1
    return min(
        (db.execute(_HAVING, (wanted.namespace, *each, bound)).fetchone()[0], each)
        for each in wanted.attributes
    )


def _narrow(wanted: RunFilter) -> bool:
    return bool(wanted.statuses or wanted.workflow_type)


def _leading_index(db: sqlite3.Connection, wanted: RunFilter) -> str:
    one_status = wanted.statuses[0] if len(wanted.statuses) == 1 else None
    if one_status is RunStatus.RUNNING:
        return "runs_running"
    if wanted.workflow_type:
        index = "runs_by_type" if one_status is None else "runs_by_type_phase"
    else:
        index = "runs_by_namespace" if one_status is None else "runs_by_phase"
    if not wanted.task_queue:
        return index
    if index == "runs_by_namespace":
        return "runs_by_queue"
    # A rare queue among many runs, or few runs in a busy queue?
    in_queue = db.execute(
        "SELECT count(*) FROM (SELECT 1 FROM runs INDEXED BY runs_by_queue"
        " WHERE namespace = ? AND task_queue = ? LIMIT ?)",
        (wanted.namespace, wanted.task_queue, EXACT_TOTAL),
    ).fetchone()[0]
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
    if not (wanted.query or wanted.task_queue or wanted.attributes or timed):
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
    """By status and type alone."""
    by_status = _by_status(db, wanted.namespace, wanted.workflow_type)
    if not wanted.statuses:
        return sum(by_status.values())
    return sum(by_status.get(int(status), 0) for status in wanted.statuses)


def _by_status(db: sqlite3.Connection, namespace: str, workflow_type: str) -> dict[int, int]:
    """From the counters, where running runs count as waiting; those are counted by their index,
    which has no more of them than there are leases."""
    only, values = "", [namespace]
    if workflow_type:
        only, values = " AND workflow_type = ?", [namespace, workflow_type]
    found = dict(
        db.execute(
            f"SELECT phase, sum(runs) FROM counters WHERE namespace = ?{only} GROUP BY phase",
            values,
        )
    )
    running = db.execute(
        "SELECT count(*) FROM runs INDEXED BY runs_running"
        f" WHERE status = 1 AND namespace = ?{only}",
        values,
    ).fetchone()[0]
    if running:
        found[int(RunStatus.RUNNING)] = running
        found[int(RunStatus.WAITING)] -= running
    return found
