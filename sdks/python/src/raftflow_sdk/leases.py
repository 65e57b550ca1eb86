"""Leases: an activity that runs here is kept ours by heartbeats, and learns when it is not."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from raftflow_sdk import payloads
from raftflow_sdk.activity import ActivityInfo
from raftflow_sdk.connection import Connection
from raftflow_sdk.errors import ApiError, Unavailable

logger = logging.getLogger("raftflow_sdk")

# Progress that code reports goes out sooner than the next beat, but no more often than this.
_DETAILS_EVERY = 1.0


class Lease:
    """The claim on one activity task, as far as this side can know."""

    def __init__(self, task: dict[str, Any], info: ActivityInfo) -> None:
        self.token: str = task["lease_token"]
        self.info = info
        self.duration: float = task["lease_duration_ms"] / 1000
        self.beat_at = time.monotonic()
        self.due = self.beat_at + self.duration / 3
        self.renewed_at = self.beat_at

    def remaining(self) -> float:
        """Seconds until it ends unless renewed; 0 once it is lost."""
        if self.info.lease_lost.is_set():
            return 0.0
        return max(0.0, self.renewed_at + self.duration - time.monotonic())

    def lose(self, *, cancelled: bool) -> None:
        self.info.lose(cancelled=cancelled)


class Heartbeats:
    """One thread that renews every lease of this worker at a third of its duration."""

    def __init__(self, connection: Connection, worker_id: str) -> None:
        self._connection = connection
        self._worker_id = worker_id
        self._held: dict[str, Lease] = {}
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="raftflow-heartbeats", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join(timeout=1.0)

    @contextmanager
    def holding(self, lease: Lease) -> Iterator[None]:
        with self._changed:
            self._held[lease.token] = lease
            self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._held.pop(lease.token, None)

    def hasten(self, info: ActivityInfo) -> None:
        with self._changed:
            for lease in self._held.values():
                if lease.info is info:
                    lease.due = min(lease.due, lease.beat_at + _DETAILS_EVERY)
            self._changed.notify()

    def _run(self) -> None:
        while (lease := self._next()) is not None:
            self._beat(lease)
        self._connection.close()

    def _next(self) -> Lease | None:
        """Wait for the lease whose beat is due; None when stopped."""
        with self._changed:
            while not self._stopped:
                lease = min(self._held.values(), key=lambda held: held.due, default=None)
                if lease is None:
                    self._changed.wait()
                    continue
                wait = lease.due - time.monotonic()
                if wait <= 0:
                    return lease
                self._changed.wait(wait)
            return None

    def _beat(self, lease: Lease) -> None:
        interval = lease.duration / 3
        body: dict[str, Any] = {
            "workflow_id": lease.info.workflow_id,
            "lease_token": lease.token,
            "worker_id": self._worker_id,
        }
        details = lease.info.take_details()
        if details is not None:
            payloads.put(body, "details", details)
        started = lease.beat_at = time.monotonic()
        lease.due = started + interval
        try:
            # Bounded, since the other leases wait: a node that hangs costs a part of an interval.
            self._connection.call(
                "POST",
                "/api/activity-tasks/heartbeat",
                body,
                timeout=min(3.0, interval / 2),
                retry_for=interval / 2,
            )
            lease.renewed_at = started
        except ApiError as err:
            self._refused(lease, err)
        except Unavailable:
            lease.info.put_back_details(details)
            lease.due = time.monotonic() + interval / 4
            if lease.remaining() == 0:
                self._drop(lease, cancelled=False)

    def _refused(self, lease: Lease, err: ApiError) -> None:
        if err.status in (404, 409):
            self._drop(lease, cancelled=err.cancelled)
        else:
            logger.error("heartbeat of %s refused: %s", lease.info.step_name, err)

    def _drop(self, lease: Lease, *, cancelled: bool) -> None:
        lease.lose(cancelled=cancelled)
        with self._changed:
            self._held.pop(lease.token, None)
