"""Tasks that run beside the calls for as long as the node does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

Fatal = Callable[[BaseException], NoReturn]


def spawn(work: Coroutine[Any, Any, None], *, name: str, fatal: Fatal) -> asyncio.Task[None]:
    """Run ``work`` as a task. It may be cancelled, but not fail: a leader whose duties have ended,
    or a node that compares nothing any more, would go on looking healthy."""

    def ended(task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            error = task.exception()
            if error is not None:
                fatal(error)

    task = asyncio.create_task(work, name=name)
    task.add_done_callback(ended)
    return task


async def end(*tasks: asyncio.Future[Any] | None) -> None:
    """Cancel them and wait until they have ended; None was never begun."""
    begun = [task for task in tasks if task is not None]
    for task in begun:
        task.cancel()
    await asyncio.gather(*begun, return_exceptions=True)
