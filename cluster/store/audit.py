"""What must be true of the rows between two entries, looked at slice by slice.

A slice is one read transaction, so it sees the state after one entry. It reads each of its runs as
apply would, holds it against its timer rows, its history and its searchable columns, and looks for
rows that belong to no run. Three passes make a walk: runs, remembered requests, counters.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from google.protobuf.message import DecodeError

from raftflow.cluster.codec import rows
from raftflow.cluster.codec.shapes import UnknownValue
from raftflow.cluster.store.aggregates import Aggregates
from raftflow.cluster.store.batch import NUMBER_BITS
from raftflow.cluster.store.errors import CorruptRecord
from raftflow.cluster.store.paging import forward
from raftflow.cluster.store.readers import applied_state
from raftflow.cluster.store.records import BadRecord, unframe
from raftflow.engine import invariants
from raftflow.engine.commands import TimerKind
from raftflow.engine.ids import RunKey
from raftflow.engine.rejections import Started
from raftflow.engine.state import ReportChild, Run, StepKind, StepStatus

INVARIANTS = (*invariants.RUN_INVARIANTS, "history", "rows", "records", "children", "requests")

RUNS, REQUESTS, TOTALS = range(3)
_SLICE_S = 0.010
_SLICE_ROWS = 256
_LAST_RUN = (1 << 39) - 1
_TIMER_KIND = {int(item): item for item in TimerKind}

# Tables keyed by run_no << 24 | number, and those keyed by run_no.
_NUMBERED = {
    "events": "event_no",
    "steps": "step_no",
    "signals": "signal_no",
    "arrivals": "arrival_no",
    "outbox": "message_no",
}
_BY_RUN = ("timers", "attributes", "memos")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a slice begins: after this run number, or after this request."""

    stage: int = RUNS
    run_no: int = 0
    request: tuple[str, str] = ("", "")


@dataclass(frozen=True, slots=True)
class Finding:
    """An invariant that does not hold, where, and how. Ids are empty where no run is concerned."""

    invariant: str
    namespace: str
    workflow_id: str
    run_id: str
    problem: str


@dataclass(frozen=True, slots=True)
class Slice:
    """What was looked at after which entry. ``following`` None: the walk is over. ``cpu_s`` is what
    it cost, however long it had to wait for the processor."""

    index: int
    checked: int
    findings: tuple[Finding, ...]
    following: Place | None
    cpu_s: float = 0.0


def look(path: str, db: sqlite3.Connection, place: Place) -> Slice:
    """On a reader's thread, within its transaction."""
    began = time.thread_time()
    if place.stage == RUNS:
        part = _runs(path, db, place.run_no)
    elif place.stage == REQUESTS:
        part = _requests(db, place.request)
    else:
        part = Slice(applied_state(db).index, 1, tuple(_totals(db)), None)
    return replace(part, cpu_s=time.thread_time() - began)


# ---- runs -------------------------------------------------------------------------------------

_HEADERS = """SELECT run_no, namespace, workflow_id, run_id, status, phase, closed_ms,
    history_length, decision_state FROM runs WHERE run_no > ? ORDER BY run_no LIMIT ?"""


def _runs(path: str, db: sqlite3.Connection, after: int) -> Slice:
    applied = applied_state(db)
    aggregates = Aggregates(path, db)
    found: list[Finding] = []
    until = time.thread_time() + _SLICE_S
    headers = db.execute(_HEADERS, (after, _SLICE_ROWS)).fetchall()
    forward((header[0] for header in headers), after)
    checked = 0
    for header in headers:
        run_no, who = header[0], RunKey(*header[1:4])
        found += _strays(db, after + 1, run_no - 1)
        try:
            run = aggregates.run(run_no)
        except CorruptRecord as error:
            found.append(Finding("records", *who, str(error)))
        else:
            problems = [
                *_row_problems(db, who, header[4:], run, run_no),
                *_child_problems(db, aggregates, run),
            ]
            found += [Finding(name, *who, problem) for name, problem in problems]
        if run_no >= applied.next_run_no:
            found.append(Finding("counts", *who, f"run number {run_no} was never given"))
        checked, after = checked + 1, run_no
        if time.thread_time() > until:
            break
    if checked < len(headers) or len(headers) == _SLICE_ROWS:
        return Slice(applied.index, checked, tuple(found), Place(RUNS, after))
    found += _strays(db, after + 1, _LAST_RUN)
    return Slice(applied.index, checked, tuple(found), Place(REQUESTS))


