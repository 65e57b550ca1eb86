"""Runs the scenes of `network_scenes.py` with networks, disks and processes of their own: when they
end, whatever happened, all of that is gone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.jepsen.hosts import isolation

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
SCENES = Path(__file__).with_name("network_scenes.py")


def test_what_why_says_of_networks_and_disks(tmp_path: Path) -> None:
    obstacle = isolation.obstacle()
    if obstacle and not os.environ.get("CI"):
        pytest.skip(f"no namespaces here: {obstacle}")
    done = subprocess.run(
        [
            *(*isolation.UNSHARE, "env", f"{isolation.MARK}=1", sys.executable),
            *("-m", "pytest", "-q", str(SCENES), "--basetemp", str(tmp_path / "scenes")),
            *("-p", "no:cacheprovider"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6_000:] + done.stderr[-2_000:]
