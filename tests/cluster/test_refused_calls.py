"""What a node refused is kept for a while, counted up, and told to whoever asks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from raftflow.cluster import refused_calls as module
from raftflow.cluster.consensus.channel import PeerError, PeerTimeout, PeerUnavailable
from raftflow.cluster.refused_calls import KEPT_MS, METHOD, RefusedCalls

Handler = Callable[[str, bytes], Awaitable[bytes]]


class Cluster:
    """Nodes with clocks of their own."""

    def __init__(self, *nodes: str) -> None:
        self.now_ms = dict.fromkeys(nodes, 1_000_000)
        self.handlers: dict[str, Handler] = {}
        self.errors: dict[str, Exception] = {}
        self.calls = {node: Seat(self, node).calls for node in nodes}


class Seat:
    def __init__(self, cluster: Cluster, node: str) -> None:
        self.cluster, self.node = cluster, node
        self.calls = RefusedCalls(consensus=self, node_id=node, now_ms=lambda: cluster.now_ms[node])

    @property
    def channel(self) -> Seat:
        return self

    def peers(self) -> dict[str, Any]:
        return dict.fromkeys(self.cluster.now_ms)

    def register(self, method: str, handler: Handler) -> None:
        assert method == METHOD
        self.cluster.handlers[self.node] = handler

    async def call(self, peer: str, method: str, payload: bytes, *, timeout_ms: int) -> bytes:
        if peer in self.cluster.errors:
            raise self.cluster.errors[peer]
        return await self.cluster.handlers[peer](self.node, payload)


def note(calls: RefusedCalls, target: str = "order-1", **more: Any) -> None:
    calls.note(
        **{
            "operation": "StartWorkflow",
            "namespace": "shop",
            "target": target,
            "step": "",
            "reason": "QUOTA_EXCEEDED",
            "message": "full",
            **more,
        }
    )


def targets(calls: RefusedCalls, target: str = "order-1") -> list[str]:
    return [each.target for each in calls.own("shop", target)]


def test_the_same_again_counts_up() -> None:
    cluster = Cluster("n1")
    calls = cluster.calls["n1"]
    note(calls, message="x" * 5_000)
    cluster.now_ms["n1"] += 10
    note(calls, message="fuller")
    note(calls, operation="SignalWorkflow")
    newest, started = calls.own("shop", "order-1")
    assert (newest.operation, newest.times) == ("SignalWorkflow", 1)
    assert (started.times, started.message) == (2, "fuller")
    assert started.last_ms - started.first_ms == 10


def test_only_what_is_about_it_is_told() -> None:
    calls = Cluster("n1").calls["n1"]
    note(calls)
    note(calls, "order-2")
    note(calls, "", reason="RATE_LIMITED")  # nobody knows what it was about
    note(calls, namespace="other")
    assert targets(calls) == ["", "order-1"]
    assert targets(calls, "") == [""]


def test_what_is_old_is_not_told() -> None:
    cluster = Cluster("n1")
    note(cluster.calls["n1"])
    cluster.now_ms["n1"] += KEPT_MS + 1
    assert targets(cluster.calls["n1"]) == []


def test_there_is_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 3)
    monkeypatch.setattr(module, "MOST_TOLD", 2)
    calls = Cluster("n1").calls["n1"]
    for number in range(5):
        note(calls, step=str(number))
    assert [each.step for each in calls.own("shop", "order-1")] == ["4", "3"]
    note(calls, "other", step="0")
    note(calls, "other", step="1")
    assert [each.step for each in calls.own("shop", "order-1")] == ["4"]


async def test_all_nodes_are_asked_whatever_their_clocks_say() -> None:
    cluster = Cluster("n1", "n2", "n3")
    cluster.now_ms["n2"] += 3_600_000
    note(cluster.calls["n1"])
    cluster.now_ms["n1"] += 500
    note(cluster.calls["n2"])
    cluster.errors["n3"] = PeerTimeout()
    found = await cluster.calls["n1"].find("shop", "order-1")
    assert [(each.node, each.last_ms) for each in found] == [("n2", 1_000_500), ("n1", 1_000_000)]


@pytest.mark.parametrize(
    "error", [PeerUnavailable("n2", sent=False), PeerError("UNKNOWN_METHOD", "no handler")]
)
async def test_who_does_not_answer_holds_nobody_up(error: Exception) -> None:
    cluster = Cluster("n1", "n2")
    note(cluster.calls["n1"])
    cluster.errors["n2"] = error
    assert [each.node for each in await cluster.calls["n1"].find("shop", "order-1")] == ["n1"]


@pytest.mark.parametrize("payload", [b"\xff", b"[" * 100_000, b"{}", b"[]", b"null"])
async def test_a_question_that_cannot_be_read(payload: bytes) -> None:
    cluster = Cluster("n1")
    with pytest.raises(PeerError, match="BAD_REQUEST"):
        await cluster.handlers["n1"]("n2", payload)
