"""The audit log, read. A page looks at a bounded number of rows, whatever the filter leaves of
them, and goes on by cursor: rows are small, and an index for each thing that may be asked would
cost every call that is noted."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from google.protobuf.message import DecodeError

from raftflow.cluster.codec import rows
from raftflow.cluster.codec.shapes import UnknownValue
from raftflow.cluster.store.errors import CorruptRecord
from raftflow.cluster.store.records import BadRecord, unframe
from raftflow.cluster.store.views import AuditFilter, AuditPage
from raftflow.engine.state import AuditRecord

LOOKS = 20_000
_SLICE = 500
_LAST = (1 << 63) - 1


def page(path: str, db: sqlite3.Connection, wanted: AuditFilter) -> AuditPage:
    found: list[AuditRecord] = []
    looked, place = 0, 0
    for record in _records(path, db, wanted):
        if len(found) == wanted.limit or looked == LOOKS:
            return AuditPage(found, place)
        looked, place = looked + 1, record.audit_no
        if _is_past(record, wanted):
            break
        if _matches(record, wanted):
            found.append(record)
    return AuditPage(found, 0)


def outdated(db: sqlite3.Connection, before_ms: int, limit: int) -> int:
    """The last of the oldest rows that may go, so many at most; 0 when none may."""
    found: int | None = db.execute(
        "SELECT max(audit_no) FROM (SELECT audit_no FROM audit_log INDEXED BY audit_by_time"
        " WHERE time_ms < ? ORDER BY time_ms, audit_no LIMIT ?)",
        (before_ms, limit),
    ).fetchone()[0]
    return found or 0


def _records(path: str, db: sqlite3.Connection, wanted: AuditFilter) -> Iterator[AuditRecord]:
    """In the order asked for, from the cursor or the bound of time on."""
    place = wanted.cursor or _start(db, wanted)
    compared, order = (">", "ASC") if wanted.oldest_first else ("<", "DESC")
    question = (
        f"SELECT audit_no, CAST(record AS BLOB) FROM audit_log WHERE audit_no {compared} ?"
        f" ORDER BY audit_no {order} LIMIT ?"
    )
    while slice_ := db.execute(question, (place, _SLICE)).fetchall():
        for place, record in slice_:
            try:
                yield rows.decode_audit(unframe(record))
            except (BadRecord, DecodeError, UnknownValue) as error:
                raise CorruptRecord(path, f"audit_log row {place}", str(error)) from error


def _start(db: sqlite3.Connection, wanted: AuditFilter) -> int:
    """The place before the first row."""
    if wanted.oldest_first:
        last = _last_before(db, wanted.after_ms)
        return last or 0
    if wanted.before_ms is None:
        return _LAST
    last = _last_before(db, wanted.before_ms)
    return 0 if last is None else last + 1


def _last_before(db: sqlite3.Connection, time_ms: int | None) -> int | None:
    found: int | None = db.execute(
        "SELECT max(audit_no) FROM audit_log WHERE time_ms ="
        " (SELECT max(time_ms) FROM audit_log WHERE time_ms < ?)",
        (time_ms or 0,),
    ).fetchone()[0]
    return found


def _is_past(record: AuditRecord, wanted: AuditFilter) -> bool:
    if wanted.oldest_first:
        return wanted.before_ms is not None and record.time_ms >= wanted.before_ms
    return wanted.after_ms is not None and record.time_ms < wanted.after_ms


def _matches(record: AuditRecord, wanted: AuditFilter) -> bool:
    asked = (
        (wanted.actor, record.actor),
        (wanted.call, record.call),
        (wanted.namespace, record.namespace),
        (wanted.target, record.target),
        (wanted.outcome, record.outcome),
    )
    return all(not value or value == has for value, has in asked)
