"""What PySyncObj believes to be its journal and its serializer, on top of raftlog.

PySyncObj indexes its journal like a list and wants it never to be empty. Ours is the raftlog
journal preceded by its boundary: the entry just before the first one, of which only index and term
are known ((0, 0) at birth, the snapshot's last entry after compaction).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from pysyncobj import syncobj as engine
from pysyncobj.journal import Journal as PySyncObjJournal
from pysyncobj.serializer import SERIALIZER_STATE

from raftflow.raftlog.hardstate import HardState
from raftflow.raftlog.journal import Journal, LogEntry

RawEntry = tuple[bytes, int, int]


class JournalAdapter(PySyncObjJournal):  # type: ignore[misc]
    def __init__(self, journal: Journal, hard_state: HardState) -> None:
        self._journal = journal
        self._hard_state = hard_state

    def add(self, command: bytes, idx: int, term: int) -> None:
        self._journal.append([LogEntry(idx, term, command)])

    def __len__(self) -> int:
        return self._journal.last_index - self._journal.prev_index + 1

    def __getitem__(self, position: int) -> RawEntry:
        if position < 0:
            position += len(self)
        if position == 0:
            return b"", self._journal.prev_index, self._journal.prev_term
        entry = self._journal.entry(self._journal.prev_index + position)
        return entry.payload, entry.index, entry.term

    def setCurrentTerm(self, term: int, votedForNodeId: str | None) -> None:
        """CONSENSUS row 1: fsynced when it returns, so before any message shows it."""
        self._hard_state.store(term, votedForNodeId)

    def getCurrentTerm(self) -> int:
        return self._hard_state.term

    def getVotedForNodeId(self) -> str | None:
        return self._hard_state.voted_for

    def getRaftCommitIndex(self) -> int:
        """CONSENSUS row 8: a commit index from before is worth nothing; the core sets its own."""
        return self._journal.prev_index

    def _destroy(self) -> None:
        """The driver opened the journal and closes it."""


class NoSerializer:
    """CONSENSUS row 9: PySyncObj makes no dumps; a snapshot is a manifest that the core offers."""

    def __init__(self, *_settings: object) -> None:
        pass

    def checkSerializing(self) -> tuple[int, None]:
        return SERIALIZER_STATE.NOT_SERIALIZING, None

    def serialize(self, *_arguments: object) -> NoReturn:
        raise AssertionError("PySyncObj's own dumps are switched off")


@contextmanager
def installed(journal: JournalAdapter) -> Iterator[None]:
    """While a core is constructed, PySyncObj finds our journal and serializer, and no pipes."""
    before = engine.createJournal, engine.Serializer, engine.PIPE_NOTIFIER_ENABLED
    engine.createJournal = lambda _file: journal
    engine.Serializer = NoSerializer
    engine.PIPE_NOTIFIER_ENABLED = False
    try:
        yield
    finally:
        engine.createJournal, engine.Serializer, engine.PIPE_NOTIFIER_ENABLED = before
