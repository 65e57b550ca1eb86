"""What the store is asked for and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from raftflow.cluster.store.errors import CorruptRecord
from raftflow.engine.commands import Attributes
from raftflow.engine.effects import SendMessage
from raftflow.engine.ids import RunKey, WorkflowKey
from raftflow.engine.limits import USUAL_PRIORITY
from raftflow.engine.state import AuditRecord, RequestRecord, Run, RunStatus

# A page has room for so many bytes of records or labels, and for one row more: payloads, memos and
# attributes may be large, and hundreds of them asked for at once.
PAGE_BYTES = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Newest first. ``cursor`` ("" = from the newest) goes deep where ``offset`` would crawl."""

    namespace: str
    statuses: tuple[RunStatus, ...] = ()
    query: str = ""
    workflow_type: str = ""
    task_queue: str = ""
    started_after_ms: int | None = None
    started_before_ms: int | None = None
    attributes: tuple[tuple[str, str], ...] = ()  # name and plain text: a run has all of them
    limit: int = 200
    offset: int = 0
    cursor: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    key: RunKey
    workflow_type: str
    task_queue: str
    status: RunStatus
    started_ms: int
    updated_ms: int
    closed_ms: int
    history_length: int
    search_attributes: Attributes = ()
    memo: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """``next_cursor`` is empty when nothing follows; while there is one, a page may be short or
    empty. ``applied_index`` says how far the store was."""

    total: int
    total_exact: bool
    runs: Sequence[RunSummary]
    next_cursor: str = ""
    applied_index: int = 0


@dataclass(frozen=True, slots=True)
class RunCounts:
    """``exact`` is false where not all could be looked at in time: there are more than these."""

    total: int
    exact: bool
    by_status: Mapping[RunStatus, int]


@dataclass(frozen=True, slots=True)
class ChainLink:
    run_id: str
    status: RunStatus
    started_ms: int


@dataclass(frozen=True, slots=True)
class Chain:
    """Oldest first. ``older`` and ``newer``: it goes on beyond what is shown."""

    links: tuple[ChainLink, ...] = ()
    older: bool = False
    newer: bool = False


class BadCursor(ValueError):
    """A cursor that no page gave out."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """An aggregate and the number its rows are keyed by."""

    run: Run
    run_no: int


@dataclass(slots=True)
class Loaded:
    """What was found of the keys asked for; what is absent does not exist. ``damaged`` runs have
    a row that cannot be read: each stands there as UNKNOWN, with the reason."""

    runs: dict[RunKey, StoredRun] = field(default_factory=dict)
    current: dict[WorkflowKey, str] = field(default_factory=dict)
    requests: dict[tuple[str, str], RequestRecord] = field(default_factory=dict)
    damaged: dict[RunKey, CorruptRecord] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OpenTask:
    """A task that is queued or leased. ``sequence`` 0 is the run's decision, whose ``name`` is the
    workflow type; a decision's ``attempt`` is 0 as in its offer. ``since_ms``: it has been so at
    least since then."""

    run: RunKey
    sequence: int
    attempt: int
    name: str
    task_queue: str
    leased: bool
    token: str
    duration_ms: int
    priority: int = USUAL_PRIORITY
    since_ms: int = 0
    worker_id: str = ""  # who has it, when it is leased
    node: str = ""


@dataclass(frozen=True, slots=True)
class TaskPage:
    """``cursor`` None: that was the last page."""

    tasks: Sequence[OpenTask]
    cursor: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class MessagePage:
    """Rows of outboxes, as the duties that they are. ``cursor`` None: that was the last page."""

    messages: Sequence[SendMessage]
    cursor: int | None


@dataclass(frozen=True, slots=True)
class ClosedRun:
    """A run that may be old enough to go, and its place among the closed ones."""

    key: RunKey
    closed_ms: int
    run_no: int
    history_length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """ "" and None ask for any. ``cursor`` 0: from the one end."""

    actor: str = ""
    call: str = ""
    namespace: str = ""
    target: str = ""
    outcome: str = ""
    after_ms: int | None = None  # and from this moment on
    before_ms: int | None = None
    oldest_first: bool = False
    limit: int = 200
    cursor: int = 0


@dataclass(frozen=True, slots=True)
class AuditPage:
    """``cursor`` 0: that was the last page. A page may be short of what was asked for, or empty,
    and yet not the last one."""

    records: Sequence[AuditRecord]
    cursor: int
