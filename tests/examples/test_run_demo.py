"""The tour: it completes, gets out of the way of others, and leaves nothing behind."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEMO = (sys.executable, str(ROOT / "examples" / "run_demo.py"))
TIMEOUT_S = 120
pytestmark = pytest.mark.cluster


def start(*options: str, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*DEMO, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1", **variables},
    )


def processes_of(directory: Path) -> list[str]:
    """Command lines that name the directory."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(directory) in line and f"/{os.getpid()}/" not in str(path):
            found.append(line)
    return found


def test_once_completes_and_stops_everything(tmp_path: Path) -> None:
    demo = start("--once", "--data-dir", str(tmp_path))
    said, _ = demo.communicate(timeout=TIMEOUT_S)
    assert demo.returncode == 0, said
    for step in ("reserve", "settle", "gate", "charge", "ship"):
        assert re.search(rf"✔ {step} +completed", said), said
    assert "charge    completed at attempt 2" in said
    assert re.search(r"COMPLETED +shipped: reservation of order-", said)
    assert len(re.findall(r"^  http://127\.0\.0\.1:\d+/$", said, re.M)) == 3
    assert "\x1b[" not in said, "plain when not on a terminal"
    assert processes_of(tmp_path) == []


def test_ctrl_c_stops_everything_and_busy_ports_are_avoided(tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            holder.bind(("127.0.0.1", 8233))
            holder.listen()  # bound alone, it would not be in the way
        except OSError:
            pass  # taken already, which is as good
        demo = start("--data-dir", str(tmp_path))
        assert demo.stdout is not None
        said = []
        deadline = time.monotonic() + TIMEOUT_S
        for line in demo.stdout:
            said.append(line)
            if "Ctrl-C stops everything" in line:
                break
            assert time.monotonic() < deadline
        assert any("The usual ports are taken" in line for line in said), said
        assert processes_of(tmp_path)
        demo.send_signal(signal.SIGINT)
        rest, _ = demo.communicate(timeout=TIMEOUT_S)
    assert demo.returncode == 0, rest
    assert "Stopped." in rest
    assert processes_of(tmp_path) == []


def test_a_terminal_that_is_closed_leaves_nothing_behind(tmp_path: Path) -> None:
    demo = start(TMPDIR=str(tmp_path))
    assert demo.stdout is not None
    while "The cluster has a leader" not in demo.stdout.readline():
        assert demo.poll() is None
    assert processes_of(tmp_path)
    demo.send_signal(signal.SIGHUP)
    demo.communicate(timeout=TIMEOUT_S)
    assert demo.returncode == 128 + signal.SIGHUP
    assert processes_of(tmp_path) == []
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_a_start_that_fails_says_why(tmp_path: Path) -> None:
    (tmp_path / "dev.json").write_text("not json")
    demo = start("--once", "--data-dir", str(tmp_path))
    said, _ = demo.communicate(timeout=TIMEOUT_S)
    assert demo.returncode == 1
    assert "The demo failed: raftflow dev ended with status" in said
    assert "dev.json" in said
