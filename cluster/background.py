"""Tasks that run beside the calls for as long as the node does, and their work in threads."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

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


async def in_thread(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Like `asyncio.to_thread`, but a cancellation is heard only when the thread has finished.

    A thread cannot be stopped. One that is left behind goes on with files which its task closes, or
    which the next one that takes the same lock writes, too.
    """
    running = asyncio.ensure_future(asyncio.to_thread(function, *arguments, **named))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({running})
        if not running.cancelled():
            running.exception()  # Nobody is left to hear of it.
        raise
