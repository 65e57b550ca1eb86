"""Damaged segments written anew: each file whole under its name, or the old one still there."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping

from raftflow.raftlog import frame, segment
from raftflow.raftlog.errors import JournalDamaged
from raftflow.raftlog.frame import FRAME_BYTES, LogEntry
from raftflow.raftlog.salvage import FAR, Survey, wounds_of
from raftflow.raftlog.segment import HEADER_BYTES, SegmentHeader


def next_stretch(found: Survey, drop_to: int = 0, void_from: int | None = None) -> range:
    """The indexes that the next `mend` writes: holes among them are what it needs entries for."""
    mending = _Mending(found, {}, 0)
    ids, prev = mending.plan(drop_to, void_from)
    return range(prev + 1, mending.end_of(ids[-1]) + 1)


def mend(
    found: Survey,
    *,
    entries: Mapping[int, LogEntry],
    drop_to: tuple[int, int] = (0, 0),
    void_from: int | None = None,
    cut_from: int | None = None,
    segment_bytes: int = 64 << 20,
) -> None:
    """Write the first stretch of damaged segments anew, with `entries` in its holes.

    `drop_to`: begin after this entry (index, term), which stands in a snapshot. `void_from`: what
    older segments hold from here on is replaced by `entries`. `cut_from`: end before this entry.
    Interrupted anywhere, it leaves what the next survey understands.
    """
    index, term = drop_to
    if index:
        found.points[index] = term
    _Mending(found, entries, segment_bytes).run(index, void_from, cut_from)


class _Mending:
    def __init__(self, found: Survey, entries: Mapping[int, LogEntry], segment_bytes: int) -> None:
        self._found = found
        self._entries = entries
        self._segment_bytes = segment_bytes

    def run(self, drop_to: int, void_from: int | None, cut_from: int | None) -> None:
        found = self._found
        segment.remove(found.disk, found.directory, found.left_behind)
        if cut_from is not None:
            self._cut(cut_from)
            return
        ids, prev = self.plan(drop_to, void_from)
        if drop_to:
            older = [i for i in found.ids if i < ids[0] and i in found.parts]
            segment.remove(found.disk, found.directory, older)
        self._write(ids, prev, self.end_of(ids[-1]))

    def plan(self, drop_to: int, void_from: int | None) -> tuple[list[int], int]:
        """The segments to write, and the entry after which they begin."""
        ids = self._stretch(drop_to)
        if drop_to:
            return ids, drop_to
        first = ids[0] == self._found.ids[0]
        prev = self._found.prev_index if first else self._end_before(ids[0])
        prev = min(prev, self.end_of(ids[-1]))
        return ids, prev if void_from is None else min(prev, void_from - 1)

    def _stretch(self, drop_to: int) -> list[int]:
        """The first bad segment, the bad ones that follow it, and those that a later segment
        supersedes: what is not live is not written again. To begin after an entry, one is enough:
        all before it go."""
        found = self._found
        if drop_to:
            start = next((i for i in found.ids if self.end_of(i) > drop_to), found.ids[-1])
        else:
            start = next(i for i in found.ids if not self._sound(i))
        ids = [start]
        for following in found.ids[found.ids.index(start) + 1 :]:
            part = found.parts.get(following)
            goes_on = part is not None and part.prev_index == self.end_of(ids[-1])
            if goes_on and (drop_to or self._sound(following)):
                break
            ids.append(following)
        return ids

    def _sound(self, segment_id: int) -> bool:
        part = self._found.parts.get(segment_id)
        if part is None or part.header is None:
            return False
        return not wounds_of(part, last=segment_id == self._found.ids[-1])

    def _end_before(self, segment_id: int) -> int:
        """The last entry that stands before this segment."""
        part = self._found.parts.get(segment_id)
        if part is not None and part.prev_index is not None:
            return max(part.prev_index, self._found.prev_index)
        older = [
            span.last for span in self._found.spans if span.part.segment_id < segment_id
        ]  # fmt: skip
        return max(older, default=self._found.prev_index)

    def end_of(self, segment_id: int) -> int:
        """The last live entry up to the end of this segment: where a later one goes on."""
        found = self._found
        later = [found.parts.get(i) for i in found.ids if i > segment_id]
        starts = [p.prev_index for p in later if p is not None and p.prev_index is not None]
        return min(starts, default=max(found.end_index, max(self._entries, default=0)))

    def _write(self, ids: list[int], prev: int, last: int) -> None:
        index = prev + 1
        for segment_id in ids:
            chunk: list[LogEntry] = []
            size, final = 0, segment_id == ids[-1]
            while index <= last and (final or not chunk or size <= self._segment_bytes):
                chunk.append(self._entry(index))
                size += FRAME_BYTES + len(chunk[-1].payload)
                index += 1
            first = chunk[0].index if chunk else index
            self._put(
                segment_id, SegmentHeader(segment_id, first - 1, self._term(first - 1)), chunk
            )

    def _cut(self, index: int) -> None:
        """End the log before `index`: newest files first, so that a crash leaves a shorter end."""
        found = self._found
        kept = [i for i in found.ids if i in found.parts and self._begins(i) < index]
        holder = kept[-1] if kept else found.ids[0]
        for segment_id in reversed([i for i in found.ids if i > holder and i in found.parts]):
            segment.remove(found.disk, found.directory, [segment_id])
        prev = self._end_before(holder) if kept else found.prev_index
        chunk = [self._entry(at) for at in range(prev + 1, index)]
        self._put(holder, SegmentHeader(holder, prev, self._term(prev)), chunk)

    def _begins(self, segment_id: int) -> int:
        part = self._found.parts[segment_id]
        if part.prev_index is None:
            return part.chunks[0].first if part.chunks else FAR
        return part.prev_index + 1

    def _put(self, segment_id: int, header: SegmentHeader, entries: Iterable[LogEntry]) -> None:
        found = self._found
        pieces, _ = frame.encode(
            list(entries), seed=header.seed, synced=HEADER_BYTES, offset=HEADER_BYTES
        )
        part = segment.create(
            found.disk, found.directory, header, b"".join(pieces), array("I", [HEADER_BYTES])
        )
        found.disk.close(part.fd)

    def _entry(self, index: int) -> LogEntry:
        given = self._entries.get(index)
        if given is not None:
            return given
        for entry in self._found.read(index, index):
            return entry
        raise JournalDamaged(self._found.directory, 0, f"entry {index} is still missing")

    def _term(self, index: int) -> int:
        given = self._entries.get(index)
        term = given.term if given is not None else self._found.term(index)
        if term is None:
            raise JournalDamaged(self._found.directory, 0, f"the term of entry {index} is missing")
        return term
