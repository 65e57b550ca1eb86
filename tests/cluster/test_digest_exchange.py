"""Nodes compare states over real connections; the odd one out stops."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import NoReturn

from eventually import eventually
from peers import Peer, meshed

from raftflow.cluster.consensus.channel import PeerChannel
from raftflow.cluster.consensus.handshake import Purpose
from raftflow.cluster.digest_exchange import MARK_EVERY, DigestExchange, StateDiverged
from raftflow.cluster.digest_ring import DigestRing
from raftflow.proto.raftflow.internal.v1 import node_pb2

OLD = 2  # the feature level of release 0.2


@dataclass
class Node:
    """A ring instead of a replica, and a process that does not really end."""

    channel: PeerChannel
    digests: DigestRing = field(default_factory=DigestRing)
    errors: list[BaseException] = field(default_factory=list)

    def apply(self, *digests: bytes, **parts: int) -> None:
        for digest in digests:
            self.digests.add(digest.ljust(16), parts)

    def fatal(self, error: BaseException) -> NoReturn:
        self.errors.append(error)
        raise error


Exchanging = tuple[dict[str, Node], dict[str, DigestExchange], dict[str, Peer]]


@asynccontextmanager
async def exchanging(ids: str, *, voters: str = "", old: str = "") -> AsyncIterator[Exchanging]:
    """These nodes run, of all those that vote; ``old`` are of a release without 0.3's messages."""
    async with meshed(*ids) as peers:
        nodes = {each: Node(peers[each].channel) for each in ids}
        exchanges = {
            each: DigestExchange(
                consensus=node,
                replica=node,
                peers=tuple(other for other in voters or ids if other != each),
                level_of=lambda peer: OLD if peer in old else 3,
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
            yield nodes, exchanges, peers
        finally:
            for exchange in exchanges.values():
                await exchange.stop()


async def stopped(nodes: dict[str, Node], name: str) -> StateDiverged:
    """The reason why this node and no other ended."""
    await eventually(lambda: nodes[name].errors)
    assert not any(node.errors for other, node in nodes.items() if other != name)
    error = nodes[name].errors[0]
    assert isinstance(error, StateDiverged)
    return error


async def test_the_one_that_differs_from_two_stops_and_says_where() -> None:
    async with exchanging("abc") as (nodes, exchanges, peers):
        for name, node in nodes.items():
            node.apply(b"one", b"two", runs=1)
            node.apply(b"wrong" if name == "b" else b"right", steps=7, runs=int(name == "b"))
            node.apply(b"wronger" if name == "b" else b"more")
        error = await stopped(nodes, "b")
        assert (error.index, error.exact, error.parts) == (3, True, ("runs",))
        assert "since entry 3 " in str(error)
        assert "runs" in str(error)
        await eventually(lambda: exchanges["a"].disputes and exchanges["c"].disputes)
        for right in "ac":
            dispute = await eventually(lambda it=exchanges[right]: it.last_dispute)
            assert (dispute.decided, dispute.odd) == (True, ("b",))
        link = peers["b"].link("a", Purpose.CHANNEL)
        assert link is not None
        link.close("it ended and was started again")
        await eventually(lambda: exchanges["a"].last_dispute is None, "the verdict is forgotten")
        assert exchanges["c"].last_dispute is not None


async def test_one_that_finds_it_first_and_ends_is_not_forgotten() -> None:
    """Alerts and `why` ask those that are left."""
    async with exchanging("abc") as (nodes, exchanges, _):
        for name in "ac":
            await exchanges[name].stop()  # they would compare too late
        for name, node in nodes.items():
            node.apply(b"one", b"wrong" if name == "b" else b"right")
        exchanges["a"]._tell()
        await stopped(nodes, "b")
        heard = [exchanges[each] for each in "ac" if exchanges[each].last_dispute]
        assert len(heard) == 1
        assert heard[0].disputes == 1
        dispute = heard[0].last_dispute
        assert dispute is not None
        assert (dispute.index, dispute.decided, dispute.odd) == (2, True, ("b",))


async def test_what_differed_from_the_beginning_is_not_known_exactly() -> None:
    async with exchanging("abc") as (nodes, _, _):
        for name, node in nodes.items():
            node.digests.restart(50, (b"wrong" if name == "a" else b"right").ljust(16))
            node.apply(b"wrong" if name == "a" else b"right")
        error = await stopped(nodes, "a")
        assert (error.index, error.exact, error.parts) == (50, False, ())


async def test_nobody_stops_without_a_majority_against_it() -> None:
    async with exchanging("ab", voters="abc") as (nodes, exchanges, _):
        nodes["a"].apply(b"one")
        nodes["b"].apply(b"other")  # c is down
        await eventually(lambda: exchanges["a"].disputes and exchanges["b"].disputes)
        assert not any(node.errors for node in nodes.values())
        dispute = await eventually(lambda: exchanges["a"].last_dispute)
        assert dispute is not None
        assert (dispute.peer, dispute.decided, dispute.odd) == ("b", False, ())


async def test_two_against_two_goes_on_until_the_fifth_is_there() -> None:
    async with exchanging("abcde") as (nodes, exchanges, _):
        for name in "abcd":
            nodes[name].apply(b"one" if name in "ab" else b"other")
        await eventually(lambda: all(exchanges[name].disputes for name in "abcd"))
        assert not any(node.errors for node in nodes.values())
        nodes["e"].apply(b"other")
        await eventually(lambda: nodes["a"].errors and nodes["b"].errors)
        assert not any(nodes[name].errors for name in "cde")


async def test_one_against_three_of_five_stops() -> None:
    async with exchanging("abcd", voters="abcde") as (nodes, _, _):
        for name, node in nodes.items():
            node.apply(b"wrong" if name == "d" else b"right")
        assert (await stopped(nodes, "d")).index == 1


async def test_equal_states_go_on() -> None:
    async with exchanging("ab") as (nodes, exchanges, _):
        for index in (1, 2, 3):
            for node in nodes.values():
                node.apply(b"same")
            await eventually(
                lambda at=index: all(each.compared_index == at for each in exchanges.values())
            )
        assert not any(each.disputes for each in exchanges.values())


async def test_a_node_that_is_behind_compares_when_it_gets_there() -> None:
    async with exchanging("ab") as (nodes, exchanges, _):
        for number in range(20):
            nodes["a"].apply(bytes([number]))
        await eventually(lambda: exchanges["b"]._told)
        for number in range(20):
            nodes["b"].apply(bytes([number]))
        await eventually(lambda: exchanges["b"].compared_index == 20)


async def test_old_nodes_are_told_what_they_keep() -> None:
    async with exchanging("abc", old="b") as (nodes, exchanges, peers):
        told: list[int] = []

        async def note(_peer: str, payload: bytes) -> bytes:
            told.append(node_pb2.StateDigest.FromString(payload).index)
            return b""

        peers["b"].channel._handlers["digest"] = note
        for _ in range(MARK_EVERY + 7):
            nodes["a"].apply(b"same")
            nodes["c"].apply(b"same")
        await eventually(lambda: exchanges["c"].compared_index == MARK_EVERY + 7)
        await eventually(lambda: told)
        assert set(told) == {MARK_EVERY}


async def test_old_nodes_cannot_say_where_it_began() -> None:
    async with exchanging("abc", old="bc") as (nodes, _, peers):
        for name in "bc":
            del peers[name].channel._handlers["digest.first"]
        for name, node in nodes.items():
            node.apply(b"same", b"wrong" if name == "a" else b"right")
        error = await stopped(nodes, "a")
        assert (error.index, error.exact, error.parts) == (2, False, ())
