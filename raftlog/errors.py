"""What can go wrong with the files, always with the file, the offset and the way out."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

REMEDY_DAMAGED = (
    "do not edit or delete the file by hand, and check the disk. `raftflow log verify` lists all "
    "damage. Beside other nodes a start repairs it; what no start repairs, `raftflow node rebuild` "
    "sets aside, and the node fetches everything from the others. A node alone has no other copy"
)
REMEDY_IO = (
    "check the disk and the kernel log (dmesg), then start the node again. Nothing that was not "
    "on disk has been acknowledged"
)
REMEDY_FULL = "free space on the volume of this file (or enlarge it), then start the node again"


class JournalError(Exception):
    """A journal or vote file cannot be used any further."""

    def __init__(self, path: str, offset: int, message: str, remedy: str) -> None:
        super().__init__(path, offset, message, remedy)
        self.path = path
        self.offset = offset
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.path}: offset {self.offset}: {self.message}. What to do: {self.remedy}."


class JournalDamaged(JournalError):
    """The bytes on disk are not the bytes that were written, and they may have been promised."""

    def __init__(self, path: str, offset: int, message: str, remedy: str = REMEDY_DAMAGED) -> None:
        super().__init__(path, offset, message, remedy)


class JournalIOError(JournalError):
    """The operating system refused a read, a write or an fsync."""


class JournalFull(JournalIOError):
    """No space left (or quota reached)."""


class JournalLocked(JournalError):
    """Another process has the directory."""

    def __init__(self, path: str) -> None:
        super().__init__(
            path,
            0,
            "another process is using this directory",
            "stop that process, or give this node a data directory of its own",
        )


class JournalClosed(JournalError):
    """The journal was closed by its owner."""

    def __init__(self, path: str) -> None:
        super().__init__(path, 0, "the journal is closed", "open it again")


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@contextmanager
def naming(path: str, offset: int, doing: str) -> Iterator[None]:
    """Turn the operating system's error into ours: which file, where, and what was being done."""
    try:
        yield
    except OSError as error:
        message = f"{doing} failed: {error.strerror or error} (errno {error.errno})"
        if error.errno in _FULL:
            raise JournalFull(path, offset, message, REMEDY_FULL) from error
        raise JournalIOError(path, offset, message, REMEDY_IO) from error
