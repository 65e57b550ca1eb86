"""Leases in the leader's memory: granted through the log, extended by heartbeats, watched here.

A new leader gives every live lease its full duration from the takeover, since it cannot know which
heartbeats its predecessor saw.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass

from raftflow.cluster.leader.matching import QueueKey
from raftflow.cluster.leader_facts import LeaseFacts
from raftflow.cluster.nonces import granted_poll
from raftflow.engine.ids import RunKey, WorkflowKey
from raftflow.proto.raftflow.internal.v1 import node_pb2

# Queues whose missed leases are counted at most.
_MOST_COUNTED = 10_000


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has a task, through which node, and from which queue."""

    queue: QueueKey
    worker: str
    node: str


@dataclass(slots=True)
class Lease:
    """``deadline_ms`` is log time; ``sequence`` 0 is a decision, which has no heartbeats."""

    run: RunKey
    sequence: int
    token: str
    duration_ms: int
    deadline_ms: int
    holder: Holder | None = None
    missed: bool = False  # its expiry is under way


class Leases:
    """All live leases by token, and which of them missed their deadline."""

    def __init__(self) -> None:
        self._by_token: dict[str, Lease] = {}
        self._deadlines: list[tuple[int, str]] = []
        self._by_request: dict[str, set[str]] = {}  # a poll's request id -> tokens granted to it
        self._held: dict[QueueKey, dict[Holder, int]] = {}
        self._expired: dict[QueueKey, int] = {}

    def __len__(self) -> int:
        return len(self._by_token)

    def hold(
        self,
        run: RunKey,
        sequence: int,
        token: str,
        duration_ms: int,
        now_ms: int,
        holder: Holder | None = None,
    ) -> None:
        if token in self._by_token:
            return
        lease = Lease(run, sequence, token, duration_ms, now_ms + duration_ms, holder)
        self._by_token[token] = lease
        if holder is not None:
            held = self._held.setdefault(holder.queue, {})
            held[holder] = held.get(holder, 0) + 1
        heapq.heappush(self._deadlines, (lease.deadline_ms, token))
        request, _ = granted_poll(token)
        if request:
            self._by_request.setdefault(request, set()).add(token)

    def drop(self, token: str, *, expired: bool = False) -> None:
        lease = self._by_token.pop(token, None)
        if lease is None:
            return
        if lease.holder is not None:
            self._let_go(lease.holder)
            if expired:
                self._count_expired(lease.holder.queue)
        request, _ = granted_poll(token)
        if request:
            tokens = self._by_request[request]
            tokens.discard(token)
            if not tokens:
                del self._by_request[request]

    def never_received(self, poll: node_pb2.Poll) -> list[Lease]:
        """Leases granted to an earlier poll of the same request id. Its caller asks again because
        it had no answer. A caller in another namespace is somebody else, whatever id it has."""
        tokens = self._by_request.get(poll.request_id, ())
        return [
            lease
            for token in sorted(tokens)
            if granted_poll(token)[1] != poll.poll_id
            and (lease := self._by_token[token]).run.namespace == poll.namespace
        ]

    def beat(self, workflow: WorkflowKey, token: str, now_ms: int) -> bool:
        """Extend a lease by its duration from now; False when the workflow has none, or when its
        expiry is under way: nothing could hold that back."""
        lease = self._by_token.get(token)
        if lease is None or lease.run[:2] != workflow or lease.missed:
            return False
        lease.deadline_ms = now_ms + lease.duration_ms
        return True

    def facts(self, token: str, now_ms: int) -> LeaseFacts | None:
        lease = self._by_token.get(token)
        if lease is None:
            return None
        left_ms = lease.deadline_ms - now_ms
        silent_ms = max(0, lease.duration_ms - left_ms)
        return LeaseFacts(left_ms=left_ms, silent_ms=silent_ms, duration_ms=lease.duration_ms)

    def missed(self, now_ms: int) -> list[Lease]:
        """Leases whose deadline has passed, each once: its expiry is then under way."""
        out = []
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            _, token = heapq.heappop(self._deadlines)
            lease = self._by_token.get(token)
            if lease is None:
                continue
            if lease.deadline_ms > now_ms:
                heapq.heappush(self._deadlines, (lease.deadline_ms, token))
            else:
                lease.missed = True
                out.append(lease)
        return out

    def is_missed(self, workflow: WorkflowKey, token: str) -> bool:
        lease = self._by_token.get(token)
        return lease is not None and lease.run[:2] == workflow and lease.missed

    def next_deadline_ms(self) -> int | None:
        return self._deadlines[0][0] if self._deadlines else None

    def queues(self) -> list[QueueKey]:
        """Those of which tasks are leased, or were until a deadline was missed."""
        return [*self._held, *(queue for queue in self._expired if queue not in self._held)]

    def holders(self, queue: QueueKey) -> Mapping[Holder, int]:
        """Who has how many of its tasks."""
        return self._held.get(queue, {})

    def expired(self, queue: QueueKey) -> int:
        """Leases of its tasks that were missed since this node leads."""
        return self._expired.get(queue, 0)

    def _let_go(self, holder: Holder) -> None:
        held = self._held[holder.queue]
        held[holder] -= 1
        if not held[holder]:
            del held[holder]
            if not held:
                del self._held[holder.queue]

    def _count_expired(self, queue: QueueKey) -> None:
        if queue not in self._expired and len(self._expired) == _MOST_COUNTED:
            del self._expired[next(iter(self._expired))]
        self._expired[queue] = self._expired.get(queue, 0) + 1

    def clear(self) -> None:
        self._held.clear()
        self._expired.clear()
        self._by_token.clear()
        self._deadlines.clear()
        self._by_request.clear()
