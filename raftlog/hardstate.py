"""Term and vote: on disk before any message shows them (Raft §5.2).

One small file, replaced whole: temporary file, fsync, rename, directory fsync.
"""

from __future__ import annotations

import os
from struct import Struct

from crc32c import crc32c

from raftflow.raftlog import segment
from raftflow.raftlog.disk import Disk
from raftflow.raftlog.errors import JournalDamaged, JournalError, naming

FILE = "hardstate"
MAGIC = b"RAFTVOTE"
VERSION = 1

_BODY = Struct("<8sIQI")  # magic, version, term, length of the vote; 0xFFFFFFFF = no vote
_CRC = Struct("<I")
_NO_VOTE = 0xFFFFFFFF

REMEDY = (
    "never delete this file: a node that forgets its vote can elect two leaders. While all other "
    "nodes run, empty the data directory with `raftflow node rebuild DIR` and start the node "
    "again: it joins as a new one and fetches what they have"
)


class HardState:
    """The current term and whom this node voted for in it."""

    def __init__(self, directory: str, disk: Disk, term: int, voted_for: str | None) -> None:
        self._directory = directory
        self._path = os.path.join(directory, FILE)
        self._disk = disk
        self._term = term
        self._voted_for = voted_for
        self._broken: JournalError | None = None

    @classmethod
    def open(cls, directory: str, disk: Disk, *, may_be_new: bool = True) -> HardState:
        """Read the file, or begin at term 0 in a directory where no entry was ever written. With
        ``may_be_new`` false the owner knows of entries, so that the file must be there.

        The caller keeps other processes out, by the journal's lock or by one of its own.
        """
        path = os.path.join(directory, FILE)
        with naming(path, 0, "reading term and vote"):
            disk.makedirs(directory)
            names = disk.listdir(directory)
            if FILE not in names:
                if segment.segment_ids(names) or not may_be_new:
                    raise JournalDamaged(path, 0, "the term and vote are missing", REMEDY)
                return cls(directory, disk, 0, None)
            state = cls(directory, disk, *load(disk, directory))
        # What can be read may be in the page cache only, after a directory fsync that failed.
        state._write(state.term, state.voted_for)
        return state

    @property
    def term(self) -> int:
        return self._term

    @property
    def voted_for(self) -> str | None:
        return self._voted_for

    def store(self, term: int, voted_for: str | None) -> None:
        """On disk when it returns. The term never falls, a vote given in a term is kept."""
        if self._broken is not None:
            raise self._broken
        if term < self._term or (term == self._term and self._voted_for not in (None, voted_for)):
            raise ValueError(
                f"term {term} with a vote for {voted_for} after "
                f"term {self._term} with a vote for {self._voted_for}"
            )
        if (term, voted_for) != (self._term, self._voted_for):
            self._write(term, voted_for)
            self._term, self._voted_for = term, voted_for

    def _write(self, term: int, voted_for: str | None) -> None:
        temporary = self._path + segment.TEMPORARY
        try:
            with naming(self._path, 0, "writing term and vote"):
                fd = self._disk.create(temporary)
                try:
                    self._disk.pwrite(fd, encode(term, voted_for), 0)
                    self._disk.fdatasync(fd)
                finally:
                    self._disk.close(fd)
                self._disk.rename(temporary, self._path)
                self._disk.fsync_dir(self._directory)
        except JournalError as error:
            self._broken = error
            raise


def encode(term: int, voted_for: str | None) -> bytes:
    vote = b"" if voted_for is None else voted_for.encode()
    length = _NO_VOTE if voted_for is None else len(vote)
    raw = _BODY.pack(MAGIC, VERSION, term, length) + vote
    return raw + _CRC.pack(crc32c(raw))


def load(disk: Disk, directory: str) -> tuple[int, str | None]:
    """Term and vote from the file; raises JournalDamaged if it does not verify."""
    path = os.path.join(directory, FILE)
    fd = disk.open(path)
    try:
        data = disk.pread(fd, disk.size(fd), 0)
    finally:
        disk.close(fd)
    if len(data) < _BODY.size + _CRC.size:
        raise JournalDamaged(path, len(data), "the file of term and vote is cut short", REMEDY)
    raw = data[: -_CRC.size]
    if crc32c(raw) != _CRC.unpack_from(data, len(raw))[0]:
        raise JournalDamaged(path, 0, "the checksum of term and vote does not match", REMEDY)
    magic, version, term, length = _BODY.unpack_from(raw)
    if magic != MAGIC or version != VERSION:
        remedy = "start the release that wrote it, or a newer one"
        raise JournalDamaged(path, 0, f"format version {version} is not known", remedy)
    vote = raw[_BODY.size :]
    return term, None if length == _NO_VOTE else vote.decode()
