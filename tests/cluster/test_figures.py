"""What a node measures of itself."""

from __future__ import annotations

import pytest

from raftflow.cluster.disk_watch import DiskUse
from raftflow.cluster.figures import Figures, NodeFigures


def test_what_is_not_known_yet_is_none() -> None:
    figures = Figures(disk=lambda: None, loop_lag_ms=lambda: 0.04)
    assert figures.now() == NodeFigures(
        log_bytes=None, store_bytes=None, disk_free_bytes=None, fsync_ms=None, loop_lag_ms=0.0
    )


def test_what_is_known_is_told() -> None:
    parts = {"log": 1, "state": 2, "snapshots": 4, "damaged": 8}
    figures = Figures(disk=lambda: DiskUse(100, 50, parts), loop_lag_ms=lambda: 12.34)
    figures.flushed(0.002)
    now = figures.now()
    assert (now.log_bytes, now.store_bytes, now.disk_free_bytes) == (1, 2, 50)
    assert now.fsync_ms == pytest.approx(2, rel=0.06)
    assert now.loop_lag_ms == 12.3
