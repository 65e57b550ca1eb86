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
from raftflow.raftlog.errors import JournalDamaged, naming
from raftflow.raftlog.segment import HEADER_BYTES, TEMPORARY, Scan, Segment
from raftflow.raftlog.terms import Terms


@dataclass(frozen=True, slots=True)
class TornTail:
    """Bytes of a write that never finished; nothing in them was acknowledged."""

    path: str
    offset: int
    size: int
    reason: str


@dataclass(frozen=True, slots=True)
class Recovered:
    terms: Terms
    segments: list[Segment]
    torn: TornTail | None


def join(before: Terms | None, scan: Scan) -> Terms:
    """The log up to and with this segment, of which the log before it may lose its end."""
    header = scan.header
    if before is None or header.prev_index < before.prev_index:
        # Below the start: compaction stopped between superseded segments, which hold nothing.
        return scan.terms
    if header.prev_index > before.last_index:
        missing = f"entries {before.last_index + 1} to {header.prev_index} are missing before it"
        raise JournalDamaged(scan.path, 0, missing)
    if header.prev_term != (term := before[header.prev_index]):
        raise JournalDamaged(
            scan.path,
            0,
            f"it follows entry {header.prev_index} of term {header.prev_term}, "
            f"but that entry has term {term}",
        )
    before.cut_from(header.prev_index + 1)
    before.follow(scan.terms)
    return before


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
    with naming(directory, 0, "listing the directory"):
        names = disk.listdir(directory)
    ids, left_behind = live_ids(disk, directory, names)
    terms = None
    scans: list[Scan] = []
    data = b""
    for segment_id in ids:
        scan, data = segment.scan(disk, directory, segment_id)
        judge(scan, last=segment_id == ids[-1])
        terms = join(terms, scan)
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
    return Recovered(terms or Terms(0, 0), segments, torn)


def _remove_leftovers(
    disk: Disk, directory: str, names: Sequence[str], left_behind: Sequence[int]
) -> None:
    for name in names:
        if name.endswith(segment.SUFFIX + TEMPORARY):
            path = os.path.join(directory, name)
            with naming(path, 0, "removing an unfinished segment"):
                disk.unlink(path)
    segment.remove(disk, directory, left_behind)


def _reopen(disk: Disk, scan: Scan) -> Segment:
    with naming(scan.path, 0, "opening the segment"):
        fd = disk.open(scan.path)
    return Segment(scan.path, fd, scan.header, scan.ends, scan.header.seed, scan.size)


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
