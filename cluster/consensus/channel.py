"""Everything between nodes that is not Raft: calls with answers, and one-way pushes, multiplexed.

A frame is `u8 kind | u64 call | u16 length of name | name | payload`. Handlers begin in the order
in which a peer sent; one that awaits lets later ones overtake it. A call that its caller gave up is
cancelled at the peer, and so is everything a peer asked for when its connection ends: nobody is
left to hear the answer.
"""

from __future__ import annotations

import asyncio
import itertools
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import IntEnum

import structlog
from google.protobuf.message import DecodeError

from raftflow.cluster.consensus.handshake import NOT_A_MEMBER
from raftflow.cluster.consensus.link import Link

log = structlog.get_logger()

Handler = Callable[[str, bytes], Awaitable[bytes]]

_HEAD = struct.Struct("<BQH")
_MAX_NAME_BYTES = 256


class Kind(IntEnum):
    REQUEST = 1
    RESPONSE = 2
    ERROR = 3
    NOTIFY = 4
    CANCEL = 5


class PeerUnavailable(Exception):
    """No answer will come. `sent` says whether the peer may have received the request."""

    def __init__(self, peer: str, *, sent: bool) -> None:
        super().__init__(f"peer {peer!r} is unavailable")
        self.peer = peer
        self.sent = sent


class PeerTimeout(Exception):
    """The peer did not answer in time; it may have done the work."""


