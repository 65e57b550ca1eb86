"""One connection to one peer: handshake, frames, keepalive, a bounded send buffer.

Nothing that arrives can raise into the event loop: a peer that breaks a rule costs its connection
and one `link_closed` event.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol, cast

import structlog

from raftflow.cluster.consensus import framing, handshake
from raftflow.cluster.consensus.certified import check_certificate, names_of
from raftflow.cluster.consensus.framing import FrameError, FrameReader
from raftflow.cluster.consensus.handshake import HandshakeError, Hello, Purpose

log = structlog.get_logger()

_QUIET = frozenset({"stopping", "replaced", "peer_closed"})
# Payloads above this are written beside their header instead of being copied behind it.
_COPY_LIMIT_BYTES = 16 << 10
# For what is on its way when we hang up.
_CLOSE_PATIENCE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkLimits:
    max_frame_bytes: int = 64 << 20
    send_buffer_bytes: int = 32 << 20
    handshake_timeout_ms: int = 2_000
    connect_timeout_ms: int = 2_000
    keepalive_ms: int = 500
    silence_ms: int = 3_000
    backoff_min_ms: int = 10
    backoff_max_ms: int = 150
    max_unknown_connections: int = 64


class LinkOwner(Protocol):
    """What a link asks of the mesh that made it."""

    limits: LinkLimits

    def link_opened(self, link: Link) -> None: ...
    def hello_for(self, call: Hello) -> Hello: ...
    def check_answer(self, answer: Hello, *, mine: Hello) -> None: ...
    def link_ready(self, link: Link) -> None: ...
    def link_frame(self, link: Link, payload: bytes) -> None: ...
    def link_closed(self, link: Link) -> None: ...


class Link(asyncio.Protocol):
    """`hello` is what this side says first when it dials; an accepting link waits for the call."""

    def __init__(self, owner: LinkOwner, hello: Hello | None = None) -> None:
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._hello = hello
        self._reader = FrameReader(max_bytes=handshake.MAX_HELLO_BYTES, greeted=False)
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._sent_since_sweep = False
        self._closed = False
        self.peer: Hello | None = None
        self.certified: frozenset[str] | None = None
        self.address = ""
        self.heard_at = self._loop.time()
        self.reason = ""
        self.detail = ""
        self.refused = False
        self.refusal: HandshakeError | None = None
        self.error: Exception | None = None  # of the connection itself
        self.claimed = ""  # who the caller says it is, before that was looked at
        self._held: list[bytes] | None = None
        self.frames_received = 0
        self.bytes_received = 0
        self.frames_dropped = 0
        self.ended: asyncio.Future[None] = self._loop.create_future()

    @property
    def dialled(self) -> bool:
        return self._hello is not None

    @property
    def unknown_caller(self) -> bool:
        """It has not said yet who it is."""
        return self.peer is None and not self.dialled and not self._closed

    @property
    def purpose(self) -> Purpose:
        assert self.peer is not None
        return Purpose(self.peer.purpose)

    @property
    def peer_id(self) -> str:
        if self.peer is not None:
            return self.peer.node_id
        return self._hello.target if self._hello is not None else ""

    # asyncio.Protocol -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the interface, not the base class.
        self._transport = cast(asyncio.Transport, transport)
        self.address = _address(transport)
        self.certified = names_of(transport)
        timeout = self._owner.limits.handshake_timeout_ms / 1000
        self._deadline = self._loop.call_later(timeout, self.close, "handshake_timeout")
        self._owner.link_opened(self)
        if self._hello is not None:
            self._call(self._hello)

    def data_received(self, data: bytes) -> None:
        if self._closed:
            return
        self.heard_at = self._loop.time()
        self.bytes_received += len(data)
        try:
            for payload in self._reader.feed(data):
                if self.peer is None:
                    self._greet(payload)
                elif self._held is not None:
                    self._held.append(payload)
                else:
                    self.frames_received += 1
                    self._owner.link_frame(self, payload)
                if self._closed:
                    return
        except FrameError as error:
            self.close("bad_frame", str(error))

    def eof_received(self) -> bool:
        self.close("peer_closed", "" if self._reader.pending_bytes == 0 else "inside a frame")
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.error = exc
        # Over TLS the end of a peer comes without a word of its own.
        self.close("connection_lost" if exc else "peer_closed", str(exc) if exc else "")
        if self._deadline is not None:
            self._deadline.cancel()
        if not self.ended.done():
            self.ended.set_result(None)

    # ------------------------------------------------------------------------------------------

    def send(self, payload: bytes) -> bool:
        """Queue one frame. False: nothing queued, the connection is down or its buffer full."""
        transport = self._transport
        if self._closed or self.peer is None or transport is None:
            return False
        if len(payload) > self._owner.limits.max_frame_bytes:
            raise ValueError(f"message of {len(payload)} bytes is over the frame limit")
        if transport.get_write_buffer_size() > self._owner.limits.send_buffer_bytes:
            self.frames_dropped += 1
            return False
        self._write(payload)
        return True

    @property
    def closed(self) -> bool:
        return self._closed

    def hold(self) -> None:
        """What arrives waits until `release`."""
        assert self._transport is not None
        self._transport.pause_reading()
        self._held = []

    def release(self) -> None:
        held, self._held = self._held or [], None
        for payload in held:
            if self._closed:
                return
            self.frames_received += 1
            self._owner.link_frame(self, payload)
        if not self._closed and self._transport is not None:
            self.heard_at = self._loop.time()
            self._transport.resume_reading()

    def close(self, reason: str, detail: str = "") -> None:
        if self._closed:
            return
        self._closed = True
        self.reason, self.detail = reason, detail
        if self._deadline is not None:
            self._deadline.cancel()
        if self._transport is not None:
            # A peer that does not read would never let a graceful close finish; two that hang up
            # on each other are such peers. So it is for little, and not for long.
            if reason == "stopping" or self._transport.get_write_buffer_size() > 1 << 16:
                self._transport.abort()
            else:
                self._transport.close()
                self._deadline = self._loop.call_later(_CLOSE_PATIENCE_S, self._transport.abort)
        self._owner.link_closed(self)

    def sweep(self, now: float) -> None:
        """Called every keepalive interval: speak if silent, give up on a peer that is."""
        if self.peer is None or self._closed or self._transport is None:
            return
        silent_ms = int((now - self.heard_at) * 1000)
        if silent_ms > self._owner.limits.silence_ms:
            self.close("peer_silent", f"nothing received for {silent_ms} ms")
            self._transport.abort()
        elif not self._sent_since_sweep and self._transport.get_write_buffer_size() == 0:
            self._transport.write(framing.KEEPALIVE)
        self._sent_since_sweep = False

    def log_closed(self, *, repeated: int = 0) -> None:
        event = log.info if self.reason in _QUIET else log.warning
        event(
            "link_closed",
            peer=self.peer_id,
            address=self.address,
            dialled=self.dialled,
            purpose=self.peer.purpose if self.peer is not None else "",
            reason=self.reason,
            detail=self.detail,
            **({"repeated": repeated} if repeated else {}),
        )

    def _call(self, hello: Hello) -> None:
        """Nothing is told to whom the certificate does not name."""
        try:
            check_certificate(self.certified, cluster_id=hello.cluster_id, node_id=hello.target)
        except HandshakeError as error:
            self.refused = True
            self.close(error.reason, error.detail)
            return
        self._write(handshake.encode(hello))

    def _greet(self, payload: bytes) -> None:
        try:
            theirs = handshake.decode(payload)
            self.claimed = theirs.node_id
            if self._hello is None:
                check_certificate(
                    self.certified, cluster_id=theirs.cluster_id, node_id=theirs.node_id
                )
                answer = self._owner.hello_for(theirs)
                self._write(handshake.encode(answer))
            else:
                self._owner.check_answer(theirs, mine=self._hello)
        except HandshakeError as error:
            if not error.told_by_peer:
                self._write(handshake.encode_refusal(error))
            self.refused = True
            self.refusal = error
            reason = "refused_by_peer" if error.told_by_peer else error.reason
            self.close(reason, str(error) if error.told_by_peer else error.detail)
            return
        if self._deadline is not None:
            self._deadline.cancel()
        self.peer = theirs
        self._reader.greeted = True
        self._reader.max_bytes = self._owner.limits.max_frame_bytes
        self._owner.link_ready(self)

    def _write(self, payload: bytes) -> None:
        assert self._transport is not None
        self._sent_since_sweep = True
        if len(payload) <= _COPY_LIMIT_BYTES:
            self._transport.write(framing.header(payload) + payload)
        else:
            self._transport.writelines((framing.header(payload), payload))


def _address(transport: asyncio.BaseTransport) -> str:
    name = transport.get_extra_info("peername")
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else str(name or "")
