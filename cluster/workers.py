"""Which workers poll on this node: one entry a worker and queue, kept while polls come and go.

A worker parks a poll, gets a task, works, and parks the next: so an entry without a poll stays for
a while, and says when the worker was last seen. Parking costs a few dictionary look-ups, and what
is told of the entries costs by the number of workers, not of polls.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from raftflow.cluster.work_facts import ACTIVITY, ANY_TYPE, WORKFLOW, Poller, Wanted
from raftflow.proto.raftflow.internal.v1 import node_pb2

# How long a worker without a poll is remembered, and how many entries there may be. Worker ids are
# the workers' own words: there could be any number of them.
KEPT_MS = 300_000
MOST = 10_000

_Key = tuple[bool, str, str, str]  # (is activity, namespace, queue, worker)


@dataclass(slots=True)
class _Entry:
    since_ms: int
    seen_ms: int
    types: tuple[str, ...] = ()  # of the poll that came last
    parked: Counter[tuple[str, ...]] = field(default_factory=Counter)  # by the types asked for


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class Workers:
    """Told by the dispatch of every poll that is parked here, and that is not any more."""

    def __init__(self, node_id: str, *, now_ms: Callable[[], int] = _now_ms) -> None:
        self._node_id = node_id
        self._now_ms = now_ms
        self._polling: dict[_Key, _Entry] = {}
        self._away: dict[_Key, _Entry] = {}  # without a poll; who left first comes first
        self._beats: dict[tuple[str, str], int] = {}  # (namespace, worker) -> last heartbeat

    def __len__(self) -> int:
        return len(self._polling) + len(self._away)

    def parked(self, poll: node_pb2.Poll) -> None:
        key, now_ms = _key(poll), self._now_ms()
        entry = self._polling.get(key)
        if entry is None:
            entry = self._away.pop(key, None) or _Entry(now_ms, now_ms)
            self._polling[key] = entry
            self._forget(now_ms)
        entry.types = tuple(poll.names)
        entry.parked[entry.types] += 1
        entry.seen_ms = now_ms

    def left(self, poll: node_pb2.Poll) -> None:
        """It was answered, or its caller has hung up."""
        key, types = _key(poll), tuple(poll.names)
        entry = self._polling[key]
        entry.seen_ms = self._now_ms()
        entry.parked[types] -= 1
        if not entry.parked[types]:
            del entry.parked[types]
        if not entry.parked:
            self._away[key] = self._polling.pop(key)

    def beat(self, namespace: str, worker: str) -> None:
        """It is at work: a heartbeat came from it."""
        if not worker:
            return
        self._beats.pop((namespace, worker), None)
        self._beats[namespace, worker] = self._now_ms()
        if len(self._beats) > MOST:
            del self._beats[next(iter(self._beats))]

    def pollers(self, wanted: Wanted) -> Iterator[Poller]:
        """Those with a poll first. It is a picture of this moment, also when read later."""
        self._forget(self._now_ms())
        for entries in (list(self._polling.items()), list(self._away.items())):
            for (activity, namespace, queue, worker), entry in entries:
                if wanted.takes(namespace, queue):
                    yield Poller(
                        node=self._node_id,
                        namespace=namespace,
                        kind=ACTIVITY if activity else WORKFLOW,
                        queue=queue,
                        worker=worker,
                        types=_types(entry),
                        polls=entry.parked.total(),
                        since_ms=entry.since_ms,
                        seen_ms=self._seen_ms((activity, namespace, queue, worker), entry),
                    )

    def _forget(self, now_ms: int) -> None:
        while self._away:
            key, entry = next(iter(self._away.items()))
            if len(self) <= MOST and now_ms - entry.seen_ms < KEPT_MS:
                return
            del self._away[key]
            seen_ms = self._seen_ms(key, entry)
            if len(self) < MOST and now_ms - seen_ms < KEPT_MS:
                entry.seen_ms = seen_ms
                self._away[key] = entry  # it has been at work

    def _seen_ms(self, key: _Key, entry: _Entry) -> int:
        return max(entry.seen_ms, self._beats.get((key[1], key[3]), 0))


def _types(entry: _Entry) -> tuple[str, ...]:
    asked = list(entry.parked) or [entry.types]
    if () in asked:
        return (ANY_TYPE,)
    return tuple(sorted({name for types in asked for name in types}))


def _key(poll: node_pb2.Poll) -> _Key:
    activity = poll.kind == node_pb2.Poll.KIND_ACTIVITY
    return (activity, poll.namespace, poll.task_queue, poll.worker_id)
