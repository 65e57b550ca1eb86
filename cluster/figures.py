"""What a node measures of itself: how full its disk is, how fast it syncs, how late its loop is.

Everything here is noted as it happens or measured in a thread beside; asking costs nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from raftflow.cluster.disk_watch import DiskUse
from raftflow.cluster.durations import Durations

# A minute of fsyncs.
_SLICE_S = 5.0
_SLICES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFigures:
    """None where nothing is known yet. ``fsync_ms`` is the 99th percentile of the last minute,
    ``loop_lag_ms`` the longest delay of the last ten seconds."""

    log_bytes: int | None
    store_bytes: int | None
    disk_free_bytes: int | None
    fsync_ms: float | None
    loop_lag_ms: float | None


class Figures:
    def __init__(
        self, *, disk: Callable[[], DiskUse | None], loop_lag_ms: Callable[[], float]
    ) -> None:
        self._disk = disk
        self._loop_lag_ms = loop_lag_ms
        self._fsync = Durations(slice_s=_SLICE_S, slices=_SLICES)

    def flushed(self, seconds: float) -> None:
        """One flush of the log took so long."""
        self._fsync.note(seconds * 1_000)

    def now(self) -> NodeFigures:
        use = self._disk()
        return NodeFigures(
            log_bytes=None if use is None else use.parts["log"],
            store_bytes=None if use is None else use.parts["state"],
            disk_free_bytes=None if use is None else use.free_bytes,
            fsync_ms=self._fsync.quantile_ms(0.99),
            loop_lag_ms=round(self._loop_lag_ms(), 1),
        )
