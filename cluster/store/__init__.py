"""The materialised state in SQLite."""

if __name__ != "raftflow.cluster.store":
    raise ImportError("import this package as raftflow.cluster.store")

from raftflow.cluster.store.batch import AppliedState, RowEncoder, WriteBatch
from raftflow.cluster.store.copies import Copy
from raftflow.cluster.store.errors import (
    CopyRefused,
    CorruptRecord,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreIOError,
    StoreTooNew,
)
from raftflow.cluster.store.store import DEFAULT_SETTINGS, Store, StoreSettings
from raftflow.cluster.store.views import (
    AuditFilter,
    AuditPage,
    BadCursor,
    ClosedRun,
    Loaded,
    MessagePage,
    OpenTask,
    RunCounts,
    RunFilter,
    RunPage,
    RunSummary,
    StoredRun,
    TaskPage,
)
from raftflow.cluster.store.writer import WriterTimes

__all__ = [
    "DEFAULT_SETTINGS",
    "AppliedState",
    "AuditFilter",
    "AuditPage",
    "BadCursor",
    "ClosedRun",
    "Copy",
    "CopyRefused",
    "CorruptRecord",
    "Loaded",
    "MessagePage",
    "OpenTask",
    "RowEncoder",
    "RunCounts",
    "RunFilter",
    "RunPage",
    "RunSummary",
    "Store",
    "StoreDamaged",
    "StoreError",
    "StoreFull",
    "StoreIOError",
    "StoreSettings",
    "StoreTooNew",
    "StoredRun",
    "TaskPage",
    "WriteBatch",
    "WriterTimes",
]
