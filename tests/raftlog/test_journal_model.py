"""Any sequence of calls, kills and power losses, compared with a list."""

from __future__ import annotations

from random import Random

import pytest
from crash_disk import CrashDisk
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from raftflow.raftlog import segment
from raftflow.raftlog.frame import FRAME_BYTES
from raftflow.raftlog.journal import Journal, LogEntry

DIRECTORY = "/raft"


class JournalModel(RuleBasedStateMachine):
    """`entries` is the whole log since birth or reset, `start` what was compacted or reset."""

    @initialize(room=st.integers(1, 600), cache=st.sampled_from([0, 500, 1 << 20]))
    def begin(self, room: int, cache: int) -> None:
        self.room, self.cache = segment.HEADER_BYTES + room, cache
        self.disk = CrashDisk()
        self.start, self.start_term = 0, 0
        self.entries: list[LogEntry] = []
        self.durable: list[LogEntry] = []
        self.reopen()

    def reopen(self) -> None:
        self.journal = Journal.open(
            DIRECTORY, disk=self.disk, segment_bytes=self.room, cache_bytes=self.cache
        )

    def last_term(self) -> int:
        return self.entries[-1].term if self.entries else self.start_term

    def last_index(self) -> int:
        return self.entries[-1].index if self.entries else self.start

    @rule(payloads=st.lists(st.binary(min_size=1, max_size=120), max_size=6), new=st.booleans())
    def append(self, payloads: list[bytes], new: bool) -> None:
        term = self.last_term() + new
        first = self.last_index() + 1
        more = [LogEntry(first + i, term, payload) for i, payload in enumerate(payloads)]
        self.journal.append(more)
        self.entries = self.entries + more

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(self.journal.prev_index + 1, self.last_index() + 2))
        self.journal.truncate_from(index)
        self.entries = [entry for entry in self.entries if entry.index < index]

    @rule()
    def flush(self) -> None:
        assert self.journal.flush() == self.last_index()
        assert not self.journal.needs_flush
        self.durable = self.entries

    @rule(data=st.data(), grow=st.booleans())
    def flush_while_the_log_changes(self, data: st.DataObject, grow: bool) -> None:
        """What the loop does while the flush thread waits for the disk."""

        def meanwhile() -> None:
            self.truncate(data)
            if grow:
                self.append([b"meanwhile", b"more"], new=True)
            self.compact(data)

        self.disk.before_sync = meanwhile
        flushed = self.journal.flush()
        self.disk.before_sync = None
        assert flushed == self.journal.flushed_index <= self.last_index()
        survivor = Journal.open(DIRECTORY, disk=self.disk.bare(), segment_bytes=self.room)
        assert survivor.last_index >= flushed
        if flushed > survivor.prev_index:
            kept = survivor.entries(survivor.first_index, flushed + 1, 1 << 30)
            assert kept == [
                entry for entry in self.entries if survivor.prev_index < entry.index <= flushed
            ]
        self.flush()

    @rule(data=st.data())
    def compact(self, data: st.DataObject) -> None:
        upto = data.draw(st.integers(0, self.last_index()))
        before = self.journal.first_index
        first = self.journal.compact_to(upto)
        assert before <= first <= max(before, upto + 1)

    @rule(index=st.integers(1, 60), more=st.integers(0, 2))
    def reset(self, index: int, more: int) -> None:
        self.start, self.start_term = index, self.last_term() + more
        self.journal.reset(index, self.start_term)
        self.entries = self.durable = []

    @rule(seed=st.integers(0, 1 << 16), power=st.booleans())
    def crash(self, seed: int, power: bool) -> None:
        """Nothing is being written, so exactly the flushed state must come back."""
        if power:
            states = list(self.disk.crash_states(Random(seed), most=4))
            self.disk = states[seed % len(states)]
        else:
            self.disk = self.disk.killed()
        self.reopen()
        self.entries = self.durable

    @rule(data=st.data(), size=st.integers(0, 2000))
    def read(self, data: st.DataObject, size: int) -> None:
        kept = [entry for entry in self.entries if entry.index > self.journal.prev_index]
        if not kept:
            return
        start = data.draw(st.integers(kept[0].index, kept[-1].index))
        stop = data.draw(st.integers(start + 1, kept[-1].index + 2))
        wanted = kept[start - kept[0].index : stop - kept[0].index]
        found = self.journal.entries(start, stop, size)
        assert found == wanted[: len(found)]
        used = sum(FRAME_BYTES + len(entry.payload) for entry in found)
        assert len(found) == 1 or used <= size
        if len(found) < len(wanted):
            assert used + FRAME_BYTES + len(wanted[len(found)].payload) > size

    @invariant()
    def agrees(self) -> None:
        journal = self.journal
        assert (journal.last_index, journal.last_term) == (self.last_index(), self.last_term())
        assert journal.flushed_index <= journal.last_index
        prev = journal.prev_index
        kept = [entry for entry in self.entries if entry.index > prev]
        assert journal.first_index == (prev + 1 if journal.last_index else 0)
        if kept:
            assert journal.entries(prev + 1, journal.last_index + 1, 1 << 30) == kept
        terms = {entry.index: entry.term for entry in self.entries} | {self.start: self.start_term}
        assert journal.prev_term == terms[prev]
        for index in range(prev - 1, journal.last_index + 2):
            expected = terms.get(index) if prev <= index <= journal.last_index else None
            assert journal.term(index) == expected


TestJournalModel = pytest.mark.slow(JournalModel.TestCase)
JournalModel.TestCase.settings = settings(
    max_examples=150,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
