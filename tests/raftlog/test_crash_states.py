"""Whatever a power loss leaves, the journal comes back with all that was promised.

A scenario runs on a disk that loses power at each of its operations in turn; every state that the
disk may then be in is opened. A crash is never mistaken for damage, and recovery may itself lose
power at any operation.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

import pytest
from crash_disk import CrashDisk, PowerLoss

from raftflow.raftlog import segment
from raftflow.raftlog.errors import JournalError, JournalFull, JournalIOError
from raftflow.raftlog.hardstate import HardState
from raftflow.raftlog.journal import Journal, LogEntry

DIRECTORY = "/raft"
SEGMENT_BYTES = segment.HEADER_BYTES + 900


def open_journal(disk: CrashDisk) -> Journal:
    return Journal.open(DIRECTORY, disk=disk, segment_bytes=SEGMENT_BYTES, cache_bytes=1000)


def some(first: int, last: int, term: int = 1, size: int = 150) -> list[LogEntry]:
    return [
        LogEntry(index, term, b"%d.%d." % (index, term) + b"\0x" * (size // 2))
        for index in range(first, last + 1)
    ]


@dataclass
class Log:
    """What a journal says, or may say."""

    prev: tuple[int, int] = (0, 0)
    entries: list[LogEntry] = field(default_factory=list)

    @classmethod
    def of(cls, journal: Journal) -> Log:
        entries: list[LogEntry] = []
        if journal.last_index > journal.prev_index:
            entries = journal.entries(journal.first_index, journal.last_index + 1, 1 << 30)
        return cls((journal.prev_index, journal.prev_term), entries)

    @property
    def last(self) -> int:
        return self.entries[-1].index if self.entries else self.prev[0]

    def upto(self, index: int) -> Log:
        return Log(self.prev, [entry for entry in self.entries if entry.index <= index])

    def term(self, index: int) -> int | None:
        terms = {entry.index: entry.term for entry in self.entries} | dict([self.prev])
        return terms.get(index)


class Keeper:
    """Drives a journal and remembers what it has promised and what it may hold beyond that."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.log = Log.of(journal)  # in memory
        self.promised = self.log  # by the last flush or reset that returned
        self.floor = self.log.last  # where memory and promise part
        self.compacted = self.log.prev[0]
        self.resetting: Log | None = None

    def append(self, entries: list[LogEntry]) -> None:
        self.journal.append(entries)
        self.log = Log(self.log.prev, self.log.entries + entries)

    def truncate(self, index: int) -> None:
        self.journal.truncate_from(index)
        self.log = self.log.upto(index - 1)
        self.floor = min(self.floor, index - 1)

    def flush(self) -> None:
        assert self.journal.flush() == self.log.last
        self.promised, self.floor = self.log, self.log.last

    def compact(self, index: int) -> None:
        self.compacted = max(self.compacted, self.journal.compact_to(index) - 1)

    def reset(self, index: int, term: int) -> None:
        self.resetting = Log((index, term))
        self.journal.reset(index, term)
        self.log = self.promised = self.resetting
        self.floor = self.compacted = index
        self.resetting = None

    def check(self, found: Log) -> None:
        """The journal after a crash is one that this history allows."""
        candidates = [self.promised]
        candidates += [self.log.upto(last) for last in range(self.floor, self.log.last + 1)]
        if self.resetting is not None:
            candidates.append(self.resetting)
        assert any(self._matches(found, candidate) for candidate in candidates), (
            f"found {found.prev}..{found.last}, promised {self.promised.prev}.."
            f"{self.promised.last}, in memory ..{self.log.last} from {self.floor}"
        )

    def _matches(self, found: Log, candidate: Log) -> bool:
        beyond = [entry for entry in candidate.entries if entry.index > found.prev[0]]
        return (
            found.entries == beyond
            and found.last == candidate.last
            and candidate.prev[0] <= found.prev[0] <= max(self.compacted, candidate.prev[0])
            and candidate.term(found.prev[0]) == found.prev[1]
        )


def grow(keeper: Keeper) -> None:
    keeper.append(some(1, 2))
    keeper.flush()
    keeper.append(some(3, 4))
    keeper.append(some(5, 5))
    keeper.flush()
    keeper.append(some(6, 15))
    keeper.flush()
    keeper.append(some(16, 16, size=2000))
    keeper.flush()
    keeper.append(some(17, 17))


def cut(keeper: Keeper) -> None:
    keeper.append(some(1, 8))
    keeper.flush()
    keeper.append(some(9, 10))
    keeper.truncate(7)
    keeper.append(some(7, 8, term=2))
    keeper.flush()
    keeper.truncate(2)
    keeper.flush()
    keeper.append(some(2, 12, term=3))
    keeper.flush()
    keeper.truncate(12)
    keeper.append(some(12, 12, term=4))
    keeper.flush()


def compact(keeper: Keeper) -> None:
    keeper.append(some(1, 20))
    keeper.flush()
    keeper.compact(9)
    keeper.append(some(21, 22))
    keeper.flush()
    keeper.truncate(15)
    keeper.compact(14)
    keeper.append(some(15, 16, term=2))
    keeper.flush()
    keeper.append(some(17, 26, term=2))
    keeper.flush()
    keeper.compact(21)
    keeper.flush()


def reset(keeper: Keeper) -> None:
    keeper.append(some(1, 12))
    keeper.flush()
    keeper.append(some(13, 13))
    keeper.reset(40, 3)
    keeper.append(some(41, 50, term=3))
    keeper.flush()
    keeper.compact(47)
    keeper.reset(44, 3)
    keeper.append(some(45, 45, term=5))
    keeper.flush()


Scenario = Callable[[Keeper], None]
SCENARIOS: list[Scenario] = [grow, cut, compact, reset]


