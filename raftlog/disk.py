"""The port to the disk, and the real one.

Everything raftlog does to a disk goes through `Disk`, so that a simulated one can lose what was not
synced, reorder what was not ordered, and fail any call.
"""

from __future__ import annotations

import errno
import fcntl
import os
from typing import Protocol


class Disk(Protocol):
    """What raftlog needs from a file system. Every method may raise OSError."""

    def makedirs(self, path: str) -> None:
        """Create the directory and its parents, durably; it may exist."""

    def listdir(self, path: str) -> list[str]: ...

    def open(self, path: str) -> int:
        """Open an existing file to read it."""

    def create(self, path: str) -> int:
        """Open a new, empty file to write and read it; an old one of that name is emptied."""

    def close(self, fd: int) -> None: ...

    def size(self, fd: int) -> int: ...

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        """All `size` bytes, fewer only at the end of the file."""

    def pwrite(self, fd: int, data: bytes, offset: int) -> None:
        """All of `data`, or an error."""

    def fdatasync(self, fd: int) -> None: ...

    def rename(self, source: str, target: str) -> None: ...

    def unlink(self, path: str) -> None: ...

    def fsync_dir(self, path: str) -> None: ...

    def lock(self, path: str) -> int:
        """Take the directory for this process until `close`; BlockingIOError if it is taken."""


class OsDisk:
    """The operating system's files."""

    def makedirs(self, path: str) -> None:
        if os.path.isdir(path):
            return
        parent = os.path.dirname(os.path.abspath(path))
        self.makedirs(parent)
        try:
            os.mkdir(path)
        except FileExistsError:
            if not os.path.isdir(path):
                raise
        self.fsync_dir(parent)

    def listdir(self, path: str) -> list[str]:
        return os.listdir(path)

    def open(self, path: str) -> int:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def create(self, path: str) -> int:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)

    def close(self, fd: int) -> None:
        os.close(fd)

    def size(self, fd: int) -> int:
        return os.fstat(fd).st_size

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        data = os.pread(fd, size, offset)
        if len(data) == size or not data:
            return data
        parts = [data]
        got = len(data)
        while got < size and (data := os.pread(fd, size - got, offset + got)):
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def pwrite(self, fd: int, data: bytes, offset: int) -> None:
        written = os.pwrite(fd, data, offset)
        while written < len(data):
            # A short write is how a disk that has just become full says so: the next one raises.
            step = os.pwrite(fd, memoryview(data)[written:], offset + written)
            if step == 0:
                raise OSError(errno.EIO, "write made no progress")
            written += step

    def fdatasync(self, fd: int) -> None:
        os.fdatasync(fd)

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def fsync_dir(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def lock(self, path: str) -> int:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            raise
        return fd
