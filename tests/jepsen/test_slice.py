"""What CI runs of the fault suite, in under three minutes: kills, pauses, partitions, disk faults
and a power loss of all nodes, each once, on real nodes under load. `make soak` is the long run."""

import subprocess
import sys
import warnings
from pathlib import Path

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

ROOT = Path(__file__).resolve().parent.parent.parent
PATIENCE_S = 240
LEFT_OUT = "jepsen: left out: "


def test_nothing_is_lost(tmp_path: Path) -> None:
    """Where CI is set it fails without root; elsewhere it does what plain processes allow."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.jepsen", "slice", "--seed", "1", "--store", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    logs = "\n".join(
        f"--- {log.name}\n{log.read_text(errors='replace')[-2_000:]}"
        for log in sorted(tmp_path.glob("*/*.log"))
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{logs}"
    for line in done.stderr.splitlines():
        if line.startswith(LEFT_OUT):
            warnings.warn(line, stacklevel=1)
