"""Graceful cancellation: the code is told once, at the same point of every replay.

The decision that tells it records a marker with the length of the history it saw. Until a later
replay reaches that marker it hides what came after that length, so that the code stands where it
stood. Telling cancels whatever the code waits for; what it starts afterwards runs as usual.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from raftflow_sdk import payloads
from raftflow_sdk.replay.futures import Future

if TYPE_CHECKING:
    from raftflow_sdk.replay.core import Replay

STEP_NAME = "cancellation"


class Cancellation:
    """Whether the run was asked to cancel, and whether its code knows."""

    def __init__(self, task: Mapping[str, Any]) -> None:
        self.event_id = int(task.get("cancel_requested_event_id") or 0)
        self.reason = str(task.get("cancel_reason") or "")
        self._moment = str(task.get("cancel_requested_at") or "")
        self._history_length = int(task.get("history_length") or 0)
        self._horizon = _horizon(task) if self.event_id else None
        self.told = False

    def shows(self, event_id: int) -> bool:
        """Whether the code may be given what this event brought."""
        return self._horizon is None or event_id <= self._horizon

    def known_at(self, position: int) -> bool:
        """Whether code that was told everything up to `position` may know of the request."""
        return self.told or 0 < self.event_id <= position

    def tell(self, replay: Replay, waits: Sequence[Future[Any]]) -> bool:
        """The code waits, and for nothing that the history has: tell it, if that is due."""
        if self.told or not self.event_id:
            return False
        if replay.marker("cancel", STEP_NAME) is None:
            if replay.next_recorded() is not None:
                return False  # the history knows that the code went on first
            replay.record_marker("cancel", STEP_NAME, lambda: str(self._history_length))
        self.told = True
        self._horizon = None
        replay.clock.reach(self.event_id, self._moment)
        for future in waits:
            future.cancel(self.reason)
        return True


def _horizon(task: Mapping[str, Any]) -> int | None:
    for step in task.get("steps") or ():
        if step["kind"] == "MARKER" and step.get("marker") == "cancel":
            return int(payloads.get(step, "output"))
    return None
