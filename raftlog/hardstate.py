"""Term and vote: on disk before any message shows them (Raft §5.2)."""

from __future__ import annotations

from raftflow.raftlog import segment
from raftflow.raftlog.disk import Disk
from raftflow.raftlog.errors import naming
from raftflow.raftlog.small_file import SmallFile

FILE = "hardstate"

_NO_VOTE = 0xFFFFFFFF  # in the place of a length

REMEDY = (
    "never delete this file: a node that forgets its vote can elect two leaders. While all other "
    "nodes run, empty the data directory with `raftflow node rebuild DIR` and start the node "
    "again: it joins as a new one and fetches what they have"
)


class HardState:
    """The current term and whom this node voted for in it."""

    def __init__(self, file: SmallFile, term: int, voted_for: str | None) -> None:
        self._file = file
        self._term = term
        self._voted_for = voted_for

    @classmethod
    def open(cls, directory: str, disk: Disk, *, may_be_new: bool = True) -> HardState:
        """Read the file, or begin at term 0 in a directory where no entry was ever written. With
        ``may_be_new`` false the owner knows of entries, so that the file must be there.

        The caller keeps other processes out, by the journal's lock or by one of its own.
        """
        file = _file(disk, directory)
        with naming(file.path, 0, "reading term and vote"):
            disk.makedirs(directory)
            names = disk.listdir(directory)
        if FILE not in names:
            if segment.segment_ids(names) or not may_be_new:
                raise file.damaged(0, "the term and vote are missing")
            return cls(file, 0, None)
        state = cls(file, *_read(file))
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
        if term < self._term or (term == self._term and self._voted_for not in (None, voted_for)):
            raise ValueError(
                f"term {term} with a vote for {voted_for} after "
                f"term {self._term} with a vote for {self._voted_for}"
            )
        if (term, voted_for) != (self._term, self._voted_for):
            self._write(term, voted_for)
            self._term, self._voted_for = term, voted_for

    def _write(self, term: int, voted_for: str | None) -> None:
        vote = b"" if voted_for is None else voted_for.encode()
        self._file.write(term, _NO_VOTE if voted_for is None else len(vote), vote)


def load(disk: Disk, directory: str) -> tuple[int, str | None]:
    """Term and vote from the file; raises JournalDamaged if it does not verify."""
    return _read(_file(disk, directory))


def _file(disk: Disk, directory: str) -> SmallFile:
    return SmallFile(disk, directory, FILE, magic=b"RAFTVOTE", what="term and vote", remedy=REMEDY)


def _read(file: SmallFile) -> tuple[int, str | None]:
    term, length, vote = file.read()
    return term, None if length == _NO_VOTE else vote.decode()
