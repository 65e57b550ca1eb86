"""One caller's connection: it refuses what is no HTTP in the words of the API, waits for its caller
only so long, and notices that the caller never read the tasks it was handed.

A connection is *waited for* while the caller has the next move: until a request is there as a
whole, and while an answer is not read. When there are too many connections, the one that was waited
for longest makes room: so however many somebody opens and leaves alone, others get through.

Who leaves with an answer unread makes its system reset the connection; who has read everything, or
dies later while it works, ends it in order. So a reset right after tasks were handed out, with no
word from the caller in between, says that nobody has them.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, cast

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from aiohttp.web_protocol import _ErrInfo

from raftflow.cluster.api.encoding import encode
from raftflow.cluster.api.limits import over
from raftflow.cluster.api.status import ApiError, internal
from raftflow.cluster.config import Limits

# A later reset says nothing: the host of a worker that was at work may have gone.
_UNREAD_WITHIN_S = 1.0
_TCP_CLOSED = 7
_MAX_COMPLAINT = 200
_KEEPALIVE_S = 75.0
_FRAMES_BYTES = 64 << 10
# Time for who was refused unread to see why, and no more.
_LINGER_S = 2.0
# A traceback for each broken request line would let anybody fill the log.
_SILENT = logging.getLogger("raftflow.api.aiohttp")
_SILENT.setLevel(logging.CRITICAL)


class BrokenBody(Exception):
    """The rest of a body is not what its beginning promised: ``refusal`` says so."""

    def __init__(self, refusal: ApiError) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class _TooLong(Exception):
    """The head of a request is over the limit as a whole."""


class Connection(web.RequestHandler):
    """aiohttp's own, with a bound on its patience and an eye on how it ends."""

    __slots__ = (
        "_body",
        "_body_bytes",
        "_ended",
        "_give_back",
        "_head_bytes",
        "_server",
        "_timer",
        "_unread_timer",
        "_until",
        "_wire",
    )

    def __init__(self, server: ConnectionServer, **settings: Any) -> None:
        super().__init__(server, **settings)
        self._server = server
        self._give_back: Callable[[], None] | None = None
        self._until = 0.0
        self._wire: asyncio.Transport | None = None  # also when aiohttp has let go of it
        self._body: StreamReader = EMPTY_PAYLOAD  # of the newest request
        self._body_bytes = 0  # of it, with what frames its chunks
        self._head_bytes = 0  # of the request that is coming in
        self._timer: asyncio.TimerHandle | None = None  # until a head is there
        self._unread_timer: asyncio.TimerHandle | None = None
        self._ended = False

    def handed_out(self, give_back: Callable[[], None]) -> None:
        """Tasks were written. ``give_back`` is called when they were surely not read."""
        self._give_back = give_back
        self._until = asyncio.get_running_loop().time() + _UNREAD_WITHIN_S

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._wire = cast(asyncio.Transport, transport)
        super().connection_made(transport)
        self._await_head()
        refusal = self._server.opened(self)
        if refusal is not None:
            self._end(refusal)

    def data_received(self, data: bytes) -> None:
        if self._ended:
            return
        self._give_back = None  # it has read the last answer, and asks for the next
        requests, at_head = self._request_count, self._body.is_eof()
        if not at_head and self._is_mostly_frames(len(data)):
            return
        super().data_received(data)
        if self._request_count != requests:
            self._head_arrived(len(data))
        elif at_head and data:
            self._head_bytes += len(data)
            if self._head_bytes > self._server.limits.header_bytes:
                self._end(self._server.too_long())
                return
            self._await_head()
        if not self._body.is_eof():
            self._server.waits_for(self)
        elif self._at_work:
            self._server.serves(self)

    def _is_mostly_frames(self, more_bytes: int) -> bool:
        """Chunks of single bytes would keep the node busy with cutting them: a body is over its
        limit when what it takes to send it is twice as much."""
        self._body_bytes += more_bytes
        if self._body_bytes <= 2 * self._server.limits.request_body_bytes + _FRAMES_BYTES:
            return False
        limit = self._server.limits.request_body_bytes
        self._body.set_exception(web.HTTPRequestEntityTooLarge(limit, self._body_bytes))
        self._ended = True  # the rest is for nobody
        return True

    @property
    def _at_work(self) -> bool:
        """A request of it is ours to answer."""
        return bool(self._messages) or self._request_in_progress

    def _await_head(self) -> None:
        if self._timer is None:
            timeout_s = self._server.limits.head_timeout_ms / 1_000
            self._timer = self._loop.call_later(timeout_s, self._head_is_late)

    def _head_arrived(self, latest_bytes: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        size, self._head_bytes, self._body_bytes = self._head_bytes + latest_bytes, 0, 0
        previous = self._body
        message, self._body = self._messages[-1]
        if isinstance(message, _ErrInfo):
            self._break(previous, message)
        elif size > self._server.limits.header_bytes and (
            len(message.path) + sum(len(name) + len(value) for name, value in message.raw_headers)
            > self._server.limits.header_bytes
        ):
            self._messages[-1] = (_ErrInfo(431, _TooLong(), ""), EMPTY_PAYLOAD)

    def _head_is_late(self) -> None:
        self._timer = None
        if self._at_work:
            self._await_head()  # it is early with its next request
            return
        if self._head_bytes == 0:
            self.force_close()  # it never said a word
            return
        self._end(
            over(
                "REQUEST_TIMEOUT",
                "the headers of the request did not arrive in time",
                limit="limits.head_timeout_ms",
                value=self._server.limits.head_timeout_ms,
            )
        )

    def _end(self, refusal: ApiError) -> None:
        """Refuse what is not there as a whole, and hang up. The caller has a moment to read why:
        what it sends meanwhile would make its system forget the answer if nobody took it."""
        self._refuse(refusal)
        if self._at_work:
            self.make_room()  # an answer may be under way: no other can come before it
            return
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
        wire = self._wire
        assert wire is not None
        wire.write(_raw(refusal))
        if wire.can_write_eof():
            wire.write_eof()
        self._timer = self._loop.call_later(_LINGER_S, wire.abort)
        self.close()
        self.transport = None  # it is ours alone from now on

    def _refuse(self, refusal: ApiError) -> None:
        peer = self._wire.get_extra_info("peername") if self._wire is not None else None
        self._server.refused(refusal, str(peer[0]) if isinstance(peer, tuple) else "")

    def make_room(self) -> None:
        """Others need the place."""
        self._ended = True
        self.force_close()
        assert self._wire is not None
        self._wire.abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        timeout_s = self._server.limits.body_timeout_ms / 1_000
        self._unread_timer = self._loop.call_later(timeout_s, self._answer_is_unread)
        self._server.waits_for(self)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None
        if self._at_work:
            self._server.serves(self)

    def _answer_is_unread(self) -> None:
        self._refuse(
            over(
                "REQUEST_TIMEOUT",
                "the answer was not read in time",
                limit="limits.body_timeout_ms",
                value=self._server.limits.body_timeout_ms,
            )
        )
        self.make_room()

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        ended = await super().finish_response(request, resp, start_time)
        if not self._messages:
            self._server.waits_for(self)
        return ended

    def _break(self, body: StreamReader, problem: _ErrInfo) -> None:
        """aiohttp queues the complaint behind the request whose body breaks off, and that would
        wait for the rest for ever."""
        if body.is_eof():
            return
        complaint = _first_line(problem.message or "")
        if isinstance(problem.exc, LineTooLong):
            refusal = self._server.too_long()
        else:
            refusal = ApiError("MALFORMED", f"the body breaks off: {complaint}")
        body.set_exception(BrokenBody(refusal))

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if request.writer.output_size > 0:
            raise ConnectionError("an answer was begun")
        complaint = _first_line(message or "")
        if isinstance(exc, _TooLong | LineTooLong) or complaint.startswith("Too many headers"):
            error = self._server.too_long()
            self._refuse(error)
        elif status < 500:
            error = ApiError("MALFORMED", f"the request is not HTTP: {complaint}")
        else:
            error = internal()
        response = web.Response(
            status=error.situation.http, content_type="application/json", body=encode(error.body())
        )
        response.force_close()
        return response

    def eof_received(self) -> None:
        # It had left before we wrote, unnoticed: its system has answered with a reset meanwhile.
        if self._give_back is not None and _is_reset(self.transport):
            self._unread()
        super().eof_received()

    def connection_lost(self, exc: BaseException | None) -> None:
        if exc is not None:
            self._unread()
        self._give_back = None
        for timer in (self._timer, self._unread_timer):
            if timer is not None:
                timer.cancel()
        self._server.lost(self)
        super().connection_lost(exc)

    def _unread(self) -> None:
        give_back, self._give_back = self._give_back, None
        if give_back is not None and asyncio.get_running_loop().time() < self._until:
            give_back()


class ConnectionServer(web.Server):
    """aiohttp's server with our connections, and no more of them than it may have."""

    def __init__(
        self,
        handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        *,
        limits: Limits,
        refused: Callable[[ApiError, str], None],
        connections: int = 0,
        **settings: Any,
    ) -> None:
        """``connections`` 0: as many as ``limits`` say. ``refused`` hears of each refusal, and of
        the host that it concerns."""
        super().__init__(
            handler,
            access_log=None,
            logger=_SILENT,
            auto_decompress=False,
            max_line_size=limits.header_bytes,
            max_field_size=limits.header_bytes,
            keepalive_timeout=_KEEPALIVE_S,
            lingering_time=_LINGER_S,
            **settings,
        )
        self.limits = limits
        self.refused = refused
        self._most = connections or limits.connections
        self._open: set[Connection] = set()
        self._waited_for: dict[Connection, None] = {}  # longest first

    @property
    def open_connections(self) -> int:
        return len(self._open)

    def __call__(self) -> Connection:
        return Connection(self, loop=self._loop, **self._kwargs)

    def opened(self, connection: Connection) -> ApiError | None:
        """Count it in; a refusal when nobody can make room for it."""
        self._open.add(connection)
        refusal = None
        if len(self._open) > self._most:
            if self._waited_for:
                longest = next(iter(self._waited_for))
                self.serves(longest)  # it is nobody's turn any more
                longest.make_room()
            else:
                refusal = over(
                    "TOO_MANY_CONNECTIONS",
                    f"{self._most} connections to this node are at work",
                    limit="limits.connections",
                    value=self._most,
                    retry_after_ms=1_000,
                    maybe_applied=False,
                )
        self.waits_for(connection)
        return refusal

    def waits_for(self, connection: Connection) -> None:
        """It is the caller's turn."""
        if connection in self._open:
            self._waited_for.setdefault(connection)

    def serves(self, connection: Connection) -> None:
        """It is ours."""
        self._waited_for.pop(connection, None)

    def lost(self, connection: Connection) -> None:
        self._open.discard(connection)
        self._waited_for.pop(connection, None)

    def too_long(self) -> ApiError:
        return over(
            "HEADERS_TOO_LARGE",
            "first line and headers of the request are too large, or too many",
            limit="limits.header_bytes",
            value=self.limits.header_bytes,
        )


def _raw(refusal: ApiError) -> bytes:
    """An answer without aiohttp, which has no request to answer."""
    status, body = HTTPStatus(refusal.situation.http), encode(refusal.body())
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii") + body


def _first_line(complaint: str) -> str:
    """Without the bytes that aiohttp shows below it."""
    return complaint.partition("\n")[0].rstrip(":")[:_MAX_COMPLAINT]


def _is_reset(transport: asyncio.BaseTransport | None) -> bool:
    own = transport.get_extra_info("socket") if transport is not None else None
    option = getattr(socket, "TCP_INFO", None)  # Linux
    if own is None or option is None:
        return False
    try:
        return bool(own.getsockopt(socket.IPPROTO_TCP, option, 1)[0] == _TCP_CLOSED)
    except OSError:
        return False
