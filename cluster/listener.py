"""A TCP port behind which TLS is spoken.

It accepts connections itself, so that each begins with the certificates of its own moment, a
handshake that fails can be told with the address it came from, and those under way are bounded.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any

import structlog

from raftflow.cluster.background import end

log = structlog.get_logger("raftflow.tls")

BACKLOG = 1024
# Out of file descriptors: to accept on would only burn the processor.
_PAUSE_S = 0.5
_REPEAT_LOG_S = 10.0
# Type and version of a TLS record: no frame of ours begins so, it would be of 64 KiB and more.
_CLIENT_HELLO = b"\x16\x03\x01"
_HOSTS_KEPT = 64


async def bound(host: str, port: int) -> list[socket.socket]:
    """Sockets for every address that the host stands for, bound and not yet listening."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            sock = socket.socket(family, kind, protocol)
            sockets.append(sock)
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind(address)
    except OSError:
        for sock in sockets:
            sock.close()
        raise
    return sockets


class TlsListener:
    """Stands where asyncio has its `Server`: `sockets`, `start_serving`, `close`."""

    def __init__(
        self,
        sockets: list[socket.socket],
        factory: Callable[[], asyncio.BaseProtocol],
        context: Callable[[], ssl.SSLContext],
        *,
        what: str,
        timeout_s: float,
        most: int,
        clear_too: bool = False,
    ) -> None:
        self.sockets = tuple(sockets)
        self._factory = factory
        self._context = context
        self._what = what
        self._timeout_s = timeout_s
        self._most = most
        self._clear_too = clear_too
        self._accepting: list[asyncio.Task[None]] = []
        self._shaking: dict[asyncio.Task[None], str] = {}  # callers, oldest first
        self._told: dict[str, tuple[float, int]] = {}
        # Hosts of the last callers with whom TLS failed: when, and why.
        self.refused: dict[str, tuple[float, str]] = {}

    async def start_serving(self) -> None:
        for sock in self.sockets:
            sock.listen(BACKLOG)
            task = asyncio.create_task(self._accept(sock), name=f"accept-{self._what}")
            task.add_done_callback(partial(_close, sock))  # when nobody waits on it any more
            self._accepting.append(task)

    def close(self) -> None:
        """Accept nobody any more. Who is connected stays so."""
        for task in (*self._accepting, *self._shaking):
            task.cancel()
        if not self._accepting:
            for sock in self.sockets:
                sock.close()

    async def wait_closed(self) -> None:
        await end(*self._accepting, *self._shaking)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, address = await loop.sock_accept(listening)
            except OSError as error:
                self._tell("accept_failed", "", error.strerror or str(error))
                await asyncio.sleep(_PAUSE_S)
                continue
            self._begin(sock, f"{address[0]}:{address[1]}")

    def _begin(self, sock: socket.socket, caller: str) -> None:
        """Of too many, the one that takes longest goes: it is the one that means no good."""
        if len(self._shaking) >= self._most:
            oldest = next(iter(self._shaking))
            self._tell("tls_refused", self._shaking.pop(oldest), "too many handshakes under way")
            oldest.cancel()
        shaking = asyncio.create_task(self._shake(sock, caller), name=f"tls-{self._what}")
        self._shaking[shaking] = caller
        shaking.add_done_callback(lambda task: self._shaking.pop(task, None))

    async def _shake(self, sock: socket.socket, caller: str) -> None:
        try:
            await self._connect(sock)
        except (ConnectionAbortedError, TimeoutError):
            self._tell("tls_refused", caller, "the handshake took too long")
        except ConnectionError:
            # A probe of the port, or one that does not trust our certificate and says no more.
            self._tell("tls_abandoned", caller, "the caller hung up during the handshake")
        except ssl.SSLCertVerificationError as error:
            self._tell("tls_refused", caller, f"certificate not trusted: {error.verify_message}")
        except OSError as error:
            why = error.reason if isinstance(error, ssl.SSLError) else error.strerror
            self._tell("tls_refused", caller, why or "TLS failed")

    async def _connect(self, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        if self._clear_too and not await self._begins_tls(sock):
            await loop.connect_accepted_socket(self._factory, sock)
            return
        await loop.connect_accepted_socket(
            self._factory, sock, ssl=self._context(), ssl_handshake_timeout=self._timeout_s
        )

    async def _begins_tls(self, sock: socket.socket) -> bool:
        """Looks at the first bytes and leaves them where they are."""
        loop = asyncio.get_running_loop()
        arrived = asyncio.Event()
        loop.add_reader(sock, arrived.set)
        try:
            async with asyncio.timeout(self._timeout_s):
                await arrived.wait()
            begin = sock.recv(len(_CLIENT_HELLO), socket.MSG_PEEK)
        except BaseException:
            loop.remove_reader(sock)
            sock.close()
            raise
        loop.remove_reader(sock)
        return begin == _CLIENT_HELLO

    def _tell(self, event: str, caller: str, why: str) -> None:
        """Anybody can fail as often as he likes: the same thing is told every ten seconds. `why` is
        one of a few sentences, with nothing of the caller's own words."""
        now = asyncio.get_running_loop().time()
        if caller:
            self._note(caller.rpartition(":")[0], now, why)
        told_at, silent = self._told.get(why, (-_REPEAT_LOG_S, 0))
        if now - told_at < _REPEAT_LOG_S:
            self._told[why] = (told_at, silent + 1)
            return
        self._told[why] = (now, 0)
        details: dict[str, Any] = {"repeated": silent} if silent else {}
        log.warning(event, port=self._what, address=caller, reason=why, **details)

    def _note(self, host: str, now: float, why: str) -> None:
        self.refused.pop(host, None)
        self.refused[host] = (now, why)
        if len(self.refused) > _HOSTS_KEPT:
            del self.refused[next(iter(self.refused))]


def _close(sock: socket.socket, _task: object) -> None:
    sock.close()
