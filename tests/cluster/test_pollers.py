"""Every node is asked; who does not answer is named, and why."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from raftflow.cluster import pollers as module
from raftflow.cluster.consensus.channel import PeerError, PeerTimeout, PeerUnavailable
from raftflow.cluster.pollers import METHOD, Pollers
from raftflow.cluster.work_facts import Leading, Wanted
from raftflow.cluster.workers import Workers
from raftflow.proto.raftflow.internal.v1 import node_pb2

Handler = Callable[[str, bytes], Awaitable[bytes]]


class Cluster:
    """Three nodes that reach one another, but for those of which an error is known."""

    def __init__(self) -> None:
        self.handlers: dict[str, Handler] = {}
        self.errors: dict[str, Exception] = {}
        self.garbage: set[str] = set()
        self.calls = 0
        self.terms: dict[str, int] = {"n2": 3}  # who leads, and in which term
        self.nodes = {node: Seat(self, node) for node in ("n1", "n2", "n3")}

    def leading(self, node: str, wanted: Wanted, most: int) -> Leading | None:
        term = self.terms.get(node)
        return term and Leading(term=term, settled=True, queues=(), holdings=())


class Seat:
    def __init__(self, cluster: Cluster, node: str) -> None:
        self.cluster, self.node = cluster, node
        self.workers = Workers(node, now_ms=lambda: 5)
        self.pollers = Pollers(
            consensus=self,
            node_id=node,
            workers=self.workers,
            leading=lambda wanted, most: cluster.leading(node, wanted, most),
        )

    @property
    def channel(self) -> Seat:
        return self

    def peers(self) -> dict[str, None]:
        return dict.fromkeys(self.cluster.nodes)

    def register(self, method: str, handler: Handler) -> None:
        assert method == METHOD
        self.cluster.handlers[self.node] = handler

    async def call(self, peer: str, method: str, payload: bytes, *, timeout_ms: int) -> bytes:
        self.cluster.calls += 1
        if peer in self.cluster.errors:
            raise self.cluster.errors[peer]
        if peer in self.cluster.garbage:
            return b"{}"
        return await self.cluster.handlers[peer](self.node, payload)

    def park(self, worker: str, queue: str = "q", namespace: str = "default") -> None:
        self.workers.parked(node_pb2.Poll(task_queue=queue, namespace=namespace, worker_id=worker))


async def test_all_nodes_are_asked_and_the_leader_adds_its_own() -> None:
    cluster = Cluster()
    for node in ("n1", "n2", "n3"):
        cluster.nodes[node].park(f"w-{node}")
    work = await cluster.nodes["n1"].pollers.work()
    assert [(each.node, each.worker) for each in work.pollers] == [
        ("n1", "w-n1"),
        ("n2", "w-n2"),
        ("n3", "w-n3"),
    ]
    assert work.leading == Leading(term=3, settled=True, queues=(), holdings=())
    assert work.complete


async def test_only_what_is_wanted_is_told() -> None:
    cluster = Cluster()
    cluster.nodes["n1"].park("w1")
    cluster.nodes["n3"].park("w3", queue="other")
    cluster.nodes["n3"].park("w4", namespace="shop")
    wanted = Wanted(frozenset({"shop"}))
    work = await cluster.nodes["n1"].pollers.work(wanted)
    assert [each.worker for each in work.pollers] == ["w4"]


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (PeerUnavailable("n3", sent=False), "not connected"),
        (PeerTimeout("slow"), "no answer within 500 ms"),
        (PeerError("UNKNOWN_METHOD", "what?"), "of a release before 0.5, which does not tell"),
        (PeerError("INTERNAL", "KeyError"), "KeyError"),
    ],
)
async def test_who_does_not_answer_is_named(error: Exception, why: str) -> None:
    cluster = Cluster()
    cluster.errors["n3"] = error
    work = await cluster.nodes["n1"].pollers.work()
    assert work.missing == {"n3": why}
    assert not work.complete


async def test_an_answer_that_cannot_be_read_is_none() -> None:
    cluster = Cluster()
    cluster.garbage.add("n3")
    work = await cluster.nodes["n1"].pollers.work()
    assert work.missing == {"n3": "its answer cannot be read"}


async def test_of_two_leaders_the_later_is_right() -> None:
    cluster = Cluster()
    cluster.terms = {"n1": 4, "n2": 3}
    work = await cluster.nodes["n3"].pollers.work()
    assert work.leading is not None
    assert work.leading.term == 4


async def test_those_who_ask_at_once_share_an_answer() -> None:
    cluster = Cluster()
    asked = [cluster.nodes["n1"].pollers.work() for _ in range(20)]
    await asyncio.gather(*asked)
    assert cluster.calls == 2


async def test_one_node_tells_so_many_and_says_that_there_are_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_TOLD", 2)
    cluster = Cluster()
    for number in range(3):
        cluster.nodes["n3"].park(f"w{number}")
    work = await cluster.nodes["n1"].pollers.work()
    assert [each.worker for each in work.pollers] == ["w0", "w1"]
    assert work.truncated
    assert not work.complete


async def test_names_without_end_are_not_all_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_NAMES", 5)
    cluster = Cluster()
    for number in range(3):
        names = [f"t{each}" for each in range(2)]
        poll = node_pb2.Poll(task_queue="q", worker_id=f"w{number}", names=names)
        cluster.nodes["n3"].workers.parked(poll)
    work = await cluster.nodes["n1"].pollers.work()
    assert [each.worker for each in work.pollers] == ["w0", "w1"]
    assert work.truncated


async def test_a_question_that_cannot_be_read_is_refused() -> None:
    cluster = Cluster()
    with pytest.raises(PeerError, match="BAD_REQUEST"):
        await cluster.handlers["n1"]("n2", b"[]")
