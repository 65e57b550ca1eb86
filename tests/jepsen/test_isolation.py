"""A runner that is killed leaves nothing: no process, mount, loop device or network of its own."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jepsen.hosts import isolation
from tests.jepsen.hosts.processes import wait_for

ROOT = Path(__file__).resolve().parent.parent.parent
COMMAND = (sys.executable, "-m", "tests.jepsen")

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    obstacle = isolation.obstacle()
    if obstacle and not os.environ.get("CI"):
        pytest.skip(f"no namespaces here: {obstacle}")
    words = ("run", "--workload", "starts", "--nemesis", "kill-follower", "--store", str(tmp_path))
    process = subprocess.Popen(
        [*COMMAND, *words], cwd=ROOT, stderr=subprocess.PIPE, text=True, bufsize=1
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def processes_of(directory: Path) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(directory) in words and int(entry.name) != os.getpid():
            found.append(words)
    return found


def loops_of(directory: Path) -> str:
    listed = subprocess.run(["losetup", "-a"], capture_output=True, text=True, check=True).stdout
    return "\n".join(line for line in listed.splitlines() if str(directory) in line)


def networks() -> list[str]:
    """The machine's interfaces, without what they have counted."""
    return [line.split(":")[0] for line in Path("/proc/net/dev").read_text().splitlines()]


def test_a_killed_runner_leaves_files_only(runner: subprocess.Popen[str], tmp_path: Path) -> None:
    before = networks()
    assert runner.stderr is not None
    for line in runner.stderr:
        if "at work" in line:
            break
    assert len(processes_of(tmp_path)) >= 3
    assert loops_of(tmp_path)
    assert networks() == before
    runner.send_signal(signal.SIGKILL)
    runner.wait()
    wait_for("its processes are gone", lambda: not processes_of(tmp_path), deadline=10)
    wait_for("its loop devices are gone", lambda: not loops_of(tmp_path), deadline=10)
    assert networks() == before
    assert str(tmp_path) not in Path("/proc/mounts").read_text()
    cleaned = subprocess.run(
        [*COMMAND, "clean", "--store", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "removed" in cleaned.stdout
    assert not list(tmp_path.glob("*/disks-*"))
