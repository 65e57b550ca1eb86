"""Polling for work: one loop that outlives elections, restarts and cluster-wide outages."""

import logging
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from raftflow_sdk.connection import Connection
from raftflow_sdk.errors import ApiError, Unavailable
from raftflow_sdk.retry import backoffs
from raftflow_sdk.slots import Slots

logger = logging.getLogger("raftflow_sdk")

# An election is over in a second or two; what lasts longer is worth a line.
_WORTH_A_WARNING = 10.0
_REPEAT_WARNING = 60.0
# A poll that was parked for so long had a working node: its end starts a new outage.
_WAS_PARKED = 5.0
_REFUSED_PAUSE_CAP = 30.0
# The server hands out no more at once.
MOST_TASKS = 100
WORKFLOW_TASKS, ACTIVITY_TASKS = "/api/workflow-tasks", "/api/activity-tasks"


class Outage:
    """Says once, for all threads of a worker, that the cluster cannot be reached."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._told_at = -_REPEAT_WARNING

    def lasts(self, since: float, news: Exception) -> None:
        now = time.monotonic()
        with self._lock:
            if now - since < _WORTH_A_WARNING or now - self._told_at < _REPEAT_WARNING:
                return
            self._told_at = now
        logger.warning("no node has answered for %d s; still trying: %s", now - since, news)


class Patience:
    """Keeps trying one call of one thread until it works or the worker stops."""

    def __init__(self, stopping: threading.Event, outage: Outage) -> None:
        self._stopping = stopping
        self._outage = outage
        self._since: float | None = None
        self._pauses = backoffs(0.05, 1.0)

    def failed(self, started: float, news: Exception) -> None:
        """Wait before the next try, longer each time in a row."""
        now = time.monotonic()
        if now - started > _WAS_PARKED:
            self._since, self._pauses = now, backoffs(0.05, 1.0)
        elif self._since is None:
            self._since = started
        self._outage.lasts(self._since, news)
        self._stopping.wait(next(self._pauses))

    def worked(self) -> None:
        self._since = None
        self._pauses = backoffs(0.05, 1.0)


class Poller:
    """Long-polls one kind of task, for as many as there are slots, until told to stop."""

    def __init__(
        self,
        connection: Connection,
        path: str,
        query: dict[str, str],
        slots: Slots,
        handle: Callable[[dict[str, Any]], None],
        *,
        stopping: threading.Event,
        outage: Outage,
    ) -> None:
        """``handle`` gets each task, and its slot with it."""
        self._connection = connection
        self._path = path
        self._query = query
        self._slots = slots
        self._handle = handle
        self._stopping = stopping
        self._outage = outage

    def run(self) -> None:
        """The body of one thread."""
        patience = Patience(self._stopping, self._outage)
        refusals = backoffs(1.0, _REFUSED_PAUSE_CAP)
        request_id = uuid.uuid4().hex
        while not self._stopping.is_set() and (room := self._slots.wait()):
            started = time.monotonic()
            tasks: list[dict[str, Any]] = []
            try:
                tasks = self._ask(request_id, room)
            except Unavailable as err:
                self._slots.release(room)
                patience.failed(started, err)
            except ApiError as err:
                self._slots.release(room)
                logger.error("%s", err)
                self._stopping.wait(next(refusals))
            else:
                # Until a poll is answered its id stays: what a broken one was granted never came.
                request_id = uuid.uuid4().hex
                patience.worked()
                refusals = backoffs(1.0, _REFUSED_PAUSE_CAP)
                self._slots.release(room - len(tasks))
            for task in tasks:
                self._handle(task)
        self._connection.close()

    def _ask(self, request_id: str, room: int) -> list[dict[str, Any]]:
        query = {**self._query, "max": min(room, MOST_TASKS), "request_id": request_id}
        return tasks_of(self._connection.poll(self._path, query))


def tasks_of(answer: Any) -> list[dict[str, Any]]:
    """A poll is answered with a list, with the one task, or with nothing."""
    if answer is None:
        return []
    found: list[dict[str, Any]] = answer.get("tasks", [answer])
    return found
