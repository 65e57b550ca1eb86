"""`raft/membership`: the newest committed configuration, beside the log that may drop its entry.

It is written before that entry may be compacted, and before a copy of the store that is newer than
it is installed.
"""

from __future__ import annotations

from raftflow.cluster.consensus.configurations import Held
from raftflow.cluster.consensus.membership import MembershipError, decode, encode
from raftflow.raftlog.disk import Disk
from raftflow.raftlog.errors import naming
from raftflow.raftlog.small_file import SmallFile

FILE = "membership"

REMEDY = (
    "never delete this file: a node that does not know who belongs to the cluster can elect two "
    "leaders. While all other nodes run, empty the data directory with `raftflow node rebuild DIR` "
    "and start the node again: it joins as a new one and fetches what they have"
)


class MembershipFile:
    """What it holds never goes back to an older configuration."""

    def __init__(self, file: SmallFile, held: Held | None) -> None:
        self._file = file
        self._held = held

    @classmethod
    def open(cls, directory: str, disk: Disk) -> MembershipFile:
        """Read the file, or begin without one (a new directory, or one of a release before 0.3).

        The caller keeps other processes out.
        """
        what = "who belongs to the cluster"
        file = SmallFile(disk, directory, FILE, magic=b"RAFTMEMB", what=what, remedy=REMEDY)
        with naming(file.path, 0, f"reading {what}"):
            disk.makedirs(directory)
            if FILE not in disk.listdir(directory):
                return cls(file, None)
        held = _read(file)
        found = cls(file, held)
        # What can be read may be in the page cache only, after a directory fsync that failed.
        found._write(held)
        return found

    @property
    def held(self) -> Held | None:
        return self._held

    def store(self, held: Held) -> None:
        """On disk when it returns."""
        if self._held is None or held.index > self._held.index:
            self._write(held)
            self._held = held

    def _write(self, held: Held) -> None:
        configuration = encode(held.configuration)
        self._file.write(held.index, len(configuration), configuration)


def _read(file: SmallFile) -> Held:
    index, length, configuration = file.read()
    try:
        if len(configuration) != length:
            raise MembershipError("its length is not what it says")
        return Held(index, decode(configuration))
    except MembershipError as error:
        raise file.damaged(0, f"no members can be read: {error}") from None
