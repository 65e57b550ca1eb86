"""A file of frames.

    0        a header, written once
    512      mark A   "this file is on disk up to offset N", written in turn after each fsync;
    1024     mark B    the newer of the valid ones counts
    4096     frames, indexes without gaps

A segment appears under its name only after its first bytes were synced, and the next one appears
only after this one was, so a damaged header, or damage in any segment but the last, is never the
trace of a crash.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from struct import Struct

from crc32c import crc32c

from raftflow.raftlog import frame
from raftflow.raftlog.disk import Disk
from raftflow.raftlog.errors import JournalDamaged, naming
from raftflow.raftlog.frame import FRAME_BYTES, Buffer, FrameFault, LogEntry
from raftflow.raftlog.terms import Terms

MAGIC = b"RAFTFLOW"
VERSION = 1
HEADER_BYTES = 4096
SUFFIX = ".segment"
TEMPORARY = ".tmp"
MAX_SEGMENT_BYTES = 1 << 31  # offsets, one large entry beyond it, fit four bytes

_FLAG_RESET = 1
_HEADER = Struct("<8sIIQQQ")
_MARK = Struct("<QQ")
_CRC = Struct("<I")
_MARK_OFFSETS = (512, 1024)
_SEALED = 1


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """What a segment says of itself.

    The journal up to here ends with (prev_index, prev_term): what older segments hold above it is
    superseded. After a reset nothing in older segments counts at all.
    """

    segment_id: int
    prev_index: int
    prev_term: int
    reset: bool = False

    def encode(self) -> bytes:
        flags = _FLAG_RESET if self.reset else 0
        raw = _HEADER.pack(MAGIC, VERSION, flags, self.segment_id, self.prev_index, self.prev_term)
        return raw + _CRC.pack(crc32c(raw))

    @property
    def seed(self) -> int:
        """Where the CRC of everything else in this file starts: a block of another file fails."""
        return crc32c(_HEADER.pack(MAGIC, VERSION, 0, self.segment_id, 0, 0))


@dataclass(slots=True)
class Segment:
    """An open segment. `ends[i]` is where frame i begins and frame i-1 ends."""

    path: str
    fd: int
    header: SegmentHeader
    ends: array[int]
    seed: int
    synced: int
    marks: int = 0

    @property
    def first_index(self) -> int:
        return self.header.prev_index + 1

    @property
    def count(self) -> int:
        return len(self.ends) - 1

    @property
    def last_index(self) -> int:
        return self.header.prev_index + self.count

    def trim(self, index: int) -> None:
        """Forget the frames from `index` on: a later segment supersedes them."""
        del self.ends[max(0, index - self.first_index) + 1 :]

    def read(self, disk: Disk, start: int, stop: int, max_bytes: int) -> list[LogEntry]:
        """Entries [start, stop) as far as `max_bytes` go, but at least one."""
        low = start - self.first_index
        begin = self.ends[low]
        fit = bisect_right(self.ends, begin + max_bytes, low + 1) - 1
        high = min(max(fit, low + 1), stop - self.first_index)
        with naming(self.path, begin, "reading entries"):
            data = disk.pread(self.fd, self.ends[high] - begin, begin)
        try:
            entries = frame.decode_run(data, start, self.seed)
        except FrameFault as fault:
            raise JournalDamaged(self.path, begin + fault.offset, str(fault)) from fault
        if len(entries) < high - low:
            raise JournalDamaged(self.path, begin + len(data), "the file has become shorter")
        return entries

    def write(self, disk: Disk, entries: Sequence[LogEntry]) -> array[int]:
        """Put entries at the end, on disk at return. Their ends are for the owner to add."""
        offset = self.synced
        parts, ends = frame.encode(entries, seed=self.seed, synced=offset, offset=offset)
        with naming(self.path, offset, "writing entries"):
            disk.pwrite(self.fd, b"".join(parts), offset)
            disk.fdatasync(self.fd)
            self.synced = ends[-1]
            self.mark_synced(disk)
        return ends

    def seal(self, disk: Disk) -> None:
        """A later segment is on disk: from now on, this one is never the last."""
        with naming(self.path, self.synced, "sealing the segment"):
            self.mark_synced(disk, sealed=True)
            disk.fdatasync(self.fd)

    def mark_synced(self, disk: Disk, *, sealed: bool = False) -> None:
        """Write down how far this file is on disk. Not synced: it rides on the next fsync.

        After a killed process it is exact; after a power loss it may be one flush behind.
        """
        offset = _MARK_OFFSETS[self.marks % 2]
        disk.pwrite(self.fd, _encode_mark(self.seed, self.synced, sealed=sealed), offset)
        self.marks += 1


@dataclass(frozen=True, slots=True)
class Damage:
    offset: int
    reason: str


@dataclass(slots=True)
class Scan:
    """All that one segment file says. `synced` is the furthest offset known to have been synced."""

    path: str
    header: SegmentHeader
    size: int
    synced: int
    sealed: bool
    terms: Terms
    ends: array[int] = field(default_factory=lambda: array("I", [HEADER_BYTES]))
    damage: Damage | None = None


def segment_path(directory: str, segment_id: int) -> str:
    return os.path.join(directory, f"{segment_id:016d}{SUFFIX}")


def segment_ids(names: Sequence[str]) -> list[int]:
    stems = [name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX)]
    return sorted(int(stem) for stem in stems if stem.isdigit())


def create(
    disk: Disk, directory: str, header: SegmentHeader, frames: bytes, ends: array[int]
) -> Segment:
    """Write a segment with its first frames: file synced, named, directory synced, in this order.

    A segment of the same number is replaced in one step.
    """
    path = segment_path(directory, header.segment_id)
    size = HEADER_BYTES + len(frames)
    # The mark is true whenever it can be read: the name comes after the sync.
    mark = _encode_mark(header.seed, size, sealed=False)
    head = bytearray(HEADER_BYTES)
    for offset, raw in ((0, header.encode()), *((at, mark) for at in _MARK_OFFSETS)):
        head[offset : offset + len(raw)] = raw
    with naming(path, 0, "writing a new segment"):
        fd = disk.create(path + TEMPORARY)
        try:
            disk.pwrite(fd, bytes(head) + frames, 0)
            disk.fdatasync(fd)
            disk.rename(path + TEMPORARY, path)
            disk.fsync_dir(directory)
        except OSError:
            disk.close(fd)
            raise
    return Segment(path, fd, header, ends, header.seed, size)


def remove(disk: Disk, directory: str, ids: Iterable[int]) -> None:
    """Oldest first, each removal on disk before the next: a crash never leaves a hole."""
    for segment_id in ids:
        path = segment_path(directory, segment_id)
        with naming(path, 0, "removing a segment"):
            disk.unlink(path)
            disk.fsync_dir(directory)


def read_header(disk: Disk, directory: str, segment_id: int) -> SegmentHeader:
    path = segment_path(directory, segment_id)
    return decode_header(path, segment_id, read_file(disk, path, HEADER_BYTES))


def scan(disk: Disk, directory: str, segment_id: int) -> tuple[Scan, bytes]:
    """Verify a whole file. Only an unusable header raises; other damage is reported in the Scan."""
    path = segment_path(directory, segment_id)
    data = read_file(disk, path)
    header = decode_header(path, segment_id, data)
    synced, sealed = marks(header.seed, data)
    found = Scan(
        path=path,
        header=header,
        size=len(data),
        synced=synced,
        sealed=sealed,
        terms=Terms(header.prev_index, header.prev_term),
    )
    _scan_frames(found, memoryview(data))
    return found, data


def marks(seed: int, data: bytes) -> tuple[int, bool]:
    """Up to where the file is known to be on disk, and whether a later segment was written.

    Both marks are there from the file's first moment and no crash can take both: without any,
    everything in the file counts as acknowledged.
    """
    if len(data) < HEADER_BYTES:
        return len(data) + 1, False
    found = [mark for at in _MARK_OFFSETS if (mark := _decode_mark(seed, data, at))]
    synced = max((synced for synced, _ in found), default=len(data))
    return synced, any(flags & _SEALED for _, flags in found)


def read_file(disk: Disk, path: str, most: int | None = None) -> bytes:
    with naming(path, 0, "reading the segment"):
        fd = disk.open(path)
        try:
            return disk.pread(fd, disk.size(fd) if most is None else most, 0)
        finally:
            disk.close(fd)


def _scan_frames(found: Scan, data: memoryview) -> None:
    seed, terms = found.header.seed, found.terms
    offset = HEADER_BYTES
    while offset < len(data):
        try:
            item = frame.decode(data, offset, seed)
            if item.index != terms.last_index + 1 or item.term < terms.last_term:
                raise FrameFault(
                    offset,
                    f"entry {item.index} of term {item.term} cannot follow "
                    f"entry {terms.last_index} of term {terms.last_term}",
                )
        except FrameFault as fault:
            found.damage = Damage(offset, str(fault))
            break
        terms.extend(1, item.term)
        offset = item.end
        found.ends.append(offset)
    if found.damage is not None:
        for later in _frames_after(data, found.damage.offset, seed, terms.last_index + 1):
            found.synced = max(found.synced, later.synced)
    elif found.synced > offset:
        found.damage = Damage(offset, f"the file ends here but was on disk up to {found.synced}")


def _frames_after(data: memoryview, damage: int, seed: int, index: int) -> Iterator[frame.Frame]:
    """Frames that survive beyond a damaged one: each says what was on disk when it was written."""
    offset = damage + 1
    most = index + (len(data) - damage) // FRAME_BYTES
    while offset + FRAME_BYTES < len(data):
        if index < int.from_bytes(data[offset + 8 : offset + 16], "little") <= most:
            try:
                item = frame.decode(data, offset, seed)
            except FrameFault:
                pass
            else:
                yield item
                offset = item.end
                continue
        offset += 1


def decode_header(path: str, segment_id: int, data: Buffer) -> SegmentHeader:
    if len(data) < HEADER_BYTES:
        raise JournalDamaged(path, len(data), "the file ends within its header")
    raw = bytes(data[: _HEADER.size])
    magic, version, flags, found, prev_index, prev_term = _HEADER.unpack(raw)
    if magic != MAGIC:
        raise JournalDamaged(path, 0, "this is not a segment of a raftflow journal")
    if crc32c(raw) != _CRC.unpack_from(data, _HEADER.size)[0]:
        raise JournalDamaged(path, 0, "the checksum of the header does not match")
    if version != VERSION or flags & ~_FLAG_RESET:
        raise JournalDamaged(
            path,
            len(MAGIC),
            f"format version {version} (flags {flags}) is not known to this release",
            "start the release that wrote it, or a newer one",
        )
    if found != segment_id:
        raise JournalDamaged(path, 0, f"the file holds segment {found}: it was renamed or copied")
    return SegmentHeader(found, prev_index, prev_term, bool(flags & _FLAG_RESET))


def _encode_mark(seed: int, synced: int, *, sealed: bool) -> bytes:
    raw = _MARK.pack(synced, _SEALED if sealed else 0)
    return raw + _CRC.pack(crc32c(raw, seed))


def _decode_mark(seed: int, data: bytes, offset: int) -> tuple[int, int] | None:
    raw = data[offset : offset + _MARK.size]
    if crc32c(raw, seed) != _CRC.unpack_from(data, offset + _MARK.size)[0]:
        return None
    synced, flags = _MARK.unpack(raw)
    return synced, flags
