"""What lies in a data directory is measured by part."""

from __future__ import annotations

import asyncio
from pathlib import Path

from eventually import eventually

from raftflow.cluster.disk_watch import DiskUse, DiskWatch, growth, measure
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


def use(free: int, log: int = 0) -> DiskUse:
    return DiskUse(1_000, free, {"log": log, "state": 5})


def test_how_fast_it_fills_up_and_when_it_is_full() -> None:
    found = growth((100.0, use(900)), (110.0, use(700, log=50)))
    assert found is not None
    assert (found.over_ms, found.used_bytes, found.full_in_ms) == (10_000, 200, 35_000)
    assert found.parts == {"log": 50, "state": 0}
    emptier = growth((100.0, use(700)), (110.0, use(900)))
    assert emptier is not None
    assert emptier.full_in_ms is None
    assert growth((100.0, use(900)), (101.0, use(0))) is None  # too soon to tell


async def test_it_looks_again_when_it_is_asked(tmp_path: Path) -> None:
    now = [0.0]
    watch = DiskWatch(data_dir=tmp_path, metrics=Metrics(), now=lambda: now[0])
    assert watch.look() is None
    assert watch.latest() is None
    watching = asyncio.create_task(watch.run())
    await eventually(watch.latest)
    now[0] = 60.0
    looked = watch.look()
    assert looked is not None
    assert looked[0].free_bytes > 0
    assert looked[1] is not None
    assert looked[1].over_ms == 60_000
    watching.cancel()
