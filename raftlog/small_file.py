"""A small file beside the log, replaced whole: temporary file, fsync, rename, directory fsync.

Header (magic, format version, a number, the length of the body), body, CRC32C.
"""

from __future__ import annotations

import os
from struct import Struct

from crc32c import crc32c

from raftflow.raftlog import segment
from raftflow.raftlog.disk import Disk
from raftflow.raftlog.errors import JournalDamaged, JournalError, naming

VERSION = 1

_HEADER = Struct("<8sIQI")
_CRC = Struct("<I")


class SmallFile:
    """``what`` names the content in messages."""

    def __init__(
        self, disk: Disk, directory: str, name: str, *, magic: bytes, what: str, remedy: str
    ) -> None:
        self.path = os.path.join(directory, name)
        self._disk = disk
        self._magic = magic
        self._what = what
        self._remedy = remedy
        self._broken: JournalError | None = None

    def read(self) -> tuple[int, int, bytes]:
        """Number, length as it is told, body. Raises JournalDamaged if it does not verify."""
        with naming(self.path, 0, f"reading {self._what}"):
            fd = self._disk.open(self.path)
            try:
                data = self._disk.pread(fd, self._disk.size(fd), 0)
            finally:
                self._disk.close(fd)
        if len(data) < _HEADER.size + _CRC.size:
            raise self.damaged(len(data), f"the file of {self._what} is cut short")
        raw = data[: -_CRC.size]
        if crc32c(raw) != _CRC.unpack_from(data, len(raw))[0]:
            raise self.damaged(0, f"the checksum of {self._what} does not match")
        magic, version, number, length = _HEADER.unpack_from(raw)
        if magic != self._magic or version != VERSION:
            remedy = "start the release that wrote it, or a newer one"
            problem = f"format version {version} is not known"
            raise JournalDamaged(self.path, 0, problem, remedy)
        return number, length, raw[_HEADER.size :]

    def write(self, number: int, length: int, body: bytes) -> None:
        """On disk when it returns. A failure is final: every later call raises it again."""
        if self._broken is not None:
            raise self._broken
        raw = _HEADER.pack(self._magic, VERSION, number, length) + body
        try:
            with naming(self.path, 0, f"writing {self._what}"):
                replace(self._disk, self.path, raw + _CRC.pack(crc32c(raw)))
        except JournalError as error:
            self._broken = error
            raise

    def damaged(self, offset: int, problem: str) -> JournalDamaged:
        return JournalDamaged(self.path, offset, problem, self._remedy)


def replace(disk: Disk, path: str, content: bytes) -> None:
    """Whole or not at all, and on disk when it returns."""
    fd = disk.create(path + segment.TEMPORARY)
    try:
        disk.pwrite(fd, content, 0)
        disk.fdatasync(fd)
    finally:
        disk.close(fd)
    disk.rename(path + segment.TEMPORARY, path)
    disk.fsync_dir(os.path.dirname(path))
