from __future__ import annotations

import asyncio
import threading

from eventually import eventually

from raftflow.cluster.consensus.flusher import Flusher


async def test_what_comes_during_a_flush_shares_the_next_one() -> None:
    appended, written = 0, 0
    started, gate = threading.Event(), threading.Event()
    done: list[int] = []

    def flush() -> int:
        nonlocal written
        written = appended
        started.set()
        gate.wait(5)
        return written

    flusher = Flusher(flush=flush, flushed=lambda index, seconds: done.append(index), failed=print)
    appended = 1
    flusher.request()
    await asyncio.to_thread(started.wait, 5)
    for _ in range(10):
        appended += 1
        flusher.request()
    gate.set()
    await eventually(lambda: done == [1, 11])
    await flusher.close()
    assert done == [1, 11]


async def test_the_loop_turns_while_the_disk_is_slow() -> None:
    gate = threading.Event()
    flusher = Flusher(flush=lambda: int(gate.wait(5)), flushed=lambda *_: None, failed=print)
    flusher.request()
    for _ in range(10):
        await asyncio.sleep(0)
    gate.set()
    await flusher.close()


async def test_a_failure_is_told_once_and_ends_the_thread() -> None:
    def flush() -> int:
        raise OSError("no space")

    failures: list[BaseException] = []
    flusher = Flusher(flush=flush, flushed=lambda *_: None, failed=failures.append)
    flusher.request()
    await eventually(lambda: len(failures) == 1)
    flusher.request()
    await flusher.close()
    assert [str(failure) for failure in failures] == ["no space"]