def run(scenario: Scenario, disk: CrashDisk) -> Keeper:
    """Run until the power goes, if it does."""
    keeper = Keeper(Journal.open(DIRECTORY, disk=CrashDisk()))
    try:
        keeper = Keeper(open_journal(disk))
        scenario(keeper)
    except PowerLoss:
        pass
    return keeper


def crashes(scenario: Scenario) -> Iterator[tuple[Keeper, CrashDisk]]:
    """The scenario, with the power lost at each operation."""
    total = CrashDisk()
    run(scenario, total)
    for operation in range(len(total.operations) + 1):
        disk = CrashDisk()
        disk.stop_at(operation)
        yield run(scenario, disk), disk


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_crash_state_recovers_what_was_promised(scenario: Scenario) -> None:
    rng = Random(1)
    states = 0
    for keeper, crashed in crashes(scenario):
        for disk in crashed.crash_states(rng):
            states += 1
            journal = open_journal(disk)
            found = Log.of(journal)
            keeper.check(found)
            # It can be used, and what it says now is on disk.
            again = Keeper(journal)
            again.append(some(found.last + 1, found.last + 1, term=9))
            again.flush()
            assert Log.of(open_journal(disk.bare())) == again.log
    assert states > 300


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_recovery_that_loses_power_finds_the_same_again(scenario: Scenario) -> None:
    rng = Random(2)
    for keeper, crashed in crashes(scenario):
        for disk in crashed.crash_states(rng, most=4):
            files = disk.files()
            whole = CrashDisk(files)
            found = Log.of(open_journal(whole))
            keeper.check(found)
            for operation in range(len(whole.operations)):
                interrupted = CrashDisk(files)
                interrupted.stop_at(operation)
                with pytest.raises(PowerLoss):
                    open_journal(interrupted)
                for after in interrupted.crash_states(rng, most=8):
                    assert Log.of(open_journal(after)) == found


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_failed_operation_ends_the_journal(scenario: Scenario, code: int) -> None:
    total = CrashDisk()
    run(scenario, total)
    rng = Random(3)
    for operation in range(len(total.operations)):
        disk = CrashDisk()
        disk.fail_at(operation, code)
        keeper = Keeper(open_journal(disk))
        with pytest.raises(JournalIOError) as failed:
            scenario(keeper)
        assert isinstance(failed.value, JournalFull) == (code == errno.ENOSPC)
        assert failed.value.path.startswith(DIRECTORY)
        count = len(disk.operations)
        for call in (
            keeper.journal.flush,
            lambda keeper=keeper: keeper.journal.append(some(1, 1)),
            lambda keeper=keeper: keeper.journal.entries(1, 2, 1),
            lambda keeper=keeper: keeper.journal.truncate_from(1),
            lambda keeper=keeper: keeper.journal.compact_to(1),
            lambda keeper=keeper: keeper.journal.reset(1, 1),
        ):
            with pytest.raises(JournalIOError) as again:
                call()
            assert again.value is failed.value
        assert len(disk.operations) == count, "nothing is tried again"
        # The machine goes down at once, or after the next process has come up and believed it.
        for after in disk.crash_states(rng, most=8):
            keeper.check(Log.of(open_journal(after)))
        next_process = disk.killed()
        journal = open_journal(next_process)
        found = Log.of(journal)
        keeper.check(found)
        for after in next_process.crash_states(rng, most=8):
            survived = Log.of(open_journal(after))
            assert survived.last == found.last
            assert survived.entries[-3:] == found.entries[-3:]


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_recovery_on_a_failing_disk_is_refused(code: int) -> None:
    total = CrashDisk()
    run(reset, total)
    files = total.killed().files()
    whole = CrashDisk(files)
    found = Log.of(open_journal(whole))
    for operation in range(len(whole.operations)):
        disk = CrashDisk(files)
        disk.fail_at(operation, code)
        with pytest.raises(JournalIOError):
            open_journal(disk)
        assert Log.of(open_journal(disk.killed())) == found


def test_term_and_vote_survive_every_crash() -> None:
    rng = Random(4)
    votes = [(1, "n1"), (2, None), (2, "n3"), (7, "n2")]
    total = CrashDisk()
    state = HardState.open(DIRECTORY, total)
    for vote in votes:
        state.store(*vote)
    for operation in range(len(total.operations) + 1):
        disk = CrashDisk()
        disk.stop_at(operation)
        state = HardState.open(DIRECTORY, disk)
        allowed: list[tuple[int, str | None]] = [(0, None)]
        try:
            for vote in votes:
                allowed = [allowed[-1], vote]
                state.store(*vote)
                allowed = [vote]
        except PowerLoss:
            pass
        for after in disk.crash_states(rng):
            found = HardState.open(DIRECTORY, after)
            assert (found.term, found.voted_for) in allowed
            again = HardState.open(DIRECTORY, after.bare())
            assert (again.term, again.voted_for) == (found.term, found.voted_for)


def test_a_failed_store_ends_the_hard_state() -> None:
    total = CrashDisk()
    HardState.open(DIRECTORY, total).store(3, "n1")
    for operation in range(len(total.operations)):
        disk = CrashDisk()
        disk.fail_at(operation, errno.EIO)
        state = HardState.open(DIRECTORY, disk)
        with pytest.raises(JournalError) as failed:
            state.store(3, "n1")
        with pytest.raises(JournalError) as again:
            state.store(4, "n1")
        assert again.value is failed.value
        assert (state.term, state.voted_for) == (0, None)
        # What the next process sees it has put on disk, also if the rename was only in the cache.
        after = disk.killed()
        found = HardState.open(DIRECTORY, after)
        assert HardState.open(DIRECTORY, after.bare()).term == found.term
