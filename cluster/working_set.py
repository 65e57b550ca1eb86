"""The cache that apply works on: aggregates of hot runs, and what is known to be absent.

It is one `WorkingSet` for the engine, which may hold more than a batch touches. Each waiting entry
pins the keys it touches; a pinned key that is in neither the set nor the absent ones has to be
loaded first. Only what the store has written, and nobody pins, is ever evicted: hence a key that is
not here can be read from the store, and is up to date there. What was deleted counts as absent
until the store has deleted it, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from raftflow.cluster.sieve import Sieve
from raftflow.cluster.store.batch import Numbers
from raftflow.cluster.store.errors import CorruptRecord
from raftflow.cluster.store.views import Loaded
from raftflow.engine.apply import Touched
from raftflow.engine.ids import RunKey, WorkflowKey
from raftflow.engine.state import Catalog, Changes, Run, WorkingSet

# What an aggregate costs in memory beside its payloads.
_RUN_BYTES = 2_048
_ROW_BYTES = 1_024

RequestKey = tuple[str, str]
# A request's key looks like a workflow's: it is pinned under a third element.
Key = RunKey | WorkflowKey | tuple[str, str, None]


@dataclass(frozen=True, slots=True)
class CacheBounds:
    """Evicting begins beyond these; what is pinned or not yet written stays nevertheless."""

    runs: int = 50_000
    run_bytes: int = 128 << 20
    requests: int = 20_000


DEFAULT_BOUNDS = CacheBounds()


@dataclass(slots=True)
class _Held:
    run_no: int
    size: int
    changed_index: int  # written once the store has this index


@dataclass(frozen=True, slots=True)
class Wanted:
    """Keys to be loaded in one job."""

    workflows: tuple[WorkflowKey, ...]
    runs: tuple[RunKey, ...]
    requests: tuple[RequestKey, ...]


def keys_of(touched: Iterable[Touched]) -> tuple[Key, ...]:
    """All keys that a batch touches, each once."""
    keys: dict[Key, None] = {}
    for each in touched:
        for workflow in each.workflows:
            keys[workflow] = None
        for run in each.runs:
            keys[run] = None
        for namespace, request_id in each.requests:
            keys[namespace, request_id, None] = None
    return tuple(keys)


class HotSet:
    """One thread's; the state changes only in `engine.apply` and here."""

    def __init__(self, catalog: Catalog, bounds: CacheBounds = DEFAULT_BOUNDS) -> None:
        self.state = WorkingSet(catalog=catalog)
        self.damaged: dict[RunKey, CorruptRecord] = {}
        self.sieve = Sieve()
        self.size = 0
        self._bounds = bounds
        self._held: dict[RunKey, _Held] = {}  # least recently changed first
        self._requests: dict[RequestKey, int] = {}  # → changed index, oldest first
        self._pins: dict[Key, int] = {}
        # Deleted, at this index, and perhaps still in the store; oldest first.
        self._gone: dict[RunKey | WorkflowKey, int] = {}
        self._unresolved: dict[Key, None] = {}
        self._loading = False

    def __len__(self) -> int:
        return len(self._held)

    # ---- pins -----------------------------------------------------------------------------------

    def pin(self, keys: tuple[Key, ...]) -> None:
        """An entry that touches these waits."""
        pins = self._pins
        for key in keys:
            count = pins.get(key, 0)
            pins[key] = count + 1
            if not count and not self._known(key):
                self._unresolved[key] = None

    def unpin(self, keys: tuple[Key, ...]) -> None:
        """It has been applied."""
        pins = self._pins
        for key in keys:
            count = pins[key] - 1
            if count:
                pins[key] = count
            else:
                del pins[key]

    def ready(self, keys: tuple[Key, ...]) -> bool:
        """Whether all of these are loaded, or known to be absent."""
        unresolved = self._unresolved
        return not unresolved or not any(key in unresolved for key in keys)

    def _known(self, key: Key) -> bool:
        """Whether it is here, or surely nowhere."""
        state = self.state
        if len(key) == 2:
            return key in state.current or key in self._gone
        if key[2] is None:
            request = (key[0], key[1])
            return request in state.requests or not self.sieve.may_know(request)
        return key in state.runs or key in self._gone

    def is_gone(self, key: RunKey | WorkflowKey) -> bool:
        """Whether it was deleted; what the store says of it may be out of date."""
        return key in self._gone

    # ---- loading --------------------------------------------------------------------------------

    def begin_load(self) -> Wanted | None:
        """What is to be loaded now; None when nothing is, or a load is under way."""
        if self._loading or not self._unresolved:
            return None
        self._loading = True
        workflows: list[WorkflowKey] = []
        runs: list[RunKey] = []
        requests: list[RequestKey] = []
        for key in self._unresolved:
            if isinstance(key, RunKey):
                runs.append(key)
            elif isinstance(key, WorkflowKey):
                workflows.append(key)
            else:
                requests.append((key[0], key[1]))
        return Wanted(tuple(workflows), tuple(runs), tuple(requests))

    def finish_load(self, wanted: Wanted, loaded: Loaded) -> None:
        """Take in what was found. What has become hot or was deleted meanwhile is newer."""
        state, gone = self.state, self._gone
        for workflow, run_id in loaded.current.items():
            if workflow not in gone:
                state.current.setdefault(workflow, run_id)
        for key, stored in loaded.runs.items():
            if key not in state.runs and key not in gone:
                state.runs[key] = stored.run
                self._hold(key, stored.run, stored.run_no, 0)
                if key in loaded.damaged:
                    self.damaged[key] = loaded.damaged[key]
        for request, record in loaded.requests.items():
            if request not in state.requests:
                state.requests[request] = record
                self._requests[request] = 0
        requests: list[Key] = [(*request, None) for request in wanted.requests]
        for each in (*wanted.workflows, *wanted.runs, *requests):
            del self._unresolved[each]
        self._loading = False

    # ---- after apply ----------------------------------------------------------------------------

    def number(self, changes: Changes, next_run_no: int) -> Numbers:
        """The number of each run that changed; runs that are new get the next ones, in the order
        of the changes."""
        held = self._held
        # A run that began and was deleted within the entry never had a row.
        deleted = {key: held[key].run_no for key in changes.deleted if key in held}
        numbers: dict[RunKey, int] = {}
        opened: set[RunKey] = set()
        for key in changes.runs:
            known = held.get(key)
            if known is not None and key not in deleted:
                numbers[key] = known.run_no
            else:
                numbers[key] = next_run_no + len(opened)
                opened.add(key)
        for key, _ in chain(changes.steps, changes.signals, changes.arrivals, changes.outbox):
            if key not in numbers:
                numbers[key] = held[key].run_no
        for key, _, _ in changes.timers:
            if key not in numbers:
                numbers[key] = held[key].run_no
        return Numbers(numbers, frozenset(opened), deleted)

    def changed(self, changes: Changes, numbers: Numbers, index: int) -> None:
        """Remember what the store has yet to write."""
        runs = self.state.runs
        for key in numbers.deleted:
            self._delete(key, index)
        for workflow, run_id in changes.current.items():
            self._gone.pop(workflow, None)
            if run_id is None:
                self._gone[workflow] = index
        for key, run_no in numbers.of.items():
            self._hold(key, runs[key], run_no, index)
            self._gone.pop(key, None)
        for request, record in changes.requests.items():
            self.sieve.add(request, record.expires_ms)
            self._requests.pop(request, None)
            self._requests[request] = index

    def _delete(self, key: RunKey, index: int) -> None:
        self.size -= self._held.pop(key).size
        self.damaged.pop(key, None)
        self._gone.pop(key, None)
        self._gone[key] = index

    def _hold(self, key: RunKey, run: Run, run_no: int, index: int) -> None:
        rows = len(run.steps) + len(run.arrivals) + len(run.outbox)
        size = _RUN_BYTES + run.history_bytes + _ROW_BYTES * rows
        held = self._held.pop(key, None)
        if held is None:
            held = _Held(run_no, size, index)
            self.size += size
        else:
            self.size += size - held.size
            held.size = size
            held.changed_index = index
        self._held[key] = held

    # ---- evicting -------------------------------------------------------------------------------

    def evict(self, written_index: int) -> int:
        """Drop the coldest beyond the bounds. Returns how many runs went.

        Not while a load is under way: it could bring back what was read before a change that is
        written and evicted by the time it ends."""
        if self._loading:
            return 0
        self._evict_requests(written_index)
        self._forget_gone(written_index)
        bounds, count = self._bounds, 0
        excess = len(self._held) - bounds.runs
        if excess <= 0 and self.size <= bounds.run_bytes:
            return 0
        victims: list[RunKey] = []
        size = self.size
        for key, held in self._held.items():
            if len(self._held) - len(victims) <= bounds.runs and size <= bounds.run_bytes:
                break
            if held.changed_index > written_index:
                break  # those that follow changed later still, or are as new
            if not self._pinned(key):
                victims.append(key)
                size -= held.size
        for key in victims:
            self._drop(key)
            count += 1
        return count

    def _pinned(self, key: RunKey) -> bool:
        return key in self._pins or WorkflowKey(key.namespace, key.workflow_id) in self._pins

    def _drop(self, key: RunKey) -> None:
        state = self.state
        self.size -= self._held.pop(key).size
        del state.runs[key]
        self.damaged.pop(key, None)
        workflow = WorkflowKey(key.namespace, key.workflow_id)
        if state.current.get(workflow) == key.run_id:
            del state.current[workflow]

    def _forget_gone(self, written_index: int) -> None:
        gone = self._gone
        while gone:
            key = next(iter(gone))
            if gone[key] > written_index:
                return
            del gone[key]

    def _evict_requests(self, written_index: int) -> None:
        excess = len(self._requests) - self._bounds.requests
        if excess <= 0:
            return
        victims: list[RequestKey] = []
        for request, index in self._requests.items():
            if len(victims) == excess or index > written_index:
                break
            if (*request, None) not in self._pins:
                victims.append(request)
        for request in victims:
            del self._requests[request]
            del self.state.requests[request]
