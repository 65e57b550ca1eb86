"""How much a worker takes on: slots, which are reserved before work is asked for, and threads."""

import logging
import queue
import threading
from collections.abc import Callable

logger = logging.getLogger("raftflow_sdk")


class Slots:
    """So many tasks of one kind at once, in hand or asked for."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._free = total
        self._changed = threading.Condition()
        self._closed = False

    def wait(self) -> int:
        """Reserve half of the free slots, waiting for one if need be; 0 once closed. The rest is
        for tasks that come with an answer, and for the other pollers."""
        with self._changed:
            self._changed.wait_for(lambda: self._free > 0 or self._closed)
            return 0 if self._closed else self._take((self._free + 1) // 2)

    def reserve(self, most: int) -> int:
        """Reserve what is free now, up to ``most``."""
        with self._changed:
            return self._take(max(0, min(self._free, most)))

    def release(self, count: int = 1) -> None:
        if count > 0:
            with self._changed:
                self._free += count
                self._changed.notify(count)

    def close(self) -> None:
        """Nobody waits any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _take(self, count: int) -> int:
        self._free -= count
        return count


class Threads:
    """A fixed number of daemon threads that do what is submitted. Nothing waits long for one:
    whatever is submitted holds a slot, and there are as many threads as slots."""

    def __init__(self, count: int, name: str, last: Callable[[], None]) -> None:
        """Each thread calls ``last`` at its end."""
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._last = last
        self._lock = threading.Lock()
        self._closed = False
        self.threads = [
            threading.Thread(target=self._run, name=f"{name}-{number}", daemon=True)
            for number in range(count)
        ]

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def submit(self, work: Callable[[], None]) -> bool:
        """False once closed: it must be done by whoever has it."""
        with self._lock:
            if not self._closed:
                self._work.put(work)
            return not self._closed

    def close(self) -> None:
        """What was submitted is done yet, then the threads end."""
        with self._lock:
            self._closed = True
            for _ in self.threads:
                self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                work()
            except Exception:
                # The thread is a slot of the worker; the server offers the task again.
                logger.exception("a task could not be handled")
        self._last()