def _row_problems(
    db: sqlite3.Connection, who: RunKey, columns: tuple[int, ...], run: Run, run_no: int
) -> Iterator[tuple[str, str]]:
    timers = db.execute(
        "SELECT kind, sequence, fire_at_ms FROM timers WHERE run_no = ?", (run_no,)
    ).fetchall()
    armed = {(_TIMER_KIND.get(kind, kind), sequence): at for kind, sequence, at in timers}
    yield from invariants.findings(run, armed)
    status = int(run.status)
    wanted = (status, max(status, 2), run.closed_ms, run.history_length, int(run.decision.state))
    if (who, columns) != (run.key, wanted):
        yield "records", f"its columns say {(*who, *columns)}, its record {(*run.key, *wanted)}"
    low, high = run_no << NUMBER_BITS, ((run_no + 1) << NUMBER_BITS) - 1
    states = dict(
        db.execute(
            "SELECT step_no, task_state FROM steps INDEXED BY steps_open_tasks"
            " WHERE task_state IN (1, 2) AND step_no BETWEEN ? AND ?",
            (low, high),
        ).fetchall()
    )
    offered = {
        low | step.sequence: int(step.task.state)
        for step in run.steps
        if int(step.task.state) in (1, 2)
    }
    if states != offered:
        yield "tasks", f"the index of open tasks has {len(states)} of its steps, not {len(offered)}"
    count, first, last = db.execute(
        "SELECT count(*), min(event_no), max(event_no) FROM events WHERE event_no BETWEEN ? AND ?",
        (low, high),
    ).fetchone()
    length = run.history_length
    if (count, first, last) != (length, low | 1, low | length):
        told = f"{count} events" + (f", {first & 0xFFFFFF} to {last & 0xFFFFFF}" if count else "")
        yield "history", f"the history has {told}; its length is {length}"


_CHILDREN = """SELECT run_no FROM runs INDEXED BY runs_by_workflow
    WHERE namespace = ? AND workflow_id = ? ORDER BY run_no DESC"""


def _child_problems(
    db: sqlite3.Connection, aggregates: Aggregates, run: Run
) -> Iterator[tuple[str, str]]:
    """A parent that waits for a child hears of it: one of the child's runs is open, or what it came
    to is on its way."""
    for step in run.steps:
        waits = step.kind is StepKind.CHILD and step.status is StepStatus.SCHEDULED
        if not waits or not step.run_id or step.arrived:
            continue
        kin = (run.key.workflow_id, run.key.run_id, step.sequence)
        runs = db.execute(_CHILDREN, (run.key.namespace, step.workflow_id))
        try:
            if any(_will_tell(aggregates.run(run_no), kin) for (run_no,) in runs):
                continue
        except CorruptRecord:
            continue  # told of that run itself
        yield "children", f"it waits for the child of step {step.sequence}, which is gone"


def _will_tell(child: Run, kin: tuple[str, str, int]) -> bool:
    if (child.parent_workflow_id, child.parent_run_id, child.parent_sequence) != kin:
        return False
    return child.open or any(isinstance(each, ReportChild) for each in child.outbox.values())


