"""A background task may be cancelled, and may not fail unnoticed."""

import asyncio
from typing import NoReturn

from raftflow.cluster.background import end, spawn


async def test_a_failure_is_fatal_and_a_cancellation_is_not() -> None:
    errors: list[BaseException] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, _context: None)

    def fatal(error: BaseException) -> NoReturn:
        errors.append(error)
        raise RuntimeError  # a real node has ended by now

    async def work(error: Exception | None) -> None:
        if error is not None:
            raise error
        await asyncio.sleep(60)

    cancelled = spawn(work(None), name="cancelled", fatal=fatal)
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.wait([cancelled])
    assert errors == []
    broken = ValueError("broken")
    failed = spawn(work(broken), name="failed", fatal=fatal)
    await asyncio.wait([failed])
    await asyncio.sleep(0)
    assert errors == [broken]


async def test_what_is_ended_has_ended() -> None:
    ended = []

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            ended.append(True)

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    await end(task, None)
    assert ended == [True]
    assert task.cancelled()
