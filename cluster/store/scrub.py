"""Read all of a store, slowly: is every page sound, does every record verify?

In steps, each a short read transaction: what reads for hours must not hold the WAL for hours.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from raftflow.cluster.codec.shapes import UnknownValue
from raftflow.cluster.store.errors import (
    FETCH,
    CorruptRecord,
    StoreDamaged,
    senseless,
    unreadable,
)
from raftflow.cluster.store.paging import forward
from raftflow.cluster.store.records import BadRecord, unframe

_ROWS = 500
# Tables with records, and what orders their rows.
_NUMBERED = (
    ("runs", "run_no"),
    ("events", "event_no"),
    ("steps", "step_no"),
    ("signals", "signal_no"),
    ("arrivals", "arrival_no"),
    ("outbox", "message_no"),
    ("audit_log", "audit_no"),
)


def steps(path: str, db: sqlite3.Connection) -> Iterator[int]:
    """Yields about how many bytes each step has read. Raises StoreDamaged, CorruptRecord."""
    try:
        yield from _pages(path, db)
        for table, number in _NUMBERED:
            yield from _records(path, db, table, number)
        yield from _named(path, db)
    except sqlite3.Error as error:
        raise unreadable(path, error) from error
    except UnknownValue as error:
        raise senseless(path, error) from error


def _pages(path: str, db: sqlite3.Connection) -> Iterator[int]:
    sizes = dict(
        db.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name").fetchall()
        if _has_dbstat(db)
        else []
    )
    tables = [row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    for table in tables:
        quoted = table.replace("'", "''")
        found = [row[0] for row in db.execute(f"PRAGMA quick_check('{quoted}')")]
        if found != ["ok"]:
            raise StoreDamaged(path, f"table {table}: {found[0]}", FETCH)
        yield int(sizes.get(table, 4096))


def _has_dbstat(db: sqlite3.Connection) -> bool:
    return any(row[0] == "ENABLE_DBSTAT_VTAB" for row in db.execute("PRAGMA compile_options"))


def _records(path: str, db: sqlite3.Connection, table: str, number: str) -> Iterator[int]:
    question = f"SELECT {number}, record FROM {table} WHERE {number} > ? ORDER BY {number} LIMIT ?"
    after = -(1 << 62)
    while rows := db.execute(question, (after, _ROWS)).fetchall():
        forward((row[0] for row in rows), after)
        yield sum([_verify(path, f"{table} {row}", record) for row, record in rows])
        after = rows[-1][0]


def _named(path: str, db: sqlite3.Connection) -> Iterator[int]:
    """Namespaces and tokens are few; requests are read in the order of their keys."""
    for table, key in (("namespaces", "name"), ("tokens", "token_id")):
        rows = db.execute(f"SELECT {key}, record FROM {table}").fetchall()
        yield sum([_verify(path, f"{table} {name}", record) for name, record in rows])
    question = """SELECT namespace, request_id, record FROM requests
        WHERE (namespace, request_id) > (?, ?) ORDER BY namespace, request_id LIMIT ?"""
    after = ("", "")
    while rows := db.execute(question, (*after, _ROWS)).fetchall():
        forward((row[:2] for row in rows), after)
        yield sum([_verify(path, f"requests {request}", record) for _, request, record in rows])
        after = rows[-1][:2]


def _verify(path: str, where: str, record: object) -> int:
    if not isinstance(record, bytes):
        raise CorruptRecord(path, where, "it is no record") from BadRecord("no bytes")
    try:
        unframe(record)
    except BadRecord as error:
        raise CorruptRecord(path, where, str(error)) from error
    return len(record)
