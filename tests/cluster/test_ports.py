"""Ports are dialled where they are advertised, and by nobody who would find his own there."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from raftflow.cluster import ports as module
from raftflow.cluster.consensus.channel import Handler, PeerError, PeerTimeout, PeerUnavailable
from raftflow.cluster.ports import METHOD, Port, Ports


class Seat:
    """A node's consensus: who there is, and what they answer."""

    def __init__(self, **peers: Any) -> None:
        self._peers = peers
        self.answers: dict[str, bytes | Exception] = {}
        self.handler: Handler | None = None

    @property
    def channel(self) -> Seat:
        return self

    def peers(self) -> dict[str, Any]:
        return self._peers

    def register(self, method: str, handler: Handler) -> None:
        assert method == METHOD
        self.handler = handler

    async def call(self, peer: str, method: str, payload: bytes, *, timeout_ms: int) -> bytes:
        answer = self.answers[peer]
        if isinstance(answer, Exception):
            raise answer
        return answer


def member(**ports: str | None) -> SimpleNamespace:
    return SimpleNamespace(**{"http": None, "grpc": None, "raft": None, "metrics": None, **ports})


@pytest.fixture
def listening() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def refused() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


async def test_what_is_reached_and_what_is_not(listening: str) -> None:
    closed = refused()
    seat = Seat(n1=member(), n2=member(http=listening, raft=listening, grpc=closed))
    seat.answers["n2"] = PeerUnavailable("n2", sent=False)
    seen = await Ports(consensus=seat, node_id="n1").seen()
    found = {port.port: (port.from_, port.to, port.reachable) for port in seen.ports}
    assert found == {
        "http": ("n1", "n2", True),
        "raft": ("n1", "n2", True),
        "grpc": ("n1", "n2", False),
    }
    assert "refused" in next(port.problem for port in seen.ports if port.port == "grpc").lower()
    assert seen.missing == {"n2": "not connected"}


async def test_a_port_of_one_machine_is_dialled_by_nobody_on_another(listening: str) -> None:
    seat = Seat(n1=member(), n2=member(raft="192.0.2.1:9233", http=listening))
    seat.answers["n2"] = b"[]"
    ports = Ports(consensus=seat, node_id="n1")
    dialled = {port.port: port.reachable for port in (await ports.seen()).ports}
    assert dialled["http"] is None


async def test_the_others_tell_what_they_find() -> None:
    other = Seat(n1=member(http=refused(), raft="127.0.0.1:1"), n2=member())
    Ports(consensus=other, node_id="n2")
    assert other.handler
    seat = Seat(n1=member(), n2=member(), n3=member(), n4=member(), n5=member(), n6=member())
    seat.answers = {
        "n2": await other.handler("n1", b""),
        "n3": PeerError("UNKNOWN_METHOD", "?"),
        "n4": PeerTimeout("n4"),
        "n5": b'[{"x": 1}]',
        "n6": PeerError("INTERNAL", "it broke"),
    }
    seen = await Ports(consensus=seat, node_id="n1").seen()
    assert {(port.from_, port.to, port.reachable) for port in seen.ports} == {("n2", "n1", False)}
    assert seen.missing == {
        "n3": "of a release before 0.5, which does not tell",
        "n4": "no answer within 2000 ms",
        "n5": "its answer cannot be read",
        "n6": "it broke",
    }


async def test_who_asks_again_soon_gets_the_same_answer(listening: str) -> None:
    seat = Seat(n1=member(), n2=member(http=listening, raft=listening))
    seat.answers["n2"] = b"[]"
    ports = Ports(consensus=seat, node_id="n1")
    first, second = await asyncio.gather(ports.seen(), ports.seen())
    assert first.ports == second.ports
    assert first.ports[0] is second.ports[0]


async def test_nobody_is_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_DIAL_S", 0.05)

    async def never(*_: Any) -> Any:
        await asyncio.sleep(60)

    monkeypatch.setattr(asyncio, "open_connection", never)
    seat = Seat(n1=member(), n2=member(raft="127.0.0.1:1", metrics="no address"))
    seat.answers["n2"] = json.dumps([]).encode()
    [port] = (await Ports(consensus=seat, node_id="n1").seen()).ports
    assert port == Port("n1", "n2", "raft", "127.0.0.1:1", False, "no answer within 0.05 s")
