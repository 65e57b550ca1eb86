"""The background scrub finds rot in log and state, and keeps its rate."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from corrupt import damage_entry
from eventually import eventually

from raftflow.cluster.damage import Part
from raftflow.cluster.metrics import Metrics
from raftflow.cluster.scrub import Scrub, ScrubSettings
from raftflow.cluster.store import Store
from raftflow.raftlog.disk import OsDisk
from raftflow.raftlog.journal import Journal, LogEntry

FAST = ScrubSettings(bytes_per_second=1 << 30, pause_ms=100)


@pytest.fixture
async def data_dir(tmp_path: Path) -> Path:
    journal = Journal.open(str(tmp_path / "raft"), disk=OsDisk(), segment_bytes=8_000)
    for index in range(1, 30):
        journal.append([LogEntry(index, 1, b"x" * 900)])
        journal.flush()
    journal.close()
    await (await Store.open(tmp_path / "state.db")).close()
    return tmp_path


def scrub(
    data_dir: Path,
    found: list[tuple[Part, str]],
    *,
    settings: ScrubSettings = FAST,
) -> tuple[Scrub, Metrics]:
    metrics = Metrics()
    made = Scrub(
        data_dir=data_dir,
        settings=settings,
        metrics=metrics,
        lag_ms=lambda: 0.0,
        found=lambda part, error: found.append((part, str(error))),
    )
    return made, metrics


def value(metrics: Metrics, name: str, **labels: str) -> float:
    return metrics.registry.get_sample_value(name, labels) or 0.0


async def test_sound_data_is_read_again_and_again(data_dir: Path) -> None:
    found: list[tuple[Part, str]] = []
    made, metrics = scrub(data_dir, found)
    task = asyncio.create_task(made.run())
    await eventually(
        lambda: value(metrics, "workflowd_scrub_completed_timestamp_seconds") > 0, "a whole pass"
    )
    task.cancel()
    assert found == []
    assert value(metrics, "workflowd_scrub_bytes_total", part="log") >= 29 * 900
    assert value(metrics, "workflowd_scrub_bytes_total", part="state") > 0


async def test_rot_in_the_log_and_in_the_state_is_found(data_dir: Path) -> None:
    damage_entry(data_dir / "raft", 7)
    state = bytearray((data_dir / "state.db").read_bytes())
    state[4096 * 2 : 4096 * 3] = b"\xff" * 4096
    (data_dir / "state.db").write_bytes(state)
    found: list[tuple[Part, str]] = []
    made, metrics = scrub(data_dir, found)
    task = asyncio.create_task(made.run())
    await eventually(lambda: {part for part, _ in found} == set(Part), "both are found")
    task.cancel()
    assert "offset" in next(reason for part, reason in found if part is Part.LOG)
    assert value(metrics, "workflowd_scrub_findings_total", part="log") >= 1


async def test_it_keeps_its_rate_and_can_be_switched_off(data_dir: Path) -> None:
    found: list[tuple[Part, str]] = []
    off, _ = scrub(data_dir, found, settings=ScrubSettings(bytes_per_second=0, pause_ms=100))
    await asyncio.wait_for(off.run(), 1)
    slow = ScrubSettings(bytes_per_second=40_000, pause_ms=100)
    made, metrics = scrub(data_dir, found, settings=slow)
    began = time.monotonic()
    task = asyncio.create_task(made.run())
    await asyncio.sleep(0.2)
    task.cancel()
    read = value(metrics, "workflowd_scrub_bytes_total", part="log")
    # A burst of a quarter of a second, and one step of a segment on top.
    assert read <= (time.monotonic() - began + 0.25) * 40_000 + 20_000


async def test_it_may_be_stopped_in_the_middle_of_a_read(data_dir: Path) -> None:
    reading = threading.Event()

    class Slow(Scrub):
        def _log_steps(self) -> Iterator[int]:
            try:
                while True:
                    reading.set()
                    time.sleep(0.02)
                    yield 1
            finally:
                reading.clear()

    found: list[tuple[Part, str]] = []
    whole, metrics = scrub(data_dir, found)
    made = Slow(
        data_dir=data_dir, settings=FAST, metrics=metrics, lag_ms=whole._lag_ms, found=whole._found
    )
    task = asyncio.create_task(made.run())
    await asyncio.to_thread(reading.wait, 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not reading.is_set(), "its steps were closed"
