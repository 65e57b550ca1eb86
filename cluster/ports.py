"""Whether the nodes reach one another where each says that it is reached.

Every node dials what the others advertise, and nothing else: nobody can have it dial anywhere. A
port that is bound to this machine alone is dialled by nobody, who would find his own there.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from raftflow.cluster.asking import Peers, Untold, ask
from raftflow.cluster.config import Address
from raftflow.cluster.shared import Shared

METHOD = "ports"
NAMES = ("http", "grpc", "raft", "metrics")
_DIAL_S = 1.0
_ANSWER_MS = 2_000
# Whoever asks again so soon gets the same answer.
_FRESH_S = 1.0


@dataclass(frozen=True, slots=True)
class Port:
    """`reachable` None: nobody else is meant to reach it. `problem`: why it is not."""

    from_: str
    to: str
    port: str
    address: str
    reachable: bool | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    ports: tuple[Port, ...]
    missing: Mapping[str, str]  # who did not tell, and why


class Ports:
    def __init__(self, *, consensus: Peers, node_id: str) -> None:
        self._consensus = consensus
        self._node_id = node_id
        # One answer for all that ask, so that nobody can have the nodes dial without an end.
        self._own: Shared[str, tuple[Port, ...]] = Shared(self._dial_all, fresh_s=_FRESH_S)
        consensus.channel.register(METHOD, self._on_asked)

    async def seen(self) -> Seen:
        """As every node that answers finds them."""
        peers = [peer for peer in self._consensus.peers() if peer != self._node_id]
        own, *answers = await asyncio.gather(self._own.get(""), *map(self._ask, peers))
        found, missing = [*own], {}
        for peer, answer in zip(peers, answers, strict=True):
            if isinstance(answer, str):
                missing[peer] = answer
            else:
                found += answer
        return Seen(tuple(found), missing)

    async def _on_asked(self, _peer: str, _payload: bytes) -> bytes:
        return json.dumps([asdict(port) for port in await self._own.get("")]).encode()

    async def _ask(self, peer: str) -> tuple[Port, ...] | str:
        channel = self._consensus.channel
        try:
            return await ask(channel, peer, METHOD, b"", read=_ports, timeout_ms=_ANSWER_MS)
        except Untold as why:
            return str(why)

    async def _dial_all(self, _key: str) -> tuple[Port, ...]:
        wanted = [
            (peer, name, address)
            for peer, info in self._consensus.peers().items()
            if peer != self._node_id
            for name, address in _advertised(info)
        ]
        found = await asyncio.gather(*(self._dial(*each) for each in wanted))
        return tuple(found)

    async def _dial(self, peer: str, name: str, address: Address) -> Port:
        problem = ""
        local = address.is_loopback and not self._lives_here(peer)
        if not local:
            try:
                async with asyncio.timeout(_DIAL_S):
                    _, writer = await asyncio.open_connection(address.host, address.port)
                writer.close()
            except TimeoutError:
                problem = f"no answer within {_DIAL_S:g} s"
            except OSError as error:
                problem = os.strerror(error.errno) if error.errno else str(error)
        reachable = None if local else not problem
        return Port(self._node_id, peer, name, str(address), reachable, problem)

    def _lives_here(self, peer: str) -> bool:
        """A node whose Raft port is on this machine is on this machine."""
        raft = _address(self._consensus.peers()[peer].raft)
        return raft is not None and raft.is_loopback


def _ports(answer: bytes) -> tuple[Port, ...]:
    return tuple(Port(**each) for each in json.loads(answer))


def _advertised(info: Any) -> Iterator[tuple[str, Address]]:
    for name in NAMES:
        address = _address(getattr(info, name))
        if address is not None:
            yield name, address


def _address(text: str | None) -> Address | None:
    """None of a member that has not said it yet."""
    try:
        return Address.parse(text) if text else None
    except ValueError:
        return None
