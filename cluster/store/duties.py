"""What a node reads when it starts and while it leads: catalog, open tasks, timers, messages, and
what has been kept long enough."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from google.protobuf.message import DecodeError

from raftflow.cluster.codec import rows
from raftflow.cluster.codec.shapes import UnknownValue
from raftflow.cluster.sieve import bits_of
from raftflow.cluster.store.batch import NUMBER_BITS
from raftflow.cluster.store.errors import StoreDamaged
from raftflow.cluster.store.paging import forward
from raftflow.cluster.store.records import BadRecord, Words, unframe
from raftflow.cluster.store.views import ClosedRun, MessagePage, OpenTask, TaskPage
from raftflow.engine.commands import TimerKind
from raftflow.engine.effects import SendMessage
from raftflow.engine.ids import RunKey
from raftflow.engine.state import OPEN_STATUSES, Catalog, TaskState, TimerRow

T = TypeVar("T")

_TIMER_KIND = Words({int(item): item for item in TimerKind})


def catalog(path: str, db: sqlite3.Connection) -> Catalog:
    found = Catalog()
    for name, record in db.execute("SELECT name, record FROM namespaces ORDER BY name"):
        found.namespaces[name] = _read(path, f"namespace {name!r}", record, rows.decode_namespace)
    for token_id, record in db.execute("SELECT token_id, record FROM tokens ORDER BY token_id"):
        found.tokens[token_id] = _read(path, f"token {token_id!r}", record, rows.decode_token)
    phases = ",".join([str(int(status)) for status in OPEN_STATUSES])
    counted = f"SELECT namespace, sum(runs) FROM counters WHERE phase IN ({phases}) GROUP BY 1"
    found.open_runs.update(db.execute(counted).fetchall())
    found.types.update(db.execute("SELECT namespace, workflow_type FROM types").fetchall())
    return found


def _read(path: str, what: str, record: bytes, decode: Callable[[bytes], T]) -> T:
    try:
        return decode(unframe(record))
    except (BadRecord, DecodeError, UnknownValue) as error:
        raise StoreDamaged(path, f"{what}: {error}", "fetch a copy from another node") from error


def oldest_request_ms(db: sqlite3.Connection) -> int | None:
    oldest: int | None = db.execute(
        "SELECT min(expires_ms) FROM requests INDEXED BY requests_by_expiry"
    ).fetchone()[0]
    return oldest


def request_bits(db: sqlite3.Connection) -> bytes:
    return bits_of(db.execute("SELECT namespace, request_id FROM requests"))


def timers_due(
    db: sqlite3.Connection, horizon_ms: int, after: TimerRow | None, limit: int
) -> list[TimerRow]:
    start = (-1, 0, 0, 0)
    if after is not None:
        key = after.run
        row = db.execute(
            "SELECT run_no FROM runs INDEXED BY runs_by_run_id"
            " WHERE run_id = ? AND namespace = ? AND workflow_id = ?",
            (key.run_id, key.namespace, key.workflow_id),
        ).fetchone()
        # Of a run that is gone meanwhile only the time is known.
        run_no = row[0] if row else 0
        start = (after.fire_at_ms, run_no, int(after.kind), after.sequence)
    found = db.execute(
        "SELECT namespace, workflow_id, run_id, fire_at_ms, timers.run_no, kind, sequence"
        " FROM timers INDEXED BY timers_by_time JOIN runs USING (run_no)"
        " WHERE (fire_at_ms, timers.run_no, kind, sequence) > (?, ?, ?, ?) AND fire_at_ms <= ?"
        " ORDER BY fire_at_ms, timers.run_no, kind, sequence LIMIT ?",
        (*start, horizon_ms, limit),
    ).fetchall()
    forward((row[3:] for row in found), start)
    return [
        TimerRow(RunKey(namespace, workflow_id, run_id), _TIMER_KIND[kind], sequence, fire_at)
        for namespace, workflow_id, run_id, fire_at, _, kind, sequence in found
    ]


# Open tasks are read in four passes, each along a partial index; a cursor is (pass, last number).
_QUEUED, _LEASED = int(TaskState.QUEUED), int(TaskState.LEASED)
_PASSES = (("runs", _QUEUED), ("runs", _LEASED), ("steps", _QUEUED), ("steps", _LEASED))

_DECISIONS = """SELECT run_no, namespace, workflow_id, run_id, record
    FROM runs INDEXED BY runs_open_decisions
    WHERE decision_state = ? AND decision_state IN (1, 2) AND run_no > ?
    ORDER BY run_no LIMIT ?"""
_ACTIVITIES = f"""SELECT step_no, namespace, workflow_id, run_id, steps.record
    FROM steps INDEXED BY steps_open_tasks
    CROSS JOIN runs ON run_no = step_no >> {NUMBER_BITS}
    WHERE task_state = ? AND task_state IN (1, 2) AND step_no > ?
    ORDER BY step_no LIMIT ?"""


def open_tasks(
    path: str, db: sqlite3.Connection, after: tuple[int, int] | None, limit: int
) -> TaskPage:
    number, last = after or (0, 0)
    tasks: list[OpenTask] = []
    while number < len(_PASSES) and len(tasks) < limit:
        table, state = _PASSES[number]
        sql = _DECISIONS if table == "runs" else _ACTIVITIES
        read = _decision if table == "runs" else _activity
        found = db.execute(sql, (state, last, limit - len(tasks))).fetchall()
        forward((row[0] for row in found), last)
        for row in found:
            try:
                tasks.append(read(row))
            except (BadRecord, DecodeError, UnknownValue):
                continue  # that run is found damaged, and named, when it is next loaded
        if found:
            last = found[-1][0]
        else:
            number, last = number + 1, 0
    return TaskPage(tasks, None if number >= len(_PASSES) else (number, last))


def _decision(row: tuple[Any, ...]) -> OpenTask:
    run = rows.decode_run(unframe(row[4]))[1]
    task = run.decision
    return OpenTask(
        run=run.key,
        sequence=0,
        attempt=0,
        name=run.workflow_type,
        task_queue=run.task_queue,
        leased=task.state is TaskState.LEASED,
        token=task.token,
        duration_ms=task.duration_ms,
        worker_id=task.worker_id,
        node=task.node,
        since_ms=run.updated_ms,
    )


def _activity(row: tuple[Any, ...]) -> OpenTask:
    step = rows.decode_step(unframe(row[4]))[0]
    task = step.task
    return OpenTask(
        run=RunKey(row[1], row[2], row[3]),
        sequence=step.sequence,
        attempt=task.attempt,
        name=step.name,
        task_queue=step.task_queue,
        leased=task.state is TaskState.LEASED,
        token=task.token,
        duration_ms=task.duration_ms,
        worker_id=task.worker_id,
        node=task.node,
        priority=step.priority,
        since_ms=max(step.scheduled_ms, task.backoff_until_ms, task.leased_ms),
    )


# The records are left alone: a message may carry a large input.
_OUTBOX = f"""SELECT message_no, namespace, workflow_id, run_id, target_workflow_id, target_run_id,
    starts FROM outbox CROSS JOIN runs ON run_no = message_no >> {NUMBER_BITS}
    WHERE message_no > ? ORDER BY message_no LIMIT ?"""
_NUMBER_MASK = (1 << NUMBER_BITS) - 1


def outbox(db: sqlite3.Connection, after: int, limit: int) -> MessagePage:
    found = db.execute(_OUTBOX, (after, limit)).fetchall()
    forward((row[0] for row in found), after)
    messages = [
        SendMessage(RunKey(*row[1:4]), row[0] & _NUMBER_MASK, row[4], row[5], starts=bool(row[6]))
        for row in found
    ]
    return MessagePage(messages, found[-1][0] if len(found) == limit else None)


_CLOSED = """SELECT namespace, workflow_id, run_id, closed_ms, run_no, history_length
    FROM runs INDEXED BY runs_by_closing
    WHERE namespace = ? AND closed_ms > 0 AND closed_ms < ? AND (closed_ms, run_no) > (?, ?)
    ORDER BY closed_ms, run_no LIMIT ?"""


def closed_runs(
    db: sqlite3.Connection, bounds: Mapping[str, int], after: ClosedRun | None, limit: int
) -> list[ClosedRun]:
    runs: list[ClosedRun] = []
    for namespace, before_ms in bounds.items():
        start = (0, 0)
        if after is not None:
            if namespace < after.key.namespace:
                continue
            if namespace == after.key.namespace:
                start = (after.closed_ms, after.run_no)
        found = db.execute(_CLOSED, (namespace, before_ms, *start, limit - len(runs))).fetchall()
        forward((row[3:5] for row in found), start)
        runs += [ClosedRun(RunKey(*row[:3]), *row[3:]) for row in found]
        if len(runs) == limit:
            break
    return runs
