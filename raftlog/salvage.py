"""What is left of a damaged journal: what can be read, where the holes are, what is proven.

`survey` only reads. Where `Journal.open` refuses, it goes on: frames carry their index and their
checksum starts from the number of the file, so what verifies is what was written there, whatever
happened around it. Who knows the missing entries (the peers do) hands them to `mend`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

from raftflow.raftlog import frame, segment
from raftflow.raftlog.disk import Disk
from raftflow.raftlog.errors import REMEDY_DAMAGED, JournalDamaged, naming
from raftflow.raftlog.frame import FRAME_BYTES, FrameFault, LogEntry
from raftflow.raftlog.segment import HEADER_BYTES, SegmentHeader

FAR = 1 << 40  # more entries than any journal has


@dataclass(frozen=True, slots=True)
class Run:
    """Entries first to last, all of one term."""

    first: int
    last: int
    term: int


@dataclass(frozen=True, slots=True)
class Wound:
    """One place that is not as it was written."""

    path: str
    offset: int
    message: str


@dataclass(frozen=True, slots=True)
class Hole:
    """Entries that were here and cannot be read.

    `offset` is where the first of them lay, as far as that is known; -1: its file is missing.
    """

    first: int
    last: int
    path: str
    offset: int


@dataclass(frozen=True, slots=True)
class Tail:
    """The log went on after its last readable entry, and that was acknowledged; how far is not
    known. `synced` is the offset up to which the file was on disk, if the damage left that."""

    path: str
    offset: int
    synced: int | None


@dataclass(slots=True)
class Chunk:
    """Frames that follow one another without a gap. `ends` as in a segment."""

    first: int
    ends: array[int]
    terms: list[int]

    @property
    def last(self) -> int:
        return self.first + len(self.terms) - 1


@dataclass(slots=True)
class Part:
    """One segment file as it was found; `None` headers cannot be read."""

    segment_id: int
    path: str
    header: SegmentHeader | None
    seed: int
    size: int
    synced: int
    sealed: bool
    chunks: list[Chunk] = field(default_factory=list)
    gaps: list[Wound] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        return self.header is not None and not self.gaps

    @property
    def prev_index(self) -> int | None:
        """Where the log before this segment ends, if anything tells."""
        if self.header is not None:
            return self.header.prev_index
        if self.chunks and self.chunks[0].ends[0] == HEADER_BYTES:
            return self.chunks[0].first - 1
        return None


@dataclass(slots=True)
class _Span:
    """Live entries first to last: they stand in this chunk."""

    first: int
    last: int
    part: Part
    chunk: Chunk

    def term(self, index: int) -> int:
        return self.chunk.terms[index - self.chunk.first]


@dataclass(slots=True)
class Survey:
    """A journal with holes. `doubtful`: a segment that may have cut off the end of older ones is
    unreadable, so entries before a hole may be void."""

    disk: Disk
    directory: str
    ids: list[int]
    parts: dict[int, Part]
    left_behind: list[int]
    prev_index: int = 0
    prev_term: int = 0
    spans: list[_Span] = field(default_factory=list)
    holes: list[Hole] = field(default_factory=list)
    points: dict[int, int] = field(default_factory=dict)  # index -> term, from segment headers
    tail: Tail | None = None
    doubtful: bool = False
    wounds: list[Wound] = field(default_factory=list)

    @property
    def last_index(self) -> int:
        return self.spans[-1].last if self.spans else self.prev_index

    @property
    def end_index(self) -> int:
        """The last entry that surely was there, readable or not."""
        return max(self.last_index, max((hole.last for hole in self.holes), default=0))

    def term(self, index: int) -> int | None:
        """The term of an entry that can be read, or of one that something else proves."""
        span = self._span(index)
        if span is not None:
            return span.term(index)
        return self.prev_term if index == self.prev_index else self.points.get(index)

    def readable(self, index: int) -> bool:
        return self._span(index) is not None

    def runs(self) -> list[Run]:
        """The entries that can be read."""
        found: list[Run] = []
        for span in self.spans:
            for index in range(span.first, span.last + 1):
                term = span.term(index)
                if found and found[-1].term == term and found[-1].last == index - 1:
                    found[-1] = Run(found[-1].first, index, term)
                else:
                    found.append(Run(index, index, term))
        return found

    def entries(self, first: int, last: int, max_bytes: int) -> list[LogEntry]:
        """Entries from `first` on, up to `last` or the first that is missing; at least one."""
        found: list[LogEntry] = []
        for entry in self.read(first, last):
            max_bytes -= FRAME_BYTES + len(entry.payload)
            if found and max_bytes < 0:
                break
            found.append(entry)
        return found

    def read(self, first: int, last: int) -> Iterator[LogEntry]:
        while first <= last and (span := self._span(first)) is not None:
            stop = min(span.last, last)
            with naming(span.part.path, 0, "reading entries"):
                fd = self.disk.open(span.part.path)
                try:
                    for index in range(first, stop + 1):
                        at = index - span.chunk.first
                        begin, end = span.chunk.ends[at], span.chunk.ends[at + 1]
                        data = self.disk.pread(fd, end - begin, begin)
                        try:
                            yield from frame.decode_run(data, index, span.part.seed)
                        except FrameFault as fault:
                            raise JournalDamaged(span.part.path, begin, str(fault)) from fault
                finally:
                    self.disk.close(fd)
            first = stop + 1

    def fits(self, path: str, offset: int, entry: LogEntry) -> int | None:
        """Whether the damaged frame at `offset` was this entry: then where it ended.

        Either its checksum survived and is that of this entry, or everything but the checksum and
        the watermark did and is equal.
        """
        part = next(part for part in self.parts.values() if part.path == path)
        end = offset + FRAME_BYTES + len(entry.payload)
        with naming(path, offset, "reading a damaged entry"):
            fd = self.disk.open(path)
            try:
                found = self.disk.pread(fd, end - offset, offset)
            finally:
                self.disk.close(fd)
        if len(found) < FRAME_BYTES:
            return None
        synced = int.from_bytes(found[24:32], "little")
        pieces, _ = frame.encode([entry], seed=part.seed, synced=synced, offset=offset)
        meant = b"".join(pieces)
        survived = meant[4:8] == found[4:8]
        equal = (
            len(found) == len(meant) and meant[:4] + meant[8:24] + meant[32:] == found[:4]
            + found[8:24] + found[32:]
        )  # fmt: skip
        return end if survived or equal else None

    def _span(self, index: int) -> _Span | None:
        return next((span for span in self.spans if span.first <= index <= span.last), None)


def survey(disk: Disk, directory: str) -> Survey:
    """Read everything. Raises JournalDamaged only for what no repair can make sense of."""
    with naming(directory, 0, "listing the directory"):
        ids = segment.segment_ids(disk.listdir(directory))
    parts: dict[int, Part] = {}
    start, last_index = 0, 0
    for position, segment_id in enumerate(ids):
        part = parts[segment_id] = _look(disk, directory, segment_id, last_index)
        if part.chunks:
            last_index = part.chunks[-1].last
        if part.header is not None and part.header.reset:
            start = position
    live = list(range(ids[start], ids[-1] + 1)) if ids else []
    found = Survey(disk, directory, live, {i: parts[i] for i in live if i in parts}, ids[:start])
    _assemble(found)
    return found


def _look(disk: Disk, directory: str, segment_id: int, last_index: int) -> Part:
    path = segment.segment_path(directory, segment_id)
    data = segment.read_file(disk, path)
    seed = SegmentHeader(segment_id, 0, 0).seed
    header, gaps = None, []
    try:
        header = segment.decode_header(path, segment_id, data)
    except JournalDamaged as damage:
        if damage.remedy != REMEDY_DAMAGED:
            raise  # written by another release: nothing is damaged
        gaps.append(Wound(path, damage.offset, damage.message))
    synced, sealed = segment.marks(seed, data)
    part = Part(segment_id, path, header, seed, len(data), synced, sealed, gaps=gaps)
    _read_frames(part, memoryview(data), header.prev_index if header else None, last_index)
    return part


def _read_frames(part: Part, data: memoryview, prev: int | None, floor: int) -> None:
    """All frames that verify, in chunks. `prev` is None while the next index is not known."""
    offset, term = HEADER_BYTES, part.header.prev_term if part.header else 0
    chunk: Chunk | None = None
    while offset < len(data):
        try:
            item = frame.decode(data, offset, part.seed)
            if item.term < term or (prev is not None and item.index != prev + 1):
                raise FrameFault(offset, f"entry {item.index} of term {item.term} does not follow")
        except FrameFault as fault:
            part.gaps.append(Wound(part.path, offset, str(fault)))
            low = floor if prev is None else prev
            high = FAR if prev is None else prev + (len(data) - offset) // FRAME_BYTES
            resumed = _resume(data, offset, part.seed, term, low, high)
            if resumed is None:
                break
            offset, prev, chunk = resumed.at, resumed.index - 1, None
            continue
        if chunk is None:
            chunk = Chunk(item.index, array("I", [offset]), [])
            part.chunks.append(chunk)
        chunk.ends.append(item.end)
        chunk.terms.append(item.term)
        part.synced = max(part.synced, item.synced)
        prev, term, offset = item.index, item.term, item.end
    if offset >= len(data) and part.synced > len(data):
        message = f"the file ends here but was on disk up to {part.synced}"
        part.gaps.append(Wound(part.path, len(data), message))


@dataclass(frozen=True, slots=True)
class _Resumed:
    at: int
    index: int


def _resume(
    data: memoryview, offset: int, seed: int, term: int, low: int, high: int
) -> _Resumed | None:
    """The next frame after a damaged one: where its length says, or else wherever one verifies.

    First where the length says, so that bytes within an entry are not taken for a frame.
    """
    length = int.from_bytes(data[offset : offset + 4], "little")
    stated = offset + 8 + length
    candidates = range(offset + 1, len(data) - FRAME_BYTES)
    for at in (stated, *candidates) if stated < len(data) else candidates:
        index = int.from_bytes(data[at + 8 : at + 16], "little")
        if low < index <= high:
            try:
                item = frame.decode(data, at, seed)
            except FrameFault:
                continue
            if item.term >= term:
                return _Resumed(at, item.index)
    return None


def _assemble(found: Survey) -> None:
    """Lay the parts one after another, as `recovery.join` does, and note what is missing."""
    started, unknown = False, False  # unknown: what comes next may have cut off older entries
    for segment_id in found.ids:
        part = found.parts.get(segment_id)
        if part is None:
            path = segment.segment_path(found.directory, segment_id)
            found.wounds.append(Wound(path, 0, "this segment is missing"))
            unknown = True
            continue
        last = segment_id == found.ids[-1]
        found.wounds += wounds_of(part, last=last)
        if part.prev_index is None and not part.chunks:
            unknown = True  # nothing of it can be read
            continue
        begin = part.chunks[0].first - 1 if part.prev_index is None else part.prev_index
        unknown = unknown or part.prev_index is None
        if not started or begin < found.prev_index:
            # Below the start: compaction stopped between superseded segments, which hold nothing.
            found.spans, found.holes, found.points = [], [], {}
            _start(found, part, begin)
            started = True
        else:
            _follow(found, part, begin, unknown=unknown)
        unknown = False
        for chunk in part.chunks:
            _add(found, part, chunk)
    _judge_end(found, unknown=unknown)


def wounds_of(part: Part, *, last: bool) -> list[Wound]:
    """Without the torn end of the last segment: that is the trace of a crash."""
    return [
        gap
        for gap in part.gaps
        if not (last and gap is part.gaps[-1] and _reaches_end(part) and part.synced <= gap.offset)
    ]


def _reaches_end(part: Part) -> bool:
    return bool(part.gaps) and (
        not part.chunks or part.gaps[-1].offset >= part.chunks[-1].ends[-1]
    ) and part.gaps[-1].offset >= HEADER_BYTES  # fmt: skip


def _start(found: Survey, part: Part, begin: int) -> None:
    found.prev_index = begin
    if part.header is not None or begin == 0:
        found.prev_term = part.header.prev_term if part.header else 0
    else:
        # Its term is not known here. Beginning one entry later, it is.
        found.prev_index, found.prev_term = part.chunks[0].first, part.chunks[0].terms[0]


def _follow(found: Survey, part: Part, begin: int, *, unknown: bool) -> None:
    """`part` goes on after entry `begin`: what older segments hold above it is superseded.

    `unknown`: something unreadable lies between, which may have superseded more.
    """
    _cut(found, begin + 1)
    known = found.term(begin)
    term = part.header.prev_term if part.header is not None else None if unknown else known
    if term is not None and known == term:
        return  # and so is everything before it
    found.doubtful = found.doubtful or unknown
    if term is not None and known is not None and not unknown:
        message = f"it follows entry {begin} of term {term}, but that entry has term {known}"
        raise JournalDamaged(part.path, 0, message)
    _cut(found, begin)
    if term is not None:
        found.points[begin] = term
    before = found.parts.get(part.segment_id - 1)
    if before is not None and before.whole:
        wound = Wound(before.path, before.size, "entries that stood here are missing")
        before.gaps.append(wound)
        found.wounds.append(wound)
    _hole(found, begin)


def _cut(found: Survey, index: int) -> None:
    for span in found.spans:
        span.last = min(span.last, index - 1)
    found.spans = [span for span in found.spans if span.first <= span.last]
    found.points = {at: term for at, term in found.points.items() if at < index}
    found.holes = [
        Hole(hole.first, min(hole.last, index - 1), hole.path, hole.offset)
        for hole in found.holes
        if hole.first < index
    ]


def _hole(found: Survey, last: int) -> None:
    first = found.end_index + 1
    if first > last:
        return
    place = next(
        (w for w in reversed(found.wounds) if w.offset >= HEADER_BYTES and _holds(found, w, first)),
        Wound(found.directory, -1, ""),
    )
    found.holes.append(Hole(first, last, place.path, place.offset))


def _holds(found: Survey, wound: Wound, first: int) -> bool:
    """Whether the entry before `first` ends where this wound begins, so `first` began there."""
    part = next(part for part in found.parts.values() if part.path == wound.path)
    if part.prev_index == first - 1 and wound.offset == HEADER_BYTES:
        return True
    return any(chunk.last == first - 1 and chunk.ends[-1] == wound.offset for chunk in part.chunks)


def _add(found: Survey, part: Part, chunk: Chunk) -> None:
    first = max(chunk.first, found.prev_index + 1)
    if first > chunk.last:
        return
    if first > found.last_index + 1:
        _hole(found, first - 1)
    found.spans.append(_Span(first, chunk.last, part, chunk))


def _judge_end(found: Survey, *, unknown: bool) -> None:
    if not found.ids:
        return
    part = found.parts.get(found.ids[-1])
    if part is None or unknown:
        found.tail = Tail(segment.segment_path(found.directory, found.ids[-1]), -1, None)
    elif part.sealed:
        wound = Wound(part.path, part.size, "a later segment was written, and it is missing")
        part.synced = part.size + 1
        part.gaps.append(wound)
        found.wounds.append(wound)
        found.tail = Tail(part.path, -1, None)
    elif _reaches_end(part) and part.synced > part.gaps[-1].offset:
        found.tail = Tail(part.path, part.gaps[-1].offset, part.synced)


def damaged_files(found: Survey) -> list[str]:
    """Those that a repair writes anew or removes; a missing one is none."""
    missing = {segment.segment_path(found.directory, i) for i in found.ids if i not in found.parts}
    return sorted({wound.path for wound in found.wounds} - missing)
