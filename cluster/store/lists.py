"""Lists of runs: newest first, filtered, searched, counted; never a scan of everything.

Times become bounds on run numbers (both rise with the log). What matches is found by a walk down
the run numbers (`walk.py`), which ends when the page is full or its time is over: then the page is
short, and its cursor goes on from there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from raftflow.cluster.codec.shapes import UnknownValue
from raftflow.cluster.store import filters
from raftflow.cluster.store.batch import json_of
from raftflow.cluster.store.filters import EXACT_TOTAL, Selection
from raftflow.cluster.store.records import Words
from raftflow.cluster.store.views import (
    PAGE_BYTES,
    BadCursor,
    RunCounts,
    RunFilter,
    RunPage,
    RunSummary,
)
from raftflow.cluster.store.walk import Walk
from raftflow.engine.ids import RunKey, WorkflowKey
from raftflow.engine.state import RunStatus

# What a call has, in all: a page is looked for and then, where no counter knows, its total.
_PAGE_BUDGET_S = 0.07
_COUNT_BUDGET_S = 0.07
_LAST_RUN_NO = (1 << 63) - 1

_COLUMNS = (
    "namespace, workflow_id, run_id, workflow_type, task_queue, status, started_ms, updated_ms,"
    " closed_ms, history_length, run_no"
)
_STATUS = Words({int(item): item for item in RunStatus})
_LABELS_AT_ONCE = 10  # each run may have megabytes of them


def counts(db: sqlite3.Connection, wanted: RunFilter) -> RunCounts:
    """How many of each status. What the filter says of statuses and pages is not looked at."""
    if filters.by_counters_alone(wanted):
        return _counts(filters.by_status(db, wanted), exact=True)
    low, high = _bounds(db, wanted)
    selection = filters.select(db, replace(wanted, statuses=()))
    walk = Walk(db, selection, low, high, budget_s=_COUNT_BUDGET_S)
    found = walk.by_status()
    return _counts(found, exact=walk.done)


def _counts(by_status: dict[int, int], *, exact: bool) -> RunCounts:
    found = {_STATUS[status]: runs for status, runs in sorted(by_status.items()) if runs}
    return RunCounts(sum(found.values()), exact, found)


def runs_of(
    db: sqlite3.Connection, workflow: WorkflowKey, cursor: str, limit: int
) -> tuple[list[RunSummary], str]:
    """A page of an id's runs, newest first, and where the next one begins."""
    found = db.execute(
        "SELECT run_no FROM runs INDEXED BY runs_by_workflow"
        " WHERE namespace = ? AND workflow_id = ? AND run_no <= ? ORDER BY run_no DESC LIMIT ?",
        (workflow.namespace, workflow.workflow_id, _cursor(cursor, _LAST_RUN_NO), limit + 1),
    ).fetchall()
    numbers = [number for (number,) in found]
    runs = summaries(db, numbers[:limit])
    return runs, str(numbers[len(runs) - 1]) if 0 < len(runs) < len(numbers) else ""


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
    selection = filters.select(db, wanted)
    walk = Walk(db, selection, low, top, budget_s=_PAGE_BUDGET_S)
    numbers = walk.numbers(wanted.offset + wanted.limit + 1)
    found = numbers[wanted.offset :]
    runs = summaries(db, found[: wanted.limit])
    if len(runs) < len(found):
        cursor = str(found[len(runs) - 1]) if runs else ""
    else:
        cursor = "" if walk.done else str(walk.top + 1)  # older runs were not looked at
    total, exact = len(numbers), True
    if wanted.cursor or not walk.done:
        total, exact = _total(db, wanted, selection, low, high)
    return RunPage(
        total=total,
        total_exact=exact,
        runs=tuple(runs),
        next_cursor=cursor,
        applied_index=applied_index,
    )


def _total(
    db: sqlite3.Connection, wanted: RunFilter, selection: Selection, low: int, high: int
) -> tuple[int, bool]:
    if filters.by_counters_alone(wanted):
        return filters.counted(db, wanted), True
    walk = Walk(db, selection, low, high, budget_s=_COUNT_BUDGET_S)
    total = walk.count(EXACT_TOTAL + 1)
    return min(total, EXACT_TOTAL), walk.done and total <= EXACT_TOTAL


def summaries(db: sqlite3.Connection, numbers: Sequence[int]) -> list[RunSummary]:
    """The first of these runs, as many as a page has room for with their labels."""
    found: list[RunSummary] = []
    size = 0
    for start in range(0, len(numbers), _LABELS_AT_ONCE):
        part = numbers[start : start + _LABELS_AT_ONCE]
        chosen = f"WHERE run_no IN ({','.join('?' * len(part))})"
        rows = {row[-1]: row for row in db.execute(f"SELECT {_COLUMNS} FROM runs {chosen}", part)}
        attributes: dict[int, list[tuple[str, str]]] = {}
        for run_no, name, value, is_text in db.execute(
            f"SELECT run_no, name, value, is_text FROM attributes {chosen}", part
        ):
            attributes.setdefault(run_no, []).append((name, json_of(value, is_text=is_text)))
        memos = dict(db.execute(f"SELECT run_no, memo FROM memos {chosen}", part))
        for run_no in part:
            if run_no not in rows:
                raise UnknownValue(f"an index leads to run {run_no!r:.40}, which is not there")
            labels, memo = attributes.get(run_no, ()), memos.get(run_no, "")
            found.append(_summary(rows[run_no], labels, memo))
            size += len(memo) + sum(len(name) + len(value) for name, value in labels)
            if size >= PAGE_BYTES:
                return found
    return found


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


# ---- which part of the log ----------------------------------------------------------------------


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
