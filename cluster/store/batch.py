"""What one applied entry writes: rows ready to be bound, keyed so that a later version of a row
replaces an earlier one when the writer merges many entries into a transaction."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from zlib import crc32

from raftflow.cluster.codec import pending, rows
from raftflow.cluster.codec.events import encode_event
from raftflow.cluster.store.records import frame
from raftflow.engine.events import SearchAttributesUpserted, WorkflowStarted
from raftflow.engine.ids import RunKey
from raftflow.engine.outbox import sending
from raftflow.engine.state import Changes, Run

# Bytes that a row costs in memory and in the file besides its record.
_ROW_OVERHEAD = 120
# Numbers of one run's rows: run_no << 24 | event id or sequence. Histories end long before.
NUMBER_BITS = 24

RunColumns = tuple[int, int, int, int, int, bytes, int]
"""status, updated_ms, closed_ms, history_length, decision_state, record, run_no"""

RunIdentity = tuple[str, str, str, str, str, int]
"""namespace, workflow_id, run_id, workflow_type, task_queue, started_ms"""

AttributeColumns = tuple[int, str, str, str, int]
"""run_no, name, namespace, value, is_text"""

MessageColumns = tuple[int, str, str, int, bytes]
"""message_no, target_workflow_id, target_run_id, starts, record"""


@dataclass(frozen=True, slots=True)
class Numbers:
    """The run numbers of what an entry changed, in the order of its changes. A run may be deleted
    and another one open under the same key."""

    of: Mapping[RunKey, int]
    opened: frozenset[RunKey] = frozenset()  # without a row so far
    deleted: Mapping[RunKey, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AppliedState:
    """How far a state is: everything up to ``index`` is in it."""

    index: int
    term: int
    time_ms: int
    digest: bytes
    next_run_no: int


@dataclass(slots=True)
class WriteBatch:
    """The rows of one entry, or of several in a row."""

    applied: AppliedState
    opened: dict[int, RunIdentity] = field(default_factory=dict)
    runs: dict[int, RunColumns] = field(default_factory=dict)
    steps: dict[int, tuple[int, int, bytes]] = field(default_factory=dict)
    signals: dict[int, tuple[int, int, bytes]] = field(default_factory=dict)
    events: list[tuple[int, bytes]] = field(default_factory=list)
    arrivals: dict[int, bytes | None] = field(default_factory=dict)  # None: it goes
    outbox: dict[int, MessageColumns | None] = field(default_factory=dict)
    attributes: dict[int, list[AttributeColumns]] = field(default_factory=dict)  # all of a run
    memos: dict[int, str] = field(default_factory=dict)
    deleted: dict[int, None] = field(default_factory=dict)  # after all else
    timers: dict[tuple[int, int, int], int | None] = field(default_factory=dict)
    namespaces: dict[str, bytes] = field(default_factory=dict)
    types: dict[tuple[str, str], None] = field(default_factory=dict)
    tokens: dict[str, bytes | None] = field(default_factory=dict)
    audit: list[tuple[int, int, bytes]] = field(default_factory=list)
    forget_audit: tuple[int, int] | None = None  # up to this one, as far as older than
    requests: dict[tuple[str, str], tuple[int, bytes]] = field(default_factory=dict)
    forget: tuple[int, int] | None = None  # requests expired by, at most this many
    size: int = _ROW_OVERHEAD

    def merge(self, later: WriteBatch) -> None:
        """Take in the entry that follows."""
        self.applied = later.applied
        self.opened.update(later.opened)
        self.runs.update(later.runs)
        self.steps.update(later.steps)
        self.signals.update(later.signals)
        self.events.extend(later.events)
        self.arrivals.update(later.arrivals)
        self.outbox.update(later.outbox)
        self.attributes.update(later.attributes)
        self.memos.update(later.memos)
        self.deleted.update(later.deleted)
        self.timers.update(later.timers)
        self.namespaces.update(later.namespaces)
        self.types.update(later.types)
        self.tokens.update(later.tokens)
        self.audit.extend(later.audit)
        self.forget_audit = later.forget_audit or self.forget_audit
        self.requests.update(later.requests)
        self.forget = later.forget or self.forget
        self.size += later.size


_NOT_YET = AppliedState(0, 0, 0, b"", 0)


class RowEncoder:
    """Turns the changes of one entry into a write batch; gives the rows for the digest in the
    order of the changes, which is the same on every node. ``parts`` tells nodes whose digests
    differ in which kind of rows they do."""

    __slots__ = ("_told", "batch", "parts", "rows")

    def __init__(self) -> None:
        self.batch = WriteBatch(_NOT_YET)
        self.rows: list[bytes] = []
        self.parts: dict[str, int] = {}
        self._told = 0

    def add(self, changes: Changes, known: Numbers) -> list[bytes]:
        """Encode the changes of an entry, or of a piece of one. Returns the rows for the digest."""
        self.rows, self._told = [], 0
        numbers = known.of
        for key, run in changes.runs.items():
            self._run(run, numbers[key], is_new=key in known.opened)
        self._end_part("runs")
        batch, collect = self.batch, self.rows.append
        for (key, sequence), step in changes.steps.items():
            run_no = numbers[key]
            record = frame(rows.encode_step(step, run_no))
            number = run_no << NUMBER_BITS | sequence
            batch.steps[number] = (number, int(step.task.state), record)
            collect(record)
        self._end_part("steps")
        for (key, event_id), signal in changes.signals.items():
            run_no = numbers[key]
            record = frame(rows.encode_signal(signal, run_no))
            number = run_no << NUMBER_BITS | event_id
            batch.signals[number] = (number, 1 if signal.taken_by else 0, record)
            collect(record)
        self._end_part("signals")
        for key, event in changes.events:
            record = frame(encode_event(event))
            batch.events.append((numbers[key] << NUMBER_BITS | event.event_id, record))
            collect(record)
            body = event.body
            if isinstance(body, SearchAttributesUpserted | WorkflowStarted):
                upserted = isinstance(body, SearchAttributesUpserted)
                self._labels(changes.runs[key], numbers[key], upserted=upserted)
        self._end_part("events")
        for (key, kind, sequence), timer in changes.timers.items():
            run_no = numbers[key]
            fire_at_ms = None if timer is None else timer.fire_at_ms
            batch.timers[run_no, int(kind), sequence] = fire_at_ms
            collect(frame(rows.encode_timer(timer, run_no, kind, sequence)))
        self._end_part("timers")
        self._add_pending(changes, numbers)
        for run_no in known.deleted.values():
            batch.deleted[run_no] = None
            collect(frame(pending.encode_deleted(run_no)))
        self._end_part("deletions")
        self._add_catalog(changes)
        self._end_part("namespaces and types")
        self._add_access(changes)
        self._end_part("tokens and audit log")
        self._add_requests(changes)
        self._end_part("requests")
        self.batch.size += sum(map(len, self.rows)) + _ROW_OVERHEAD * len(self.rows)
        return self.rows

    def close(self, applied: AppliedState) -> WriteBatch:
        batch = self.batch
        batch.applied = applied
        return batch

    def _end_part(self, name: str) -> None:
        """The rows since the last part were of this kind."""
        rows = self.rows
        if len(rows) > self._told:
            check = self.parts.get(name, 0)
            for row in rows[self._told :]:
                check = crc32(row, check)
            self.parts[name] = check
            self._told = len(rows)

    def _run(self, run: Run, run_no: int, *, is_new: bool) -> None:
        record = frame(rows.encode_run(run, run_no))
        if is_new:
            key = run.key
            self.batch.opened[run_no] = (
                key.namespace,
                key.workflow_id,
                key.run_id,
                run.workflow_type,
                run.task_queue,
                run.started_ms,
            )
        self.batch.runs[run_no] = (
            int(run.status),
            run.updated_ms,
            run.closed_ms,
            run.history_length,
            int(run.decision.state),
            record,
            run_no,
        )
        self.rows.append(record)

    def _labels(self, run: Run, run_no: int, *, upserted: bool) -> None:
        """Attributes change with these events only, and a memo never does. They are no part of the
        digest on their own: the run's record has them."""
        attributes, memo = run.search_attributes, run.memo
        if attributes or upserted:
            self.batch.attributes[run_no] = [
                (run_no, name, run.key.namespace, *plain_text(value)) for name, value in attributes
            ]
            self.batch.size += sum([len(value) + _ROW_OVERHEAD for _, value in attributes])
        if memo and not upserted:
            self.batch.memos[run_no] = memo
            self.batch.size += len(memo) + _ROW_OVERHEAD

    def _add_pending(self, changes: Changes, numbers: Mapping[RunKey, int]) -> None:
        for (key, number), arrival in changes.arrivals.items():
            run_no = numbers[key]
            record = frame(pending.encode_arrival(arrival, run_no, number))
            self.batch.arrivals[run_no << NUMBER_BITS | number] = (
                None if arrival is None else record
            )
            self.rows.append(record)
        self._end_part("arrivals")
        for (key, number), message in changes.outbox.items():
            run_no = numbers[key]
            record = frame(pending.encode_message(message, run_no, number))
            place = run_no << NUMBER_BITS | number
            if message is None:
                self.batch.outbox[place] = None
            else:
                duty = sending(key, number, message)
                target = (duty.target_workflow_id, duty.target_run_id, int(duty.starts))
                self.batch.outbox[place] = (place, *target, record)
            self.rows.append(record)
        self._end_part("outbox")

    def _add_catalog(self, changes: Changes) -> None:
        for name, namespace in changes.namespaces.items():
            record = frame(rows.encode_namespace(namespace))
            self.batch.namespaces[name] = record
            self.rows.append(record)
        for name, workflow_type in changes.types:
            self.batch.types[name, workflow_type] = None
            self.rows.append(frame(rows.encode_type(name, workflow_type)))

    def _add_access(self, changes: Changes) -> None:
        for token_id, token in changes.tokens.items():
            record = frame(rows.encode_token(token, token_id))
            self.batch.tokens[token_id] = None if token is None else record
            self.rows.append(record)
        for noted in changes.audit:
            record = frame(rows.encode_audit(noted))
            self.batch.audit.append((noted.audit_no, noted.time_ms, record))
            self.rows.append(record)
        wish = changes.forget_audit
        if wish is not None:
            self.batch.forget_audit = (wish.through, wish.before_ms)
            self.rows.append(frame(rows.encode_audit_forgotten(wish)))

    def _add_requests(self, changes: Changes) -> None:
        for key, request in changes.requests.items():
            record = frame(rows.encode_request(request))
            self.batch.requests[key] = (request.expires_ms, record)
            self.rows.append(record)
        wish = changes.forget_requests
        if wish is not None:
            self.batch.forget = (wish.before_ms, wish.limit)


def plain_text(value: str) -> tuple[str, int]:
    """What a list is asked for, of an attribute's JSON: a string without its quotes, else the JSON
    itself. Said with it is whether it is a string."""
    if value.startswith('"'):
        try:
            text: str = json.loads(value)
            text.encode()
            return text, 1
        except ValueError:
            pass  # half a surrogate pair is no text
    return value, 0


def json_of(value: str, *, is_text: bool) -> str:
    return json.dumps(value, ensure_ascii=False) if is_text else value
