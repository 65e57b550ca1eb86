"""`raft/membership`: the newest committed configuration, beside the log that may drop its entry.

One small file, replaced whole: temporary file, fsync, rename, directory fsync. It is written before
that entry may be compacted, and before a copy of the store that is newer than it is installed.
"""

from __future__ import annotations

import os
from struct import Struct

from crc32c import crc32c

from raftflow.cluster.consensus.configurations import Held
from raftflow.cluster.consensus.membership import MembershipError, decode, encode
from raftflow.raftlog.disk import Disk
from raftflow.raftlog.errors import JournalDamaged, JournalError, naming

FILE = "membership"
MAGIC = b"RAFTMEMB"
VERSION = 1

_BODY = Struct("<8sIQI")  # magic, version, index, length of the configuration
_CRC = Struct("<I")
_TEMPORARY = ".tmp"

REMEDY = (
    "never delete this file: a node that does not know who belongs to the cluster can elect two "
    "leaders. Run `raftflow node rebuild` on the data directory and, while all other nodes run, "
    "let the node join anew"
)


class MembershipFile:
    """What it holds never goes back to an older configuration."""

    def __init__(self, directory: str, disk: Disk, held: Held | None) -> None:
        self._directory = directory
        self._path = os.path.join(directory, FILE)
        self._disk = disk
        self._held = held
        self._broken: JournalError | None = None

    @classmethod
    def open(cls, directory: str, disk: Disk) -> MembershipFile:
        """Read the file, or begin without one (a new directory, or one of a release before 0.3).

        The caller keeps other processes out.
        """
        path = os.path.join(directory, FILE)
        with naming(path, 0, "reading who belongs to the cluster"):
            disk.makedirs(directory)
            if FILE not in disk.listdir(directory):
                return cls(directory, disk, None)
            held = _load(disk, path)
        file = cls(directory, disk, held)
        # What can be read may be in the page cache only, after a directory fsync that failed.
        file._write(held)
        return file

    @property
    def held(self) -> Held | None:
        return self._held

    def store(self, held: Held) -> None:
        """On disk when it returns."""
        if self._broken is not None:
            raise self._broken
        if self._held is None or held.index > self._held.index:
            self._write(held)
            self._held = held

    def _write(self, held: Held) -> None:
        temporary = self._path + _TEMPORARY
        try:
            with naming(self._path, 0, "writing who belongs to the cluster"):
                fd = self._disk.create(temporary)
                try:
                    self._disk.pwrite(fd, _pack(held), 0)
                    self._disk.fdatasync(fd)
                finally:
                    self._disk.close(fd)
                self._disk.rename(temporary, self._path)
                self._disk.fsync_dir(self._directory)
        except JournalError as error:
            self._broken = error
            raise


def _pack(held: Held) -> bytes:
    configuration = encode(held.configuration)
    raw = _BODY.pack(MAGIC, VERSION, held.index, len(configuration)) + configuration
    return raw + _CRC.pack(crc32c(raw))


def _load(disk: Disk, path: str) -> Held:
    fd = disk.open(path)
    try:
        data = disk.pread(fd, disk.size(fd), 0)
    finally:
        disk.close(fd)
    if len(data) < _BODY.size + _CRC.size:
        raise JournalDamaged(path, len(data), "the file of the members is cut short", REMEDY)
    raw = data[: -_CRC.size]
    if crc32c(raw) != _CRC.unpack_from(data, len(raw))[0]:
        raise JournalDamaged(path, 0, "the checksum of the members does not match", REMEDY)
    magic, version, index, length = _BODY.unpack_from(raw)
    if magic != MAGIC or version != VERSION:
        remedy = "start the release that wrote it, or a newer one"
        raise JournalDamaged(path, 0, f"format version {version} is not known", remedy)
    try:
        if len(raw) != _BODY.size + length:
            raise MembershipError("its length is not what it says")
        return Held(index, decode(raw[_BODY.size :]))
    except MembershipError as error:
        raise JournalDamaged(path, _BODY.size, f"no members can be read: {error}", REMEDY) from None
