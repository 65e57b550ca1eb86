"""Questions to the other members, over the channel between the nodes. Nobody is waited for for
long: an answer with a gap is worth more than a late one, and the gap has a reason that is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from raftflow.cluster.consensus.channel import Handler, PeerError, PeerTimeout, PeerUnavailable

T = TypeVar("T")

# What reading raises of bytes that are not what they should be.
UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, RecursionError)


class Channel(Protocol):
    def register(self, method: str, handler: Handler) -> None: ...

    async def call(self, peer: str, method: str, payload: bytes, *, timeout_ms: int) -> bytes: ...


class Peers(Protocol):
    """The members, this node among them, and the channel to them."""

    @property
    def channel(self) -> Channel: ...

    def peers(self) -> Mapping[str, Any]: ...


class Untold(Exception):
    """There is no answer; the text says why."""


async def ask(
    channel: Channel,
    peer: str,
    method: str,
    payload: bytes,
    *,
    read: Callable[[bytes], T],
    timeout_ms: int,
) -> T:
    """What ``read`` makes of the answer. Raises Untold."""
    try:
        answer = await channel.call(peer, method, payload, timeout_ms=timeout_ms)
    except PeerUnavailable:
        raise Untold("not connected") from None
    except PeerTimeout:
        raise Untold(f"no answer within {timeout_ms} ms") from None
    except PeerError as error:
        old = error.code == "UNKNOWN_METHOD"
        why = "of a release before 0.5, which does not tell" if old else error.text
        raise Untold(why) from None
    try:
        return read(answer)
    except UNREADABLE:
        raise Untold("its answer cannot be read") from None


@contextmanager
def reading(method: str) -> Iterator[None]:
    """Of a question: one that cannot be read is refused."""
    try:
        yield
    except UNREADABLE as error:
        raise PeerError("BAD_REQUEST", f"{method}: {error}") from None
