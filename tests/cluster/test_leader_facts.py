"""The leader tells of a lease and of a queue; who does not tell is said, and why."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from raftflow.cluster.asking import Untold
from raftflow.cluster.consensus.channel import PeerError, PeerTimeout, PeerUnavailable
from raftflow.cluster.leader_facts import (
    LEASE_METHOD,
    NAMES_METHOD,
    LeaderFacts,
    LeaseFacts,
    NamesWanted,
)

Handler = Callable[[str, bytes], Awaitable[bytes]]
LEASE = LeaseFacts(left_ms=-5, silent_ms=30_005, duration_ms=30_000)


class Duties:
    def lease_facts(self, token: str) -> LeaseFacts | None:
        return LEASE if token == "held" else None

    def names_waiting(self, *, activities: bool, namespace: str, queue: str) -> Mapping[str, int]:
        asked = (activities, namespace, queue)
        return {"charge": 2} if asked == (True, "shop", "payments") else {}


@dataclass
class Pair:
    """n1 is asked, and n2 leads, unless the test says otherwise."""

    leader: str | None = "n2"
    error: Exception | None = None
    handlers: dict[str, Handler] = field(default_factory=dict)

    def seat(self, node: str) -> LeaderFacts:
        return LeaderFacts(consensus=Seat(self, node), node_id=node, leading=Duties())


@dataclass
class Seat:
    pair: Pair
    node: str

    @property
    def channel(self) -> Seat:
        return self

    def status(self) -> Any:
        return SimpleNamespace(leader=self.pair.leader)

    def register(self, method: str, handler: Handler) -> None:
        self.pair.handlers[f"{self.node} {method}"] = handler

    async def call(self, peer: str, method: str, payload: bytes, *, timeout_ms: int) -> bytes:
        if self.pair.error is not None:
            raise self.pair.error
        return await self.pair.handlers[f"{peer} {method}"](self.node, payload)


WANTED = NamesWanted(activities=True, namespace="shop", queue="payments")


@pytest.mark.parametrize("leader", ["n1", "n2"])
async def test_whoever_leads_tells(leader: str) -> None:
    pair = Pair(leader)
    asked, _ = pair.seat("n1"), pair.seat("n2")
    assert await asked.lease("held") == LEASE
    assert await asked.lease("gone") is None
    assert await asked.names(WANTED) == {"charge": 2}
    assert await asked.names(NamesWanted(activities=True, namespace="a", queue="b")) == {}


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PeerUnavailable("n2", sent=False), "the leader n2: not connected"),
        (PeerTimeout(), "the leader n2: no answer within 300 ms"),
        (PeerError("UNKNOWN_METHOD", "no handler"), "the leader n2: of a release before 0.5"),
        (PeerError("OVERLOADED", "1 calls are served"), "the leader n2: 1 calls are served"),
    ],
)
async def test_why_nobody_tells(error: Exception, said: str) -> None:
    pair = Pair(error=error)
    with pytest.raises(Untold, match=said):
        await pair.seat("n1").lease("held")


async def test_without_a_leader_nobody_tells() -> None:
    with pytest.raises(Untold, match="no leader is known"):
        await Pair(leader=None).seat("n1").names(WANTED)


@pytest.mark.parametrize("method", [LEASE_METHOD, NAMES_METHOD])
@pytest.mark.parametrize("payload", [b"\xff", b"[" * 100_000, b"{}", b"[]", b"null"])
async def test_a_question_that_cannot_be_read(method: str, payload: bytes) -> None:
    pair = Pair()
    pair.seat("n1")
    with pytest.raises(PeerError, match="BAD_REQUEST"):
        await pair.handlers[f"n1 {method}"]("n2", payload)
