"""A watchdog for replays: workflow code that blocks or loops is named, with the line it is at.

A replay takes milliseconds, since waiting means to leave it. Python cannot end a thread, so the
watchdog only tells; the slot is lost until the process is restarted.
"""

import logging
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

logger = logging.getLogger("raftflow_sdk")


@dataclass(slots=True)
class _Replaying:
    workflow_id: str
    since: float
    told: bool = False


class Watchdog:
    def __init__(self, limit: float = 5.0) -> None:
        self._limit = limit
        self._replaying: dict[int, _Replaying] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="raftflow-watchdog", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    @contextmanager
    def watching(self, workflow_id: str) -> Iterator[None]:
        thread = threading.get_ident()
        self._replaying[thread] = _Replaying(workflow_id, time.monotonic())
        try:
            yield
        finally:
            del self._replaying[thread]

    def _run(self) -> None:
        while not self._stopped.wait(self._limit / 2):
            for thread, replay in list(self._replaying.items()):
                took = time.monotonic() - replay.since
                if took > self._limit and not replay.told:
                    replay.told = True
                    logger.error(
                        "workflow %s: the code has blocked its replay for %.1f s; it must neither "
                        "wait by itself nor loop for ever. It is at:\n%s",
                        replay.workflow_id,
                        took,
                        _stack(thread),
                    )


def _stack(thread: int) -> str:
    frame = sys._current_frames().get(thread)
    return "".join(traceback.format_stack(frame)[-6:]) if frame is not None else "(it has ended)"
