"""What lies in a data directory is measured by part."""

from __future__ import annotations

import asyncio
from pathlib import Path

from eventually import eventually

from raftflow.cluster.disk_watch import DiskWatch, measure
from raftflow.cluster.metrics import Metrics


def put(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)


def test_each_part_is_the_sum_of_its_files(tmp_path: Path) -> None:
    put(tmp_path / "raft" / "1.log", 300)
    put(tmp_path / "raft" / "hardstate", 20)
    put(tmp_path / "state.db", 4_000)
    put(tmp_path / "state.db-wal", 1_000)
    put(tmp_path / "snapshots" / "made" / "copy", 50)
    put(tmp_path / "node.json", 7)
    use = measure(tmp_path)
    assert use.parts == {"log": 320, "state": 5_000, "snapshots": 50, "damaged": 0}
    assert use.size_bytes >= use.free_bytes > 0


def test_an_empty_directory_has_nothing(tmp_path: Path) -> None:
    assert set(measure(tmp_path).parts.values()) == {0}


async def test_the_metrics_follow(tmp_path: Path) -> None:
    metrics = Metrics()
    watching = asyncio.create_task(
        DiskWatch(data_dir=tmp_path, metrics=metrics, period_s=0.001).run()
    )
    await eventually(lambda: b'data_bytes{part="log"} 0.0' in metrics.render())
    put(tmp_path / "raft" / "1.log", 300)
    await eventually(lambda: b'data_bytes{part="log"} 300.0' in metrics.render())
    assert b"workflowd_disk_free_bytes 0.0" not in metrics.render()
    watching.cancel()
