from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from eventually import eventually
from peers import FAST, hello_of
from ports import free_ports
from pysyncobj.node import Node

from raftflow.cluster.consensus.channel import PeerChannel
from raftflow.cluster.consensus.handshake import Purpose
from raftflow.cluster.consensus.mesh import Mesh
from raftflow.cluster.consensus.transport import RaftTransport

VOTE = {"type": "request_vote", "term": 7, "last_log_index": 5, "last_log_term": 3}


@dataclass
class Side:
    """One node's transport with a core that only listens."""

    name: str
    events: list[Any] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)
    wakes: int = 0

    def wake(self) -> None:
        self.wakes += 1

    async def start(self, ports: dict[str, int]) -> None:
        others = {p: f"127.0.0.1:{port}" for p, port in ports.items() if p != self.name}
        self.transport = RaftTransport(
            on_received=self.wake,
            on_lost=lambda peer: self.events.append(("lost", peer)),
            on_error=self.errors.append,
        )
        self.transport.setOnNodeConnectedCallback(lambda n: self.events.append(("up", n.id)))
        self.transport.setOnNodeDisconnectedCallback(lambda n: self.events.append(("down", n.id)))
        self.transport.setOnMessageReceivedCallback(lambda n, m: self.events.append((n.id, m)))
        self.mesh = Mesh(
            hello=hello_of(self.name),
            listen=f"127.0.0.1:{ports[self.name]}",
            peers=others,
            handlers={Purpose.RAFT: self.transport, Purpose.CHANNEL: PeerChannel()},
            limits=FAST,
        )
        await self.mesh.bind()
        await self.mesh.start()


@asynccontextmanager
async def sides() -> AsyncIterator[tuple[Side, Side]]:
    ports = dict(zip(("n1", "n2"), free_ports(2), strict=True))
    one, two = Side("n1"), Side("n2")
    await one.start(ports)
    await two.start(ports)
    await eventually(lambda: one.transport.connected("n2") and two.transport.connected("n1"))
    try:
        yield one, two
    finally:
        await one.mesh.stop()
        await two.mesh.stop()


async def test_messages_arrive_as_they_were_and_wake_the_core() -> None:
    async with sides() as (one, two):
        wakes = two.wakes
        assert one.transport.send(Node("n2"), VOTE)
        await eventually(lambda: ("n1", VOTE) in two.events)
        assert two.wakes > wakes
        assert (one.transport.messages_sent, two.transport.messages_received) == (1, 1)


async def test_nobody_there() -> None:
    async with sides() as (one, two):
        assert not one.transport.send(Node("n7"), VOTE)
        await two.mesh.stop()
        await eventually(lambda: not one.transport.connected("n2"))
        assert not one.transport.send(Node("n2"), VOTE)
        assert one.events == [("up", "n2"), ("down", "n2"), ("lost", "n2")]
        # A node that stops says nothing about its peers.
        assert ("lost", "n1") not in two.events


async def test_garbage_costs_the_connection_only() -> None:
    async with sides() as (one, two):
        link = two.mesh.link("n1", Purpose.RAFT)
        one.mesh.link("n2", Purpose.RAFT).send(b"\x80\x04\x95garbage")
        await eventually(lambda: link.reason == "bad_message")
        await eventually(lambda: two.transport.connected("n1"))
        assert not two.errors


async def test_an_error_of_the_core_is_fatal_not_the_connections_problem() -> None:
    async with sides() as (one, two):

        def broken(node: Node, message: dict[str, Any]) -> None:
            raise AssertionError("invariant")

        two.transport.setOnMessageReceivedCallback(broken)
        one.transport.send(Node("n2"), VOTE)
        await eventually(lambda: [str(error) for error in two.errors] == ["invariant"])
        assert two.transport.connected("n1")
