"""The one thread in which the journal is flushed.

Group commit falls out of it: what is appended while a flush runs is one request, and the next flush
takes all of it.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread

# The flush thread needs the interpreter twice a flush. Behind a busy loop Python's 5 ms turns would
# cost more than the disk does: p99 of a commit fell from 70 to 9 ms.
SWITCH_INTERVAL_S = 0.0005


class Flusher:
    def __init__(
        self,
        *,
        flush: Callable[[], int],
        flushed: Callable[[int, float], None],
        failed: Callable[[BaseException], object],
    ) -> None:
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_INTERVAL_S))
        self._flush = flush
        self._flushed = flushed
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._requests: SimpleQueue[bool] = SimpleQueue()
        self._requested = False
        self._thread = Thread(target=self._run, name="raft-flush", daemon=True)
        self._thread.start()

    def request(self) -> None:
        """Something was appended. Called on the loop; answers with `flushed(index, seconds)`."""
        if not self._requested:
            self._requested = True
            self._requests.put(True)

    async def close(self) -> None:
        self._requests.put(False)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        while self._requests.get():
            # Cleared first: what is appended from here on asks for a flush of its own.
            self._requested = False
            began = time.perf_counter()
            try:
                index = self._flush()
            except BaseException as error:  # noqa: BLE001
                self._loop.call_soon_threadsafe(self._failed, error)
                return
            seconds = time.perf_counter() - began
            self._loop.call_soon_threadsafe(self._flushed, index, seconds)