def _strays(db: sqlite3.Connection, first: int, last: int) -> Iterator[Finding]:
    """Rows of run numbers that have no run."""
    if first > last:
        return
    low, high = first << NUMBER_BITS, ((last + 1) << NUMBER_BITS) - 1
    for table, column in _NUMBERED.items():
        row = db.execute(
            f"SELECT {column} FROM {table} WHERE {column} BETWEEN ? AND ? LIMIT 1", (low, high)
        ).fetchone()
        if row is not None:
            run_no, number = row[0] >> NUMBER_BITS, row[0] & ((1 << NUMBER_BITS) - 1)
            yield _stray(f"{table} has row {number} of run number {run_no}, which is not there")
    for table in _BY_RUN:
        row = db.execute(
            f"SELECT run_no FROM {table} WHERE run_no BETWEEN ? AND ? LIMIT 1", (first, last)
        ).fetchone()
        if row is not None:
            yield _stray(f"{table} has a row of run number {row[0]}, which is not there")


def _stray(problem: str) -> Finding:
    return Finding("rows", "", "", "", problem)


# ---- the rest -----------------------------------------------------------------------------------

_REMEMBERED = """SELECT namespace, request_id, expires_ms, CAST(record AS BLOB) FROM requests
    WHERE (namespace, request_id) > (?, ?) ORDER BY namespace, request_id LIMIT ?"""


def _requests(db: sqlite3.Connection, after: tuple[str, str]) -> Slice:
    """What was answered is what a repeated call will be told: the run must be there, unless runs
    have been deleted."""
    applied = applied_state(db)
    kept = db.execute("SELECT total(runs) FROM counters").fetchone()[0]
    forgotten = kept != applied.next_run_no - 1
    found: list[Finding] = []
    remembered = db.execute(_REMEMBERED, (*after, _SLICE_ROWS)).fetchall()
    forward((row[:2] for row in remembered), after)
    for namespace, request_id, expires_ms, record in remembered:
        after = (namespace, request_id)
        try:
            request = rows.decode_request(unframe(record))
        except (BadRecord, DecodeError, UnknownValue) as error:
            problem = f"request {request_id!r}: {error}"
            found.append(Finding("records", namespace, "", "", problem))
            continue
        if (request.namespace, request.request_id, request.expires_ms) != (*after, expires_ms):
            problem = f"request {request_id!r} has the record of {request.request_id!r}"
            found.append(Finding("requests", namespace, "", "", problem))
        answer = request.answer
        if not isinstance(answer, Started) or forgotten:
            continue
        if not db.execute("SELECT 1 FROM runs WHERE run_id = ?", (answer.run_id,)).fetchone():
            problem = f"request {request_id!r} was answered with this run, which is not there"
            found.append(Finding("requests", namespace, answer.workflow_id, answer.run_id, problem))
    following = Place(REQUESTS, 0, after) if len(remembered) == _SLICE_ROWS else Place(TOTALS)
    return Slice(applied.index, len(remembered), tuple(found), following)


# Both along a covering index, in its order. SQLite lets go of the interpreter meanwhile.
_COUNTED = """SELECT namespace, workflow_type, phase, count(*)
    FROM runs INDEXED BY runs_by_type_phase GROUP BY namespace, workflow_type, phase"""
_COUNTERS = "SELECT namespace, workflow_type, phase, runs FROM counters WHERE runs <> 0"


def _totals(db: sqlite3.Connection) -> Iterator[Finding]:
    there = {tuple(row[:3]): row[3] for row in db.execute(_COUNTED)}
    counted = {tuple(row[:3]): row[3] for row in db.execute(_COUNTERS)}
    for key in sorted(there.keys() | counted.keys(), key=repr):
        if there.get(key, 0) != counted.get(key, 0):
            namespace, workflow_type, phase = key
            problem = (
                f"{counted.get(key, 0)} runs of type {workflow_type!r} with status {phase} are"
                f" counted, {there.get(key, 0)} are there"
            )
            yield Finding("counts", str(namespace), "", "", problem)
