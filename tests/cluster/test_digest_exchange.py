"""Nodes compare states over real connections; the odd one out stops."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import NoReturn

from eventually import eventually
from peers import meshed

from raftflow.cluster.consensus.channel import PeerChannel
from raftflow.cluster.consensus.handshake import Purpose
from raftflow.cluster.digest_exchange import DigestExchange, StateDiverged


@dataclass
class Node:
    """Marks instead of a replica, and a process that does not really end."""

    channel: PeerChannel
    marks: dict[int, bytes] = field(default_factory=dict)
    errors: list[BaseException] = field(default_factory=list)

    @property
    def newest_mark(self) -> tuple[int, bytes] | None:
        return next(reversed(self.marks.items()), None)

    def digest_at(self, index: int) -> bytes | None:
        return self.marks.get(index)

    def fatal(self, error: BaseException) -> NoReturn:
        self.errors.append(error)
        raise error


@asynccontextmanager
async def exchanging(*ids: str) -> AsyncIterator[tuple[dict[str, Node], dict[str, DigestExchange]]]:
    async with meshed(*ids) as peers:
        nodes = {each: Node(peers[each].channel) for each in ids}
        exchanges = {
            each: DigestExchange(
                consensus=node,
                replica=node,
                peers=tuple(other for other in ids if other != each),
                period_s=0.01,
            )
            for each, node in nodes.items()
        }
        pairs = [(one, other) for one in ids for other in ids if one != other]
        await eventually(
            lambda: all(peers[one].link(other, Purpose.CHANNEL) for one, other in pairs), "links"
        )
        for exchange in exchanges.values():
            exchange.start()
        try:
            yield nodes, exchanges
        finally:
            for exchange in exchanges.values():
                await exchange.stop()


async def test_the_one_that_differs_from_two_stops() -> None:
    async with exchanging("a", "b", "c") as (nodes, exchanges):
        for name, node in nodes.items():
            node.marks[128] = b"wrong" if name == "b" else b"right"
        await eventually(lambda: nodes["b"].errors)
        assert isinstance(nodes["b"].errors[0], StateDiverged)
        assert nodes["b"].errors[0].index == 128
        await eventually(lambda: exchanges["a"].disputes and exchanges["c"].disputes)
        assert not nodes["a"].errors
        assert not nodes["c"].errors


async def test_nobody_stops_without_a_majority_against_it() -> None:
    async with exchanging("a", "b", "c") as (nodes, exchanges):
        nodes["a"].marks[64] = b"one"
        nodes["b"].marks[64] = b"other"  # c is not there yet
        await eventually(lambda: exchanges["a"].disputes and exchanges["b"].disputes)
        assert exchanges["c"].compared == 0
        assert not any(node.errors for node in nodes.values())


async def test_equal_states_go_on() -> None:
    async with exchanging("a", "b") as (nodes, exchanges):
        for round_number in (1, 2, 3):
            for node in nodes.values():
                node.marks[64 * round_number] = b"same"
            await eventually(
                lambda at=round_number: all(each.compared >= at for each in exchanges.values())
            )
        assert not any(each.disputes for each in exchanges.values())
        assert not any(node.errors for node in nodes.values())
