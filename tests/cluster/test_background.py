"""A background task may be cancelled, and may not fail unnoticed."""

import asyncio
import threading
from typing import NoReturn

import pytest

from raftflow.cluster.background import end, in_thread, spawn


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


async def test_a_cancellation_waits_for_the_thread() -> None:
    begun, go_on = threading.Event(), threading.Event()
    done: list[bool] = []

    def work() -> None:
        begun.set()
        go_on.wait(60)
        done.append(True)

    task = asyncio.create_task(in_thread(work))
    await asyncio.to_thread(begun.wait, 60)
    for _ in range(3):  # however often it is asked
        task.cancel()
        await asyncio.sleep(0)
    assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == [True]
