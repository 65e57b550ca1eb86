"""The Raft log on disk: append in memory, flush in groups, read back, cut, compact.

One thread (the consensus loop) appends, truncates, compacts and reads; another may run flush().
`_io` serialises what touches the disk for long; `_lock` guards memory and is never held over a
write or an fsync.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from raftflow.raftlog import frame, recovery, segment
from raftflow.raftlog.disk import Disk
from raftflow.raftlog.errors import (
    JournalClosed,
    JournalError,
    JournalLocked,
    naming,
)
from raftflow.raftlog.frame import FRAME_BYTES, MAX_ENTRY_BYTES, LogEntry
from raftflow.raftlog.recovery import Recovered, TornTail
from raftflow.raftlog.segment import Segment, SegmentHeader
from raftflow.raftlog.terms import Terms

__all__ = ["Journal", "LogEntry"]

ENTRY_OVERHEAD_BYTES = 200  # what Python needs for a cached entry beside its payload


@dataclass(frozen=True, slots=True)
class _Work:
    """What one write puts on disk: entries for the active segment, or for a new one."""

    entries: list[LogEntry]
    header: SegmentHeader | None


class Journal:
    """Contiguous entries after (prev_index, prev_term). Made by `open`."""

    def __init__(
        self,
        directory: str,
        disk: Disk,
        recovered: Recovered,
        *,
        lock_fd: int,
        segment_bytes: int,
        cache_bytes: int,
    ) -> None:
        self._directory = directory
        self._disk = disk
        self._lock_fd = lock_fd
        self._segment_bytes = segment_bytes
        self._cache_limit = cache_bytes
        self._io = threading.Lock()
        self._lock = threading.Lock()
        self._broken: JournalError | None = None

        self._terms = recovered.terms
        self._segments = recovered.segments
        self._doomed: list[Segment] = []  # compacted away, files still there
        last = self._terms.last_index
        self._taken = last  # handed to a write, finished or not
        self._flushed = last
        self._cut = False  # the disk holds entries above _taken that are void
        self._cache: dict[int, LogEntry] = {}  # the newest entries, contiguous to the last one
        self._cache_first = last + 1
        self._cache_bytes = 0
        self.torn_tail: TornTail | None = recovered.torn

    @classmethod
    def open(
        cls,
        directory: str,
        *,
        disk: Disk,
        segment_bytes: int = 64 << 20,
        cache_bytes: int = 64 << 20,
    ) -> Journal:
        """Lock the directory, recover what is in it, and rewrite the last segment."""
        if not 0 < segment_bytes <= segment.MAX_SEGMENT_BYTES:
            raise ValueError(f"segment_bytes must be 1 to {segment.MAX_SEGMENT_BYTES}")
        with naming(directory, 0, "opening the directory"):
            disk.makedirs(directory)
            try:
                lock_fd = disk.lock(directory)
            except BlockingIOError as error:
                raise JournalLocked(directory) from error
        try:
            recovered = recovery.recover(disk, directory)
        except JournalError:
            disk.close(lock_fd)
            raise
        return cls(
            directory,
            disk,
            recovered,
            lock_fd=lock_fd,
            segment_bytes=segment_bytes,
            cache_bytes=cache_bytes,
        )

    # -- what is there

    @property
    def directory(self) -> str:
        return self._directory

    @property
    def prev_index(self) -> int:
        return self._terms.prev_index

    @property
    def prev_term(self) -> int:
        return self._terms.prev_term

    @property
    def first_index(self) -> int:
        """0 at birth; last_index + 1 when everything was compacted away."""
        return self.prev_index + 1 if self.last_index else 0

    @property
    def last_index(self) -> int:
        return self._terms.last_index

    @property
    def last_term(self) -> int:
        return self._terms.last_term

    @property
    def flushed_index(self) -> int:
        """Everything up to here is on disk for sure."""
        return self._flushed

    @property
    def needs_flush(self) -> bool:
        return self._cut or self._flushed < self.last_index or bool(self._doomed)

    def term(self, index: int) -> int | None:
        with self._lock:
            self._check()
            return self._terms.get(index)

    def runs(self) -> list[tuple[int, int, int]]:
        """(first, last, term) of all entries, in order."""
        with self._lock:
            self._check()
            return self._terms.runs()

    def entry(self, index: int) -> LogEntry:
        return self.entries(index, index + 1, 0)[0]

    def entries(self, start: int, stop: int, max_bytes: int) -> list[LogEntry]:
        """Entries [start, stop) that exist, as far as max_bytes go, but at least one of them.

        IndexError if `start` was compacted away or never appended.
        """
        with self._lock:
            self._check()
            if not self.prev_index < start <= self.last_index:
                raise IndexError(
                    f"entry {start} is not in the journal, which has "
                    f"{self.prev_index + 1} to {self.last_index}"
                )
            stop = min(stop, self.last_index + 1)
            found: list[LogEntry] = []
            while start < stop and (max_bytes > 0 or not found):
                if start >= self._cache_first:
                    some = self._from_cache(start, stop, max_bytes)
                else:
                    some = self._from_disk(start, min(stop, self._cache_first), max_bytes)
                if found and _size(some[0]) > max_bytes:
                    break
                found += some
                max_bytes -= sum(map(_size, some))
                start += len(some)
            return found

    # -- changes, in memory

    def append(self, entries: Sequence[LogEntry]) -> None:
        """Add entries after the last one. Readable at once, on disk after the next flush()."""
        with self._lock:
            self._check()
            index, term = self.last_index, self.last_term
            for entry in entries:
                index += 1
                if entry.index != index or entry.term < term:
                    raise ValueError(
                        f"entry {entry.index} of term {entry.term} cannot follow "
                        f"entry {index - 1} of term {term}"
                    )
                if not 0 < len(entry.payload) <= MAX_ENTRY_BYTES:
                    raise ValueError(f"entry {index} has {len(entry.payload)} bytes")
                term = entry.term
            for entry in entries:
                self._cache[entry.index] = entry
                self._cache_bytes += len(entry.payload) + ENTRY_OVERHEAD_BYTES
                self._terms.extend(1, entry.term)
            self._evict()

    def truncate_from(self, index: int) -> None:
        """Forget the entries from `index` on; the next flush() makes it so on disk.

        A flush that is running may still write them: they are not counted, and the segment after
        it says that they are void.
        """
        with self._lock:
            self._check()
            if index <= self.prev_index:
                raise ValueError(f"cannot cut at {index}: compacted up to {self.prev_index}")
            if index > self.last_index:
                return
            for gone in range(max(index, self._cache_first), self.last_index + 1):
                self._drop_cached(gone)
            self._terms.cut_from(index)
            self._cache_first = min(self._cache_first, index)
            if index <= self._taken:
                self._taken = index - 1
                self._flushed = min(self._flushed, index - 1)
                self._cut = True
                for part in self._segments:
                    part.trim(index)

    def compact_to(self, index: int) -> int:
        """Drop whole segments whose entries are all <= index; returns the new first_index.

        Forgotten at once; the next flush() removes the files, so that no caller waits for that.
        The active segment stays.
        """
        with self._lock:
            self._check()
            # While a cut is not on disk, the segments below it are what says where it was made.
            while not self._cut and len(self._segments) > 1:
                oldest = self._segments[0]
                if oldest.count:
                    if oldest.last_index > index:
                        break
                    self._move_start(oldest.last_index)
                self._doomed.append(self._segments.pop(0))
            return self.first_index

    # -- changes, on disk

    def flush(self) -> int:
        """Write and sync everything appended so far; returns the flushed index. Blocks.

        May run in a thread beside append, truncate_from, compact_to and reads. If the disk fails
        the journal is finished: nothing is tried again, every later call raises the same error.
        """
        with self._io:
            target = self.last_index
            while (work := self._take(target)) is not None:
                self._write(work)
            self._remove_doomed()
            return self._flushed

    def reset(self, index: int, term: int) -> None:
        """Begin anew after (index, term), which a snapshot covers. Blocks; on disk at return."""
        with self._io:
            with self._lock:
                self._check()
                next_id = self._segments[-1].header.segment_id + 1 if self._segments else 1
                self._doomed += self._segments
                self._segments = []
                self._terms = Terms(index, term)
                self._taken = self._flushed = index
                self._cache.clear()
                self._cache_bytes, self._cache_first = 0, index + 1
                self._cut = False
            header = SegmentHeader(next_id, index, term, reset=True)
            self._write(_Work([], header))
            self._remove_doomed()

    def close(self) -> None:
        """Close the files and release the directory. What was not flushed is not written."""
        with self._io, self._lock:
            if isinstance(self._broken, JournalClosed):
                return
            for part in self._segments + self._doomed:
                self._disk.close(part.fd)
            self._disk.close(self._lock_fd)
            self._broken = JournalClosed(self._directory)

    # -- memory, under _lock

    def _check(self) -> None:
        if self._broken is not None:
            raise self._broken

    def _from_cache(self, start: int, stop: int, max_bytes: int) -> list[LogEntry]:
        found = [self._cache[start]]
        max_bytes -= _size(found[0])
        for index in range(start + 1, stop):
            entry = self._cache[index]
            max_bytes -= _size(entry)
            if max_bytes < 0:
                break
            found.append(entry)
        return found

    def _from_disk(self, start: int, stop: int, max_bytes: int) -> list[LogEntry]:
        part = next(
            part for part in reversed(self._segments) if part.count and part.first_index <= start
        )
        stop = min(stop, part.last_index + 1)
        with self._final():
            return part.read(self._disk, start, stop, max_bytes)

    def _move_start(self, last_dropped: int) -> None:
        self._terms.start_after(last_dropped)
        while self._cache and self._cache_first <= last_dropped:
            self._drop_cached(self._cache_first)
            self._cache_first += 1

    def _drop_cached(self, index: int) -> None:
        self._cache_bytes -= len(self._cache.pop(index).payload) + ENTRY_OVERHEAD_BYTES

    def _evict(self) -> None:
        while self._cache_bytes > self._cache_limit and self._cache_first <= self._flushed:
            self._drop_cached(self._cache_first)
            self._cache_first += 1

    def _take(self, target: int) -> _Work | None:
        """Hand the next entries to a write: as many as go into one segment."""
        with self._lock:
            self._check()
            target = min(target, self.last_index)
            if self._taken >= target and not self._cut:
                return None
            active = self._segments[-1] if self._segments else None
            used = active.ends[-1] if active else segment.HEADER_BYTES
            index = self._taken + 1
            header = None
            if active is None or self._cut or self._overfull(used, index):
                next_id = active.header.segment_id + 1 if active else 1
                header = SegmentHeader(next_id, self._taken, self._terms[self._taken])
                used = segment.HEADER_BYTES
            entries: list[LogEntry] = []
            while index <= target and not (entries and self._overfull(used, index)):
                entry = self._cache[index]
                entries.append(entry)
                used += _size(entry)
                index += 1
            self._taken = index - 1
            self._cut = False
            return _Work(entries, header)

    def _overfull(self, used: int, index: int) -> bool:
        return used > segment.HEADER_BYTES and (
            used + _size(self._cache[index]) > self._segment_bytes
        )

    def _publish(self, part: Segment, work: _Work, ends: array[int]) -> None:
        """Written and synced: count it, except what was cut meanwhile."""
        with self._lock:
            if work.header is not None:
                self._segments.append(part)
            part.ends.extend(ends)
            part.trim(self._taken + 1)
            if work.entries and self._taken >= work.entries[0].index:
                self._flushed = min(work.entries[-1].index, self._taken)
            self._evict()

    # -- disk, under _io

    @contextmanager
    def _final(self) -> Iterator[None]:
        """An error of the disk ends the journal: what the disk holds now is not known."""
        try:
            yield
        except JournalError as error:
            self._broken = error
            raise

    def _write(self, work: _Work) -> None:
        with self._final():
            if work.header is None:
                part = self._segments[-1]
                self._publish(part, work, part.write(self._disk, work.entries))
                return
            before = self._segments[-1] if self._segments else None
            header, start = work.header, segment.HEADER_BYTES
            parts, ends = frame.encode(work.entries, seed=header.seed, synced=start, offset=start)
            part = segment.create(
                self._disk, self._directory, header, b"".join(parts), array("I", [start])
            )
            self._publish(part, work, ends)
            if before is not None:
                before.seal(self._disk)

    def _remove_doomed(self) -> None:
        with self._lock:
            doomed, self._doomed = self._doomed, []
        with self._final():
            for part in doomed:
                self._disk.close(part.fd)
                segment.remove(self._disk, self._directory, [part.header.segment_id])


def _size(entry: LogEntry) -> int:
    return FRAME_BYTES + len(entry.payload)
