"""The journal over the real disk: what goes in comes out, also after it was opened again."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from raftflow.raftlog import segment
from raftflow.raftlog.disk import OsDisk
from raftflow.raftlog.errors import JournalClosed, JournalLocked
from raftflow.raftlog.frame import FRAME_BYTES
from raftflow.raftlog.journal import Journal, LogEntry

SMALL = segment.HEADER_BYTES + 400


@contextmanager
def opened(
    directory: Path, *, segment_bytes: int = SMALL, cache_bytes: int = 1 << 20
) -> Iterator[Journal]:
    journal = Journal.open(
        str(directory), disk=OsDisk(), segment_bytes=segment_bytes, cache_bytes=cache_bytes
    )
    try:
        yield journal
    finally:
        journal.close()


def some(first: int, last: int, term: int = 1, size: int = 50) -> list[LogEntry]:
    return [
        LogEntry(index, term, b"%d.%d." % (index, term) + b"x" * size)
        for index in range(first, last + 1)
    ]


def everything(journal: Journal) -> list[LogEntry]:
    if journal.last_index == journal.prev_index:
        return []
    return journal.entries(journal.first_index, journal.last_index + 1, 1 << 30)


def segments_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("*" + segment.SUFFIX))


def test_a_new_journal_is_empty(tmp_path: Path) -> None:
    with opened(tmp_path / "deep" / "raft") as journal:
        assert (journal.first_index, journal.last_index, journal.last_term) == (0, 0, 0)
        assert (journal.prev_index, journal.prev_term, journal.flushed_index) == (0, 0, 0)
        assert journal.flush() == 0
        assert journal.term(0) == 0
        assert journal.term(1) is None
        with pytest.raises(IndexError, match="entry 1 is not in the journal"):
            journal.entry(1)


def test_appended_entries_are_read_before_and_after_the_flush(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        journal.append(some(1, 20))
        assert everything(journal) == some(1, 20)
        assert (journal.last_index, journal.flushed_index) == (20, 0)
        assert journal.flush() == 20
        assert everything(journal) == some(1, 20)
        assert not journal.needs_flush
        assert len(segments_in(tmp_path)) > 3
    with opened(tmp_path) as journal:
        assert (journal.first_index, journal.last_index, journal.flushed_index) == (1, 20, 20)
        assert journal.torn_tail is None
        assert everything(journal) == some(1, 20)
        journal.append(some(21, 25, term=3))
        journal.flush()
    with opened(tmp_path) as journal:
        assert everything(journal) == some(1, 20) + some(21, 25, term=3)
        assert [journal.term(index) for index in (1, 20, 21, 25, 26)] == [1, 1, 3, 3, None]
        assert journal.last_term == 3


def test_what_was_not_flushed_is_gone_after_close(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        journal.append(some(1, 3))
        journal.flush()
        journal.append(some(4, 6))
    with opened(tmp_path) as journal:
        assert everything(journal) == some(1, 3)


@pytest.mark.parametrize(
    "wrong",
    [
        [LogEntry(3, 1, b"gap")],
        [LogEntry(1, 1, b"again")],
        [LogEntry(2, 0, b"older term")],
        [LogEntry(2, 1, b"")],
        [LogEntry(2, 1, b"good"), LogEntry(2, 1, b"twice")],
    ],
)
def test_append_refuses_what_cannot_follow(tmp_path: Path, wrong: list[LogEntry]) -> None:
    with opened(tmp_path) as journal:
        journal.append(some(1, 1))
        with pytest.raises(ValueError, match="entry"):
            journal.append(wrong)
        assert everything(journal) == some(1, 1)


@pytest.mark.parametrize("cache_bytes", [0, 600, 1 << 20])
def test_entries_stops_at_max_bytes_but_gives_one(tmp_path: Path, cache_bytes: int) -> None:
    with opened(tmp_path, cache_bytes=cache_bytes) as journal:
        journal.append(some(1, 20, size=96))
        journal.flush()
        size = FRAME_BYTES + len(journal.entry(1).payload)
        assert journal.entries(3, 21, 0) == some(3, 3, size=96)
        assert journal.entries(3, 21, size * 2) == some(3, 4, size=96)
        assert journal.entries(3, 21, size * 2 + 1) == some(3, 4, size=96)
        assert journal.entries(3, 8, 1 << 20) == some(3, 7, size=96)
        assert journal.entries(18, 99, 1 << 20) == some(18, 20, size=96)
        assert journal.entry(20) == some(20, 20, size=96)[0]


@pytest.mark.slow
def test_the_cache_is_bounded(tmp_path: Path) -> None:
    with opened(tmp_path, segment_bytes=1 << 20, cache_bytes=10_000) as journal:
        for start in range(1, 1000, 10):
            journal.append(some(start, start + 9))
            journal.flush()
        assert journal._cache_bytes <= 10_000
        assert everything(journal) == some(1, 1000)


@pytest.mark.parametrize("cut", [1, 2, 7, 8, 11, 20])
def test_truncated_entries_do_not_come_back(tmp_path: Path, cut: int) -> None:
    with opened(tmp_path) as journal:
        journal.append(some(1, 20))
        journal.flush()
        journal.truncate_from(cut)
        assert (journal.last_index, journal.flushed_index) == (cut - 1, cut - 1)
        assert everything(journal) == some(1, cut - 1)
        assert journal.flush() == cut - 1
    with opened(tmp_path) as journal:
        assert everything(journal) == some(1, cut - 1)
        journal.append(some(cut, cut + 5, term=2))
        assert journal.flush() == cut + 5
    with opened(tmp_path) as journal:
        assert everything(journal) == some(1, cut - 1) + some(cut, cut + 5, term=2)


def test_truncating_what_was_never_flushed_costs_nothing(tmp_path: Path) -> None:
    with opened(tmp_path, segment_bytes=1 << 20) as journal:
        journal.append(some(1, 10))
        journal.flush()
        journal.append(some(11, 20))
        journal.truncate_from(15)
        journal.append(some(15, 16, term=2))
        assert journal.flush() == 16
        assert len(segments_in(tmp_path)) == 1
        assert everything(journal) == some(1, 14) + some(15, 16, term=2)


def test_compaction_drops_whole_segments(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        journal.append(some(1, 20))
        journal.flush()
        before = len(segments_in(tmp_path))
        first = journal.compact_to(12)
        assert 1 < first <= 13
        assert (journal.prev_index, journal.prev_term) == (first - 1, 1)
        assert everything(journal) == some(first, 20)
        assert journal.needs_flush
        journal.flush()
        assert len(segments_in(tmp_path)) < before
        with pytest.raises(IndexError):
            journal.entry(first - 1)
        assert journal.term(first - 1) == 1
        assert journal.term(first - 2) is None
        with pytest.raises(ValueError, match="compacted"):
            journal.truncate_from(first - 1)
    with opened(tmp_path) as journal:
        assert everything(journal) == some(first, 20)
        assert journal.compact_to(20) <= 20


def test_reset_begins_after_the_snapshot(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        journal.append(some(1, 20))
        journal.flush()
        journal.append(some(21, 22))
        journal.reset(100, 7)
        assert (journal.first_index, journal.last_index, journal.last_term) == (101, 100, 7)
        assert (journal.prev_index, journal.prev_term, journal.flushed_index) == (100, 7, 100)
        assert len(segments_in(tmp_path)) == 1
    with opened(tmp_path) as journal:
        assert (journal.first_index, journal.last_index, journal.last_term) == (101, 100, 7)
        journal.append(some(101, 130, term=7))
        journal.flush()
        journal.reset(110, 7)
    with opened(tmp_path) as journal:
        assert (journal.prev_index, journal.last_index) == (110, 110)


def test_a_directory_has_one_owner(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from raftflow.raftlog.disk import OsDisk\n"
        "from raftflow.raftlog.errors import JournalLocked\n"
        "from raftflow.raftlog.journal import Journal\n"
        "try:\n"
        "    Journal.open(sys.argv[1], disk=OsDisk())\n"
        "except JournalLocked as error:\n"
        "    sys.exit(str(error))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    with opened(tmp_path):
        with pytest.raises(JournalLocked, match="another process"):
            Journal.open(str(tmp_path), disk=OsDisk())
        other = subprocess.run(command, capture_output=True, text=True, check=False)
        assert other.returncode == 1
        assert "another process is using this directory" in other.stderr
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_a_closed_journal_says_so(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        journal.append(some(1, 1))
    journal.close()
    for call in (journal.flush, lambda: journal.entry(1), lambda: journal.append(some(2, 2))):
        with pytest.raises(JournalClosed):
            call()


class ObservedDisk(OsDisk):
    """Lets the other thread run between a write and its sync, where a truncation hurts most."""

    def __init__(self) -> None:
        self.syncs = 0

    def fdatasync(self, fd: int) -> None:
        time.sleep(0.0002)
        super().fdatasync(fd)
        self.syncs += 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_flush_in_a_thread_beside_everything_else(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    disk = ObservedDisk()
    journal = Journal.open(str(tmp_path), disk=disk, segment_bytes=20_000, cache_bytes=3_000)
    failed: list[BaseException] = []
    stop = threading.Event()

    def flusher() -> None:
        try:
            while not stop.is_set():
                journal.flush()
        except BaseException as error:  # noqa: BLE001 - reported by the test
            failed.append(error)

    thread = threading.Thread(target=flusher)
    thread.start()
    try:
        model = drive(journal, rng, until=lambda: disk.syncs >= 300 or bool(failed))
    finally:
        stop.set()
        thread.join()
    assert not failed
    last = journal.last_index
    assert journal.flush() == last
    first = journal.first_index
    journal.close()
    with opened(tmp_path, segment_bytes=20_000) as journal:
        assert journal.first_index == first
        assert everything(journal) == [model[index] for index in range(first, last + 1)]


def drive(journal: Journal, rng: Random, *, until: Callable[[], bool]) -> dict[int, LogEntry]:
    """Append, cut, compact and read beside a running flush; returns what must be there."""
    model: dict[int, LogEntry] = {}
    last = 0
    while not until():
        term = journal.last_term + rng.randrange(2)
        more = some(last + 1, last + rng.randint(1, 9), term=term)
        journal.append(more)
        model |= {entry.index: entry for entry in more}
        last += len(more)
        if rng.random() < 0.3:
            cut = rng.randint(max(last - 12, journal.prev_index + 1), last)
            journal.truncate_from(cut)
            model = {index: entry for index, entry in model.items() if index < cut}
            last = cut - 1
        if rng.random() < 0.05:
            journal.compact_to(last - 40)
        assert journal.flushed_index <= journal.last_index == last
        if last > journal.prev_index:
            for index in (last, rng.randint(journal.first_index, last)):
                assert journal.entry(index) == model[index]
        time.sleep(rng.choice((0, 0.0003)))
    return model


@pytest.mark.slow
def test_catching_up_from_disk_needs_little_memory(tmp_path: Path) -> None:
    count, size = 20_000, 200
    with opened(tmp_path, segment_bytes=1 << 20, cache_bytes=100_000) as journal:
        for start in range(1, count, 500):
            journal.append(some(start, start + 499, size=size))
            journal.flush()
    with opened(tmp_path, segment_bytes=1 << 20, cache_bytes=100_000) as journal:
        tracemalloc.start()
        index = 1
        while index <= count:
            batch = journal.entries(index, count + 1, 64 << 10)
            assert batch[0].index == index
            index += len(batch)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 1 << 20 < count * size


@pytest.mark.slow
def test_a_killed_process_loses_nothing_that_it_reported(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from raftflow.raftlog.disk import OsDisk\n"
        "from raftflow.raftlog.journal import Journal, LogEntry\n"
        "journal = Journal.open(sys.argv[1], disk=OsDisk(), segment_bytes=20_000)\n"
        "while True:\n"
        "    last = journal.last_index\n"
        "    journal.append([LogEntry(last + i, 1, b'%d' % (last + i)) for i in range(1, 8)])\n"
        "    print(journal.flush(), flush=True)\n"
    )
    reported = 0
    for _ in range(3):
        command = [sys.executable, "-c", program, str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if (now := int(line)) >= reported + 500:
                    process.kill()
                    reported = now
                    break
        with opened(tmp_path, segment_bytes=20_000) as journal:
            assert journal.last_index >= reported
            for entry in everything(journal):
                assert entry.payload == b"%d" % entry.index
            reported = journal.last_index


def test_a_full_disk_is_named_and_final(tmp_path: Path) -> None:
    """A real one: the process may not write files beyond 10 kB."""
    program = (
        "import resource, sys\n"
        "from raftflow.raftlog.disk import OsDisk\n"
        "from raftflow.raftlog.errors import JournalFull\n"
        "from raftflow.raftlog.journal import Journal, LogEntry\n"
        "journal = Journal.open(sys.argv[1], disk=OsDisk())\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))\n"
        "for index in range(1, 100):\n"
        "    journal.append([LogEntry(index, 1, bytes(1000))])\n"
        "    try:\n"
        "        print(journal.flush())\n"
        "    except JournalFull as error:\n"
        "        sys.exit(str(error))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "writing entries failed: File too large" in done.stderr
    assert "free space on the volume" in done.stderr
    flushed = int(done.stdout.split()[-1])
    with opened(tmp_path) as journal:
        assert journal.last_index == flushed == 5
        assert journal.torn_tail is not None
        journal.append([LogEntry(6, 1, b"room again")])
        assert journal.flush() == 6
