"""What a node answers that is not whole yet: 503, and what it waits for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from raftflow.cluster.api.http_connection import ConnectionServer
from raftflow.cluster.api.http_server import listen
from raftflow.cluster.api.server import affordable
from raftflow.cluster.background import end
from raftflow.cluster.config import Config
from raftflow.cluster.tls import Credentials

# A start that is quicker needs no answer: the caller tries again.
_SOON_S = 0.5


@asynccontextmanager
async def while_repairing(
    config: Config, tls: Credentials | None, waiting_for: Callable[[], str]
) -> AsyncIterator[None]:
    """Answer on the HTTP address until the block ends, if it takes longer than a start should.
    Whether it can be bound is the business of the server that follows."""

    async def answer(_request: web.BaseRequest) -> web.Response:
        reason = waiting_for()
        body = {
            "status": "repairing" if reason else "starting",
            "code": "UNAVAILABLE",
            "error": reason or "the node is starting",
        }
        return web.json_response(body, status=503, headers={"Retry-After": "1"})

    async def serve() -> None:
        await asyncio.sleep(_SOON_S)
        limits = affordable(config.limits)
        factory = ConnectionServer(answer, limits=limits, refused=lambda _error, _address: None)
        handshake_ms = limits.head_timeout_ms
        server = await listen(factory, config.http_addr, "http", tls, handshake_ms=handshake_ms)
        try:
            await asyncio.Event().wait()
        finally:
            server.close()
            await factory.shutdown(timeout=0.5)
            await server.wait_closed()

    task = asyncio.create_task(serve(), name="while-repairing")
    try:
        yield
    finally:
        await end(task)
