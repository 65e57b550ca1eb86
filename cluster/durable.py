"""Small files and names that are on disk when the call returns.

What is written through raftlog's `Disk` port has `raftflow.raftlog.small_file` for it.
"""

from __future__ import annotations

import os


def replace_durably(path: str, content: bytes) -> None:
    """Whole or not at all, and on disk when this returns."""
    temporary = path + ".tmp"
    with open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.rename(temporary, path)
    sync_directory(os.path.dirname(path))


def sync_directory(path: str) -> None:
    """Make the names in it durable."""
    fd = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
