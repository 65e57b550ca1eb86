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
# By a beat code hears that nobody wants its work: they come more often than the lease needs. One
# costs the nodes a millisecond; for that alone a worker sends no more than ten a second.
_HEARS_WITHIN = 1 / 10  # of the lease
_SHORTEST = 1.0
_PER_LEASE = 0.1


class Lease:
    """The claim on one activity task, as far as this side can know."""

    def __init__(self, task: dict[str, Any], info: ActivityInfo) -> None:
        self.token: str = task["lease_token"]
        self.info = info
        self.duration: float = task["lease_duration_ms"] / 1000
        self.beat_at = time.monotonic()
        self.due = self.beat_at
        self.renewed_at = self.beat_at

    @property
    def patience(self) -> float:
        """Seconds between beats that keep it through two that are lost."""
        return self.duration / 3

    def remaining(self) -> float:
        """Seconds until it ends unless renewed; 0 once it is lost."""
        if self.info.lease_lost.is_set():
            return 0.0
        return max(0.0, self.renewed_at + self.duration - time.monotonic())

    def lose(self, *, cancelled: bool) -> None:
        self.info.lose(cancelled=cancelled)


class Heartbeats:
    """One thread that renews every lease of this worker, and hears which are not wanted."""

    def __init__(self, connection: Connection, worker_id: str) -> None:
        self._connection = connection
        self._worker_id = worker_id
        self._held: dict[str, Lease] = {}
        self._changed = threading.Condition()
        self._stopping = False
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="raftflow-heartbeats", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def hurry(self) -> None:
        """The worker stops: a beat may say that nobody but it waits for what runs."""
        with self._changed:
            self._stopping = True
            for lease in self._held.values():
                lease.due = min(lease.due, time.monotonic())
            self._changed.notify()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join(timeout=1.0)

    @contextmanager
    def holding(self, lease: Lease) -> Iterator[None]:
        with self._changed:
            self._held[lease.token] = lease
            lease.due = lease.beat_at + self._interval(lease)
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

    def _interval(self, lease: Lease) -> float:
        wanted = (
            0.0
            if self._stopping
            else max(lease.duration * _HEARS_WITHIN, len(self._held) * _PER_LEASE)
        )
        return min(lease.patience, max(_SHORTEST, wanted))

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
        body: dict[str, Any] = {
            "workflow_id": lease.info.workflow_id,
            "lease_token": lease.token,
            "worker_id": self._worker_id,
        }
        details = lease.info.take_details()
        if details is not None:
            payloads.put(body, "details", details)
        started = lease.beat_at = time.monotonic()
        lease.due = started + self._interval(lease)
        try:
            # Bounded, since the other leases wait: a node that hangs costs a part of a third.
            self._connection.call(
                "POST",
                "/api/activity-tasks/heartbeat",
                body,
                timeout=min(3.0, lease.patience / 2),
                retry_for=lease.patience / 2,
            )
            lease.renewed_at = started
        except ApiError as err:
            self._refused(lease, err)
        except Unavailable:
            lease.info.put_back_details(details)
            lease.due = time.monotonic() + lease.patience / 4
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
