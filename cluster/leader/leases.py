"""Leases in the leader's memory: granted through the log, extended by heartbeats, watched here.

A new leader gives every live lease its full duration from the takeover, since it cannot know which
heartbeats its predecessor saw.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from raftflow.engine.ids import RunKey


@dataclass(slots=True)
class Lease:
    """``deadline_ms`` is log time; ``sequence`` 0 is a decision, which has no heartbeats."""

    run: RunKey
    sequence: int
    token: str
    duration_ms: int
    deadline_ms: int


class Leases:
    """All live leases by token, and which of them missed their deadline."""

    def __init__(self) -> None:
        self._by_token: dict[str, Lease] = {}
        self._deadlines: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._by_token)

    def hold(self, run: RunKey, sequence: int, token: str, duration_ms: int, now_ms: int) -> None:
        if token in self._by_token:
            return
        lease = Lease(run, sequence, token, duration_ms, now_ms + duration_ms)
        self._by_token[token] = lease
        heapq.heappush(self._deadlines, (lease.deadline_ms, token))

    def drop(self, token: str) -> None:
        self._by_token.pop(token, None)

    def beat(self, token: str, now_ms: int) -> bool:
        """Extend a lease by its duration from now; False when there is none."""
        lease = self._by_token.get(token)
        if lease is None:
            return False
        lease.deadline_ms = now_ms + lease.duration_ms
        return True

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
                out.append(lease)
        return out

    def next_deadline_ms(self) -> int | None:
        return self._deadlines[0][0] if self._deadlines else None

    def clear(self) -> None:
        self._by_token.clear()
        self._deadlines.clear()
