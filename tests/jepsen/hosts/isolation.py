"""The suite runs in namespaces of its own, which the kernel takes down with it.

The command line starts itself again under unshare(1): own process ids, own mounts, own network.
When the first process in there ends, also by kill -9, every node, worker, switch, mount, loop
device and network namespace goes with it, and nothing outside has ever changed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

MARK = "RAFTFLOW_JEPSEN_ISOLATED"
UNSHARE = (
    *("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"),
    *("--propagation", "private", "--"),
)
TOOLS = ("unshare", "nsenter", "mount", "umount", "mkfs.ext4", "cc")


def isolated() -> bool:
    return os.environ.get(MARK) == str(os.getpid())


def obstacle() -> str:
    """What keeps this machine from giving each node a network and a disk; empty when nothing."""
    if os.geteuid() != 0:
        return "not root"
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"missing: {', '.join(missing)}"
    for device in ("/dev/net/tun", "/dev/loop-control"):
        if not os.access(device, os.R_OK | os.W_OK):
            return f"no access to {device}"
    probe = subprocess.run([*UNSHARE, "true"], capture_output=True, text=True, check=False)
    return "" if probe.returncode == 0 else f"unshare: {probe.stderr.strip()}"


def command(arguments: list[str]) -> list[str]:
    return [*UNSHARE, "env", f"{MARK}=1", sys.executable, "-m", "tests.jepsen", *arguments]


def enter(arguments: list[str]) -> None:
    """Become the isolated run; returns only within it."""
    if not isolated():
        os.execvp(UNSHARE[0], command(arguments))
