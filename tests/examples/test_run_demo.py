"""The tour: it completes, gets out of the way of others, and leaves nothing behind."""

import contextlib
import importlib.util
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEMO = (sys.executable, str(ROOT / "examples" / "run_demo.py"))
TIMEOUT_S = 120
pytestmark = pytest.mark.cluster


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    demos: list[subprocess.Popen[str]] = []

    def start(*options: str, **variables: str) -> subprocess.Popen[str]:
        demo = subprocess.Popen(
            [*DEMO, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **variables},
        )
        demos.append(demo)
        return demo

    yield start
    for demo in demos:
        demo.terminate()
        demo.communicate(timeout=TIMEOUT_S)


def processes_of(directory: Path) -> list[str]:
    """Command lines of those who have the directory among their arguments or variables."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        if path.name == str(os.getpid()):
            continue
        try:
            line = (path / "cmdline").read_bytes()
            if str(directory).encode() in line + (path / "environ").read_bytes():
                found.append(line.replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return found


def test_once_completes_and_stops_everything(start: Start, tmp_path: Path) -> None:
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


def test_ctrl_c_stops_everything_and_busy_ports_are_avoided(start: Start, tmp_path: Path) -> None:
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


def test_a_terminal_that_is_closed_leaves_nothing_behind(start: Start, tmp_path: Path) -> None:
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


def test_a_start_that_fails_says_why(start: Start, tmp_path: Path) -> None:
    (tmp_path / "dev.json").write_text("not json")
    demo = start("--once", "--data-dir", str(tmp_path))
    said, _ = demo.communicate(timeout=TIMEOUT_S)
    assert demo.returncode == 1
    assert "The demo failed: raftflow dev ended with status" in said
    assert "dev.json" in said


def test_a_signal_waits_until_the_child_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("run_demo", DEMO[1])
    assert spec is not None
    assert spec.loader is not None
    demo = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(demo)
    stopped = []

    class Child:
        def __init__(self, name: str) -> None:
            signal.raise_signal(signal.SIGINT)
            self.name = name

        def stop(self) -> None:
            stopped.append(self.name)

    monkeypatch.setattr(demo, "Child", Child)
    with pytest.raises(KeyboardInterrupt), contextlib.ExitStack() as stack:
        demo.start_child(stack, "worker")
    assert stopped == ["worker"]
