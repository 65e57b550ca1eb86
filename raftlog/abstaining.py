"""A mark beside the vote: this node forgot what it had acknowledged, so it must vote for nobody.

It is on disk before the damaged end of the log is cut off, and goes when everything that is
committed is back.
"""

from __future__ import annotations

import os

from raftflow.raftlog import small_file
from raftflow.raftlog.disk import Disk
from raftflow.raftlog.errors import naming

FILE = "abstaining"


def marked(disk: Disk, directory: str) -> bool:
    with naming(directory, 0, "listing the directory"):
        return FILE in disk.listdir(directory)


def mark(disk: Disk, directory: str, reason: str) -> None:
    path = os.path.join(directory, FILE)
    with naming(path, 0, "noting that this node abstains"):
        small_file.replace(disk, path, reason.encode() + b"\n")


def clear(disk: Disk, directory: str) -> None:
    path = os.path.join(directory, FILE)
    with naming(path, 0, "removing the note that this node abstains"):
        if FILE in disk.listdir(directory):
            disk.unlink(path)
            disk.fsync_dir(directory)