class PeerError(Exception):
    """The handler's refusal, carried back to the caller."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text


@dataclass(slots=True, eq=False)
class _Peer:
    link: Link
    waiting: dict[int, asyncio.Future[bytes]] = field(default_factory=dict)
    serving: dict[int, asyncio.Task[None]] = field(default_factory=dict)


class PeerChannel:
    def __init__(
        self,
        *,
        max_serving_per_peer: int = 20_000,
        serves: Callable[[str], bool] = lambda peer: True,
    ) -> None:
        """``serves`` tells whose calls and pushes count. Others may only answer."""
        self._handlers: dict[str, Handler] = {}
        self._peers: dict[str, _Peer] = {}
        self._calls = itertools.count(1)
        self._up: list[Callable[[str], None]] = []
        self._down: list[Callable[[str], None]] = []
        self._max_serving = max_serving_per_peer
        self._serves = serves

    def register(self, method: str, handler: Handler) -> None:
        assert method not in self._handlers, f"{method} has a handler"
        assert len(method.encode()) <= _MAX_NAME_BYTES
        self._handlers[method] = handler

    def on_up(self, callback: Callable[[str], None]) -> None:
        self._up.append(callback)

    def on_down(self, callback: Callable[[str], None]) -> None:
        self._down.append(callback)

    def connected(self, peer: str) -> bool:
        return peer in self._peers

    async def call(self, peer: str, method: str, payload: bytes, *, timeout_ms: int) -> bytes:
        """Ask and wait. Raises PeerUnavailable, PeerTimeout, PeerError."""
        state = self._peers.get(peer)
        call = next(self._calls)
        if state is None or not _send(state.link, Kind.REQUEST, call, method, payload):
            raise PeerUnavailable(peer, sent=False)
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        state.waiting[call] = future
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await future
        except TimeoutError as error:
            raise PeerTimeout(f"{method} at {peer!r} took over {timeout_ms} ms") from error
        finally:
            if state.waiting.pop(call, None) is not None and not _answered(future):
                _send(state.link, Kind.CANCEL, call, "", b"")

    def notify(self, peer: str, method: str, payload: bytes) -> bool:
        """Push one way, in order. False: not connected or too far behind, nothing was sent."""
        state = self._peers.get(peer)
        return state is not None and _send(state.link, Kind.NOTIFY, 0, method, payload)

    # LinkHandler ------------------------------------------------------------------------------

    def link_up(self, link: Link) -> None:
        self._peers[link.peer_id] = _Peer(link)
        self._tell(self._up, link.peer_id)

    def link_down(self, link: Link, *, died: bool) -> None:
        state = self._peers.get(link.peer_id)
        if state is None or state.link is not link:
            return
        del self._peers[link.peer_id]
        for future in state.waiting.values():
            if not future.done():
                future.set_exception(PeerUnavailable(link.peer_id, sent=True))
        for task in list(state.serving.values()):
            task.cancel()
        self._tell(self._down, link.peer_id)

    def link_frame(self, link: Link, payload: bytes) -> None:
        try:
            kind, call, name, body = _decode(payload)
        except ValueError as error:
            link.close("bad_message", str(error))
            return
        state = self._peers[link.peer_id]
        if kind is Kind.REQUEST or kind is Kind.NOTIFY:
            self._serve(state, call, name, body)
        elif kind is Kind.CANCEL:
            if (task := state.serving.get(call)) is not None:
                task.cancel()
        elif (future := state.waiting.get(call)) is not None and not future.done():
            if kind is Kind.RESPONSE:
                future.set_result(body)
            else:
                future.set_exception(PeerError(name, body.decode("utf-8", "replace")))

    def _tell(self, callbacks: list[Callable[[str], None]], peer: str) -> None:
        for callback in callbacks:
            try:
                callback(peer)
            except Exception as error:
                log.error("peer_callback_failed", peer=peer, exc_info=error)

    def _serve(self, state: _Peer, call: int, method: str, payload: bytes) -> None:
        handler = self._handlers.get(method)
        if not self._serves(state.link.peer_id):
            if call:  # what it pushes is of no account, and may be a flood
                self._refuse(state, call, NOT_A_MEMBER, "only members are served")
        elif handler is None:
            self._refuse(state, call, "UNKNOWN_METHOD", f"no handler for {method!r}")
        elif len(state.serving) >= self._max_serving:
            self._refuse(state, call, "OVERLOADED", f"{len(state.serving)} calls are being served")
        else:
            # Pushes have no call id of their own; a negative one keeps them apart from calls.
            key = call or -next(self._calls)
            work = self._run(state, call, method, handler, payload)
            task = asyncio.create_task(work, name=f"serve-{method}")
            state.serving[key] = task
            task.add_done_callback(lambda _: state.serving.pop(key, None))

    async def _run(
        self, state: _Peer, call: int, method: str, handler: Handler, payload: bytes
    ) -> None:
        try:
            answer = await handler(state.link.peer_id, payload)
            if call:
                _send(state.link, Kind.RESPONSE, call, "", answer)
        except PeerError as error:
            self._refuse(state, call, error.code, error.text)
        except DecodeError as error:
            self._refuse(state, call, "BAD_REQUEST", f"{method}: {error}")
        except Exception as error:
            log.error("peer_handler_failed", method=method, peer=state.link.peer_id, exc_info=error)
            self._refuse(state, call, "INTERNAL", type(error).__name__)

    def _refuse(self, state: _Peer, call: int, code: str, text: str) -> None:
        if call:
            _send(state.link, Kind.ERROR, call, code, text.encode())
        else:
            log.warning("peer_push_refused", peer=state.link.peer_id, code=code, text=text)


def _answered(future: asyncio.Future[bytes]) -> bool:
    return future.done() and not future.cancelled()


def _send(link: Link, kind: Kind, call: int, name: str, payload: bytes) -> bool:
    encoded = name.encode()
    return link.send(_HEAD.pack(kind, call, len(encoded)) + encoded + payload)


def _decode(frame: bytes) -> tuple[Kind, int, str, bytes]:
    if len(frame) < _HEAD.size:
        raise ValueError(f"channel frame of {len(frame)} bytes")
    number, call, length = _HEAD.unpack_from(frame)
    if length > _MAX_NAME_BYTES or _HEAD.size + length > len(frame):
        raise ValueError(f"name of {length} bytes in a channel frame")
    start = _HEAD.size + length
    # ValueError for an unknown kind; UnicodeDecodeError is one too.
    return Kind(number), call, frame[_HEAD.size : start].decode(), frame[start:]
