"""One caller's connection: it refuses what is no HTTP in the words of the API, and notices that the
caller never read the tasks it was handed.

Who leaves with an answer unread makes its system reset the connection; who has read everything, or
dies later while it works, ends it in order. So a reset right after tasks were handed out, with no
word from the caller in between, says that nobody has them.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import _ErrInfo

from raftflow.cluster.api.encoding import encode
from raftflow.cluster.api.status import ApiError, internal

# A later reset says nothing: the host of a worker that was at work may have gone.
_UNREAD_WITHIN_S = 1.0
_TCP_CLOSED = 7
_MAX_COMPLAINT = 200


class BrokenBody(Exception):
    """The rest of a body is not what its beginning promised."""


class Connection(web.RequestHandler):
    """aiohttp's own, and an eye on how it ends."""

    __slots__ = ("_give_back", "_until")

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._give_back: Callable[[], None] | None = None
        self._until = 0.0

    def handed_out(self, give_back: Callable[[], None]) -> None:
        """Tasks were written. ``give_back`` is called when they were surely not read."""
        self._give_back = give_back
        self._until = asyncio.get_running_loop().time() + _UNREAD_WITHIN_S

    def data_received(self, data: bytes) -> None:
        self._give_back = None  # it has read the last answer, and asks for the next
        super().data_received(data)
        if self._messages and isinstance(broken := self._messages[-1][0], _ErrInfo):
            self._break_body(_first_line(broken.message or ""))

    def _break_body(self, complaint: str) -> None:
        """aiohttp queues the complaint behind the request whose body breaks off, and that would
        wait for the rest for ever."""
        if len(self._messages) > 1:
            body = self._messages[-2][1]
        elif self._current_request is not None:
            body = self._current_request.content
        else:
            return
        if not body.is_eof():
            body.set_exception(BrokenBody(complaint))

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
        malformed = ApiError("MALFORMED", f"the request is not HTTP: {complaint}")
        error = malformed if status < 500 else internal()
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
        super().connection_lost(exc)

    def _unread(self) -> None:
        give_back, self._give_back = self._give_back, None
        if give_back is not None and asyncio.get_running_loop().time() < self._until:
            give_back()


class ConnectionServer(web.Server):
    """aiohttp's server with our connections."""

    def __call__(self) -> Connection:
        return Connection(self, loop=self._loop, **self._kwargs)


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
