"""Aggregates put together again from their rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from typing import TypeVar

from google.protobuf.message import DecodeError

from raftflow.cluster.codec import pending, rows
from raftflow.cluster.codec.events import decode_event
from raftflow.cluster.codec.shapes import UnknownValue
from raftflow.cluster.store.batch import NUMBER_BITS
from raftflow.cluster.store.errors import CorruptRecord
from raftflow.cluster.store.records import BadRecord, unframe
from raftflow.cluster.store.views import PAGE_BYTES, Loaded, StoredRun
from raftflow.engine.events import ChildStarted, Event, StepScheduled, WorkflowStarted
from raftflow.engine.ids import RunKey, WorkflowKey
from raftflow.engine.state import Message, RequestRecord, Run, RunStatus, Signal, Step

T = TypeVar("T")

# A damaged row may have lost even its type.
_RECORD = "CAST(record AS BLOB)"
_NEWEST = """SELECT run_no, run_id FROM runs WHERE namespace = ? AND workflow_id = ?
    ORDER BY run_no DESC LIMIT 1"""
_OLDER = """SELECT count(*) FROM runs INDEXED BY runs_by_workflow
    WHERE namespace = ? AND workflow_id = ? AND run_no < ?"""


class Aggregates:
    """Reads over one connection. Every record is verified."""

    def __init__(self, path: str, db: sqlite3.Connection) -> None:
        self._path = path
        self._db = db

    # ---- keys -----------------------------------------------------------------------------------

    def run_no(self, key: RunKey) -> int | None:
        # By run id: a workflow id may have had thousands of runs.
        row = self._db.execute(
            "SELECT run_no FROM runs INDEXED BY runs_by_run_id"
            " WHERE run_id = ? AND namespace = ? AND workflow_id = ?",
            (key.run_id, key.namespace, key.workflow_id),
        ).fetchone()
        return row and int(row[0])

    def newest(self, workflow: WorkflowKey) -> tuple[int, str] | None:
        row: tuple[int, str] | None = self._db.execute(
            _NEWEST, (workflow.namespace, workflow.workflow_id)
        ).fetchone()
        return row

    # ---- loading --------------------------------------------------------------------------------

    def load(
        self,
        workflows: Iterable[WorkflowKey],
        runs: Iterable[RunKey],
        requests: Iterable[tuple[str, str]],
    ) -> Loaded:
        loaded = Loaded()
        for workflow in workflows:
            newest = self.newest(workflow)
            if newest is not None:
                run_no, run_id = newest
                loaded.current[workflow] = run_id
                key = RunKey(workflow.namespace, workflow.workflow_id, run_id)
                self._load_run(loaded, key, run_no)
        for key in runs:
            if key not in loaded.runs:
                found = self.run_no(key)
                if found is not None:
                    self._load_run(loaded, key, found)
        for request in requests:
            record = self.request(*request)
            if record is not None:
                loaded.requests[request] = record
        return loaded

    def find(self, key: RunKey) -> Run | None:
        """One run. Raises CorruptRecord."""
        run_no = self.run_no(key)
        return None if run_no is None else self.run(run_no)

    def _load_run(self, loaded: Loaded, key: RunKey, run_no: int) -> None:
        try:
            run = self.run(run_no)
        except CorruptRecord as error:
            loaded.damaged[key] = error
            run = self._stand_in(key, run_no, error)
        older = self._db.execute(_OLDER, (key.namespace, key.workflow_id, run_no))
        run.older_runs = older.fetchone()[0]
        loaded.runs[key] = StoredRun(run, run_no)

    def head(self, run_no: int) -> tuple[Run, bool]:
        """What its own row says of a run, and whether it has input. Raises CorruptRecord."""
        where = f"runs row {run_no}"
        row = self._db.execute(f"SELECT {_RECORD} FROM runs WHERE run_no = ?", (run_no,)).fetchone()
        number, run, has_input = self._read(row[0], rows.decode_run, where)
        if number != run_no:
            raise CorruptRecord(self._path, where, f"it is the row of run number {number}")
        return run, has_input

    def run(self, run_no: int) -> Run:
        """The whole aggregate. Raises CorruptRecord."""
        run, has_input = self.head(run_no)
        if has_input:
            run.input = self._event_input(run_no, 1)
        run.steps.extend(self._steps(run_no))
        for signal in self.signals(run_no, untaken=True):
            run.signals[signal.event_id] = signal
        for arrival in self._arrivals(run_no):
            run.arrivals[arrival.event_id] = arrival
        run.outbox.update(self._outbox(run_no))
        return run

    def _steps(self, run_no: int) -> Iterable[Step]:
        found = self._db.execute(
            f"SELECT step_no, {_RECORD} FROM steps WHERE step_no BETWEEN ? AND ? ORDER BY step_no",
            _range(run_no),
        ).fetchall()
        for expected, (number, record) in enumerate(found, start=1):
            where = f"steps row {number}"
            step, has_input = self._read(record, rows.decode_step, where)
            if step.sequence != expected:
                raise CorruptRecord(self._path, where, f"step {expected} of the run is missing")
            if has_input:
                step.input = self._event_input(run_no, step.scheduled_event_id)
            yield step

    def _event_input(self, run_no: int, event_id: int) -> bytes:
        number = run_no << NUMBER_BITS | event_id
        where = f"events row {number}"
        row = self._db.execute(
            f"SELECT {_RECORD} FROM events WHERE event_no = ?", (number,)
        ).fetchone()
        if row is None:
            raise CorruptRecord(self._path, where, "it is missing")
        body = self._read(row[0], decode_event, where).body
        if not isinstance(body, StepScheduled | ChildStarted | WorkflowStarted):
            raise CorruptRecord(self._path, where, f"a {type(body).__name__} has no input")
        return body.input

    def _stand_in(self, key: RunKey, run_no: int, error: CorruptRecord) -> Run:
        """A damaged run, as far as its searchable columns tell."""
        row = self._db.execute(
            "SELECT workflow_type, task_queue, started_ms, updated_ms, history_length"
            " FROM runs WHERE run_no = ?",
            (run_no,),
        ).fetchone()
        return Run(
            key=key,
            workflow_type=row[0],
            task_queue=row[1],
            status=RunStatus.UNKNOWN,
            started_ms=row[2],
            updated_ms=row[3],
            history_length=row[4],
            suspended_reason=str(error),
        )

    def signals(self, run_no: int, *, untaken: bool = False) -> list[Signal]:
        only = " AND taken = 0" if untaken else ""
        found = self._db.execute(
            f"SELECT signal_no, {_RECORD} FROM signals WHERE signal_no BETWEEN ? AND ?"
            f"{only} ORDER BY signal_no",
            _range(run_no),
        ).fetchall()
        return [self._read(record, rows.decode_signal, f"signals row {no}") for no, record in found]

    def _arrivals(self, run_no: int) -> list[Event]:
        found = self._db.execute(
            f"SELECT arrival_no, {_RECORD} FROM arrivals WHERE arrival_no BETWEEN ? AND ?"
            " ORDER BY arrival_no",
            _range(run_no),
        ).fetchall()
        return [
            self._read(record, pending.decode_arrival, f"arrivals row {no}") for no, record in found
        ]

    def _outbox(self, run_no: int) -> list[tuple[int, Message]]:
        found = self._db.execute(
            f"SELECT message_no, {_RECORD} FROM outbox WHERE message_no BETWEEN ? AND ?"
            " ORDER BY message_no",
            _range(run_no),
        ).fetchall()
        return [
            self._read(record, pending.decode_message, f"outbox row {no}") for no, record in found
        ]

    def request(self, namespace: str, request_id: str) -> RequestRecord | None:
        row = self._db.execute(
            f"SELECT {_RECORD} FROM requests WHERE namespace = ? AND request_id = ?",
            (namespace, request_id),
        ).fetchone()
        if row is None:
            return None
        return self._read(row[0], rows.decode_request, f"requests row {request_id!r}")

    def events(self, run_no: int, start: int, limit: int) -> list[bytes]:
        """Framed records of events ``start``, ``start`` + 1, ..., as many as a page has room for.
        Raises CorruptRecord."""
        found = self._db.execute(
            f"SELECT event_no, {_RECORD} FROM events WHERE event_no BETWEEN ? AND ?"
            " ORDER BY event_no LIMIT ?",
            (run_no << NUMBER_BITS | start, _range(run_no)[1], limit),
        )
        records: list[bytes] = []
        size = 0
        for expected, (number, record) in enumerate(found, start=run_no << NUMBER_BITS | start):
            where = f"events row {number}"
            if number != expected:
                raise CorruptRecord(self._path, where, "an event before it is missing")
            self._read(record, bytes, where)
            records.append(record)
            size += len(record)
            if size >= PAGE_BYTES:
                break
        return records

    def _read(self, record: bytes, decode: Callable[[bytes], T], where: str) -> T:
        try:
            return decode(unframe(record))
        except (BadRecord, DecodeError, UnknownValue) as error:
            raise CorruptRecord(self._path, where, str(error)) from error


def _range(run_no: int) -> tuple[int, int]:
    return run_no << NUMBER_BITS, (run_no << NUMBER_BITS) | ((1 << NUMBER_BITS) - 1)
