"""From files to a journal, or to a refusal.

Read everything, judge, and only then change anything: a recovery that is itself interrupted leaves
what the next one understands.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from raftflow.raftlog import segment
from raftflow.raftlog.disk import Disk
from raftflow.raftlog.errors import JournalDamaged
from raftflow.raftlog.segment import HEADER_BYTES, TEMPORARY, Scan, Segment, SegmentHeader


@dataclass(frozen=True, slots=True)
class TornTail:
    """Bytes of a write that never finished; nothing in them was acknowledged."""

    path: str
    offset: int
    size: int
    reason: str


@dataclass(slots=True)
class Recovered:
    prev_index: int
    prev_term: int
    segments: list[Segment]
    terms: list[tuple[int, int]]  # (first index, term) of each run, ascending
    torn: TornTail | None


@dataclass(slots=True)
class Lineage:
    """The part of each segment that counts, put together in order."""

    prev_index: int = 0
    prev_term: int = 0
    last_index: int = 0
    last_term: int = 0
    terms: list[tuple[int, int]] | None = None

    def restart(self, header: SegmentHeader) -> None:
        self.prev_index = self.last_index = header.prev_index
        self.prev_term = self.last_term = header.prev_term
        self.terms = []

    def term(self, index: int) -> int:
        if index == self.prev_index:
            return self.prev_term
        return next(term for first, term in reversed(self.terms or []) if first <= index)

    def add(self, scan: Scan) -> None:
        header = scan.header
        if self.terms is None or header.prev_index <= self.prev_index:
            # Below the start: compaction stopped between dead segments, which hold nothing.
            self.restart(header)
        elif header.prev_index > self.last_index:
            raise JournalDamaged(
                scan.path,
                0,
                f"entries {self.last_index + 1} to {header.prev_index} are missing before it",
            )
        elif self.term(header.prev_index) != header.prev_term:
            raise JournalDamaged(
                scan.path,
                0,
                f"it follows entry {header.prev_index} of term {header.prev_term}, "
                f"but that entry has term {self.term(header.prev_index)}",
            )
        assert self.terms is not None
        kept = [run for run in self.terms if run[0] <= header.prev_index]
        before = kept[-1][1] if kept else self.prev_term
        skip = 1 if kept and scan.terms and scan.terms[0][1] == before else 0
        self.terms = kept + scan.terms[skip:]
        self.last_index = scan.last_index
        self.last_term = scan.terms[-1][1] if scan.terms else header.prev_term


def live_ids(disk: Disk, directory: str, names: Sequence[str]) -> tuple[list[int], list[int]]:
    """The numbers of the segments that count, and of those that a reset left behind."""
    ids = segment.segment_ids(names)
    start = 0
    for position, segment_id in enumerate(ids):
        if segment.read_header(disk, directory, segment_id).reset:
            start = position
    for older, newer in pairwise(ids[start:]):
        if newer != older + 1:
            raise JournalDamaged(
                segment.segment_path(directory, older + 1), 0, "this segment is missing"
            )
    return ids[start:], ids[:start]


def judge(scan: Scan, *, last: bool) -> None:
    """Refuse what a crash cannot have done. What remains is a torn tail at most."""
    if last and scan.sealed:
        raise JournalDamaged(scan.path, scan.size, "a later segment was written, and it is missing")
    if scan.damage is None:
        return
    if not last:
        raise JournalDamaged(
            scan.path,
            scan.damage.offset,
            f"{scan.damage.reason}, in a segment that was complete on disk",
        )
    if scan.synced > scan.damage.offset:
        raise JournalDamaged(
            scan.path,
            scan.damage.offset,
            f"{scan.damage.reason}, and the file was on disk, so acknowledged, up to {scan.synced}",
        )


def recover(disk: Disk, directory: str) -> Recovered:
    names = disk.listdir(directory)
    ids, left_behind = live_ids(disk, directory, names)
    lineage = Lineage()
    scans: list[Scan] = []
    data = b""
    for segment_id in ids:
        scan, data = segment.scan(disk, directory, segment_id)
        judge(scan, last=segment_id == ids[-1])
        lineage.add(scan)
        scans.append(scan)
    _remove_leftovers(disk, directory, names, left_behind)
    segments = [_reopen(disk, scan) for scan in scans[:-1]]
    for position, following in enumerate(scans[1:], start=1):
        for older in segments[:position]:
            older.trim(following.header.prev_index + 1)
    torn = None
    if scans:
        torn = torn_tail(scans[-1])
        segments.append(_rewrite(disk, directory, scans[-1], data))
    return Recovered(lineage.prev_index, lineage.prev_term, segments, lineage.terms or [], torn)


def _remove_leftovers(
    disk: Disk, directory: str, names: Sequence[str], left_behind: Sequence[int]
) -> None:
    for name in names:
        if name.endswith(segment.SUFFIX + TEMPORARY):
            disk.unlink(os.path.join(directory, name))
    remove_segments(disk, directory, left_behind)


def remove_segments(disk: Disk, directory: str, ids: Sequence[int]) -> None:
    """Oldest first, each removal on disk before the next: a crash never leaves a hole."""
    for segment_id in ids:
        disk.unlink(segment.segment_path(directory, segment_id))
        disk.fsync_dir(directory)


def _reopen(disk: Disk, scan: Scan) -> Segment:
    return Segment(
        scan.path, disk.open(scan.path), scan.header, scan.ends, scan.header.seed, scan.size
    )


def torn_tail(scan: Scan) -> TornTail | None:
    if scan.damage is None:
        return None
    offset = scan.damage.offset
    return TornTail(scan.path, offset, scan.size - offset, scan.damage.reason)


def _rewrite(disk: Disk, directory: str, scan: Scan, data: bytes) -> Segment:
    """Write the last segment again, without its torn tail, before it is used.

    If an fsync failed before the restart, the page cache shows bytes that the disk does not have
    and a new fsync of the same file says that all is well. A new file is on disk or it is not.
    """
    frames = data[HEADER_BYTES : scan.ends[-1]]
    return segment.create(disk, directory, scan.header, frames, array("I", scan.ends))
