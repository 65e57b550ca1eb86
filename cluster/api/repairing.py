"""What a node answers that is not whole yet: 503, and what it waits for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from raftflow.cluster.background import end
from raftflow.cluster.config import Address

# A start that is quicker needs no answer: the caller tries again.
_SOON_S = 0.5


@asynccontextmanager
async def while_repairing(address: Address, waiting_for: Callable[[], str]) -> AsyncIterator[None]:
    """Answer on the HTTP address until the block ends, if it takes longer than a start should.
    Whether it can be bound is the business of the server that follows."""

    async def answer(_request: web.Request) -> web.Response:
        reason = waiting_for()
        body = {
            "status": "repairing" if reason else "starting",
            "code": "UNAVAILABLE",
            "error": reason or "the node is starting",
        }
        return web.json_response(body, status=503, headers={"Retry-After": "1"})

    async def serve() -> None:
        await asyncio.sleep(_SOON_S)
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await runner.setup()
        try:
            await web.TCPSite(runner, address.host, address.port, reuse_address=True).start()
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()

    task = asyncio.create_task(serve(), name="while-repairing")
    try:
        yield
    finally:
        await end(task)
