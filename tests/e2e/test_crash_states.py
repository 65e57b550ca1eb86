"""Whatever a power loss leaves of log, vote, state and copies together, the node comes back with
all that it promised, and says the same as the node that never lost power."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import disk_shim
import pytest

pytestmark = pytest.mark.slow

CAMPAIGN = Path(disk_shim.__file__).with_name("crash_campaign.py")
# `make campaigns` takes more of both.
CUTS = int(os.environ.get("CRASH_CUTS", "50"))
SEEDS = int(os.environ.get("CRASH_SEEDS", "1"))


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory where that can be had: the states are many, and their fsyncs prove nothing."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None, prefix="raftflow-") as name:
        yield Path(name)


# Each sync that the promises rest on; left out of what is recorded, it must be missed.
SYNCS = [
    "raft/*.segment",
    "raft/*.segment.tmp",
    "raft/hardstate.tmp",
    "raft",
    ".",
    "state.db-wal",
    "state.db",
    "snapshots/incoming/*/part",
]


def campaign(folder: Path, root: str, trace: str, *arguments: str) -> dict[str, Any]:
    (folder / root).mkdir()
    shim = disk_shim.environment(folder / root, trace=folder / trace)
    done = subprocess.run(
        [sys.executable, str(CAMPAIGN), *arguments],
        env={**os.environ, **shim},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_crash_state_recovers_what_was_promised(folder: Path, seed: int) -> None:
    lived = campaign(folder, "n1", "trace", "live", str(folder), str(seed))
    assert lived["entries"] > 40
    kinds = {change.kind for change in disk_shim.changes(folder / "trace")}
    assert kinds == set(disk_shim._KINDS.values()), "the history does all that a disk can be asked"
    judged = campaign(
        folder, "states", "recoveries", "judge", str(folder), str(seed), str(CUTS), "4"
    )
    assert judged["states"] >= min(CUTS, 40) * 4
    assert judged["recoveries_cut"] > CUTS // 2
    assert not judged["wrong"], "\n".join(judged["wrong"])


def test_a_sync_that_is_left_out_is_missed(folder: Path) -> None:
    """The judge is judged: with one kind of sync taken out of the history, it finds promises
    broken."""
    campaign(folder, "n1", "trace", "live", str(folder), "0")
    judged = campaign(
        folder, "states", "recoveries", "forget", str(folder), "0", "120", "4", *SYNCS
    )
    assert judged.keys() == set(SYNCS)
    assert all(judged.values()), judged
