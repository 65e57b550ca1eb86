"""One caller's connection, which notices that the caller never read the tasks it was handed.

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

# A later reset says nothing: the host of a worker that was at work may have gone.
_UNREAD_WITHIN_S = 1.0
_TCP_CLOSED = 7


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


def _is_reset(transport: asyncio.BaseTransport | None) -> bool:
    own = transport.get_extra_info("socket") if transport is not None else None
    option = getattr(socket, "TCP_INFO", None)  # Linux
    if own is None or option is None:
        return False
    try:
        return bool(own.getsockopt(socket.IPPROTO_TCP, option, 1)[0] == _TCP_CLOSED)
    except OSError:
        return False
