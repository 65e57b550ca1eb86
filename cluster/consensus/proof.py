"""Which entries of a peer may fill which hole of a damaged log, and why (CONSENSUS row 19).

Two logs that hold the same term at one index are the same up to there (Raft §5.3, log matching).
So a peer that has, at or after a hole, an entry that is readable here too has what was lost. What
nothing proves is never guessed: the log is cut before it, and this node votes for nobody until a
leader that was elected without it has given back all that is committed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from raftflow.raftlog.mend import next_stretch
from raftflow.raftlog.salvage import Hole, Run, Survey


@dataclass(frozen=True, slots=True)
class Point:
    index: int
    term: int


@dataclass(frozen=True, slots=True)
class LogMap:
    """What a node can tell of its log: entries it can read, and points that it knows."""

    start: Point
    runs: tuple[Run, ...] = ()
    points: tuple[Point, ...] = ()

    def proven(self) -> list[Run]:
        known = [Run(p.index, p.index, p.term) for p in (self.start, *self.points)]
        return sorted([*self.runs, *known], key=lambda run: (run.first, run.last))

    def readable_to(self, index: int) -> int:
        """Readable without a gap from `index` to this one; below `index`: not at all."""
        for run in self.runs:
            if run.first <= index <= run.last:
                index = run.last + 1
        return index - 1


def map_for_others(survey: Survey) -> LogMap:
    """Without what may be void: to be told to peers."""
    whole = map_of(survey)
    if not survey.doubtful or not survey.holes:
        return whole
    sure = survey.holes[-1].last
    runs = tuple(Run(max(r.first, sure + 1), r.last, r.term) for r in whole.runs if r.last > sure)
    return LogMap(whole.start, runs, tuple(p for p in whole.points if p.index >= sure))


def map_of(survey: Survey) -> LogMap:
    return LogMap(
        Point(survey.prev_index, survey.prev_term),
        tuple(survey.runs()),
        tuple(Point(index, term) for index, term in sorted(survey.points.items())),
    )


@dataclass(frozen=True, slots=True)
class Take:
    """Ask this peer for entries first to last, if the anchor still stands in its log."""

    peer: str
    first: int
    last: int
    anchor: Point


@dataclass(frozen=True, slots=True)
class Mend:
    """Write the next stretch anew: begin after `drop_to` (0: where it began), entries from
    `void_from` on replaced, holes filled by `takes`."""

    takes: tuple[Take, ...] = ()
    drop_to: Point = Point(0, 0)
    void_from: int | None = None


@dataclass(frozen=True, slots=True)
class Unproven:
    """No peer that was asked surely has entries first to last. A damaged frame at `offset` of
    `path` may still prove by its checksum what it held."""

    first: int
    last: int
    path: str
    offset: int


class Contradiction(Exception):
    """A log that is not doubtful differs from a peer's where it must not."""


def decide(
    survey: Survey,
    peers: Mapping[str, LogMap],
    applied: Point,
    have: Collection[int] = (),
) -> Mend | Unproven:
    """What to do about the first stretch of damaged segments, once their end is settled. `applied`:
    what this node's own state holds; entries up to there may be given up. `have`: entries that
    are proven already."""
    mine = map_of(survey)
    anchors = {
        name: anchor for name, peer in peers.items() if (anchor := highest_common(mine, peer))
    }
    void_from = _void_from(survey, mine, peers, anchors)
    if survey.doubtful and survey.holes:
        last = survey.holes[-1].last
        if not any(anchor.index >= last for anchor in anchors.values()):
            return _unproven(survey, survey.holes[0])
    drop = _drop(survey, peers, anchors)
    decision = _fill(survey, peers, anchors, void_from, drop, have)
    if isinstance(decision, Unproven) and decision.last <= applied.index > drop.index:
        decision = _fill(survey, peers, anchors, void_from, applied, have)
    return decision


def _fill(
    survey: Survey,
    peers: Mapping[str, LogMap],
    anchors: Mapping[str, Point],
    void_from: int | None,
    drop: Point,
    have: Collection[int],
) -> Mend | Unproven:
    if void_from is not None and void_from <= drop.index:
        void_from = None
    takes: list[Take] = []
    stretch = next_stretch(survey, drop.index, void_from)
    for missing in _missing(survey, stretch, void_from, have):
        found = _takes(missing, peers, anchors)
        if found is None:
            holes = [hole for hole in survey.holes if hole.last >= missing.start]
            return _unproven(survey, holes[0])
        takes += found
    return Mend(tuple(takes), drop, void_from)


def _unproven(survey: Survey, hole: Hole) -> Unproven:
    # What stands before a doubtful hole may be void: no checksum in it can tell.
    offset = -1 if survey.doubtful else hole.offset
    return Unproven(hole.first, hole.last, hole.path, offset)


def highest_common(mine: LogMap, peer: LogMap) -> Point | None:
    """The last index at which both logs are known to have the same term."""
    best: Point | None = None
    for a in mine.proven():
        for b in peer.proven():
            last = min(a.last, b.last)
            common = a.term == b.term and last >= max(a.first, b.first)
            if common and (best is None or last > best.index):
                best = Point(last, a.term)
    return best


def _void_from(
    survey: Survey, mine: LogMap, peers: Mapping[str, LogMap], anchors: Mapping[str, Point]
) -> int | None:
    """Where the readable log first differs from one that it must equal."""
    firsts = [
        max(a.first, b.first)
        for name, anchor in anchors.items()
        for a in mine.runs
        for b in peers[name].proven()
        if a.term != b.term and max(a.first, b.first) <= min(a.last, b.last, anchor.index)
    ]
    if not firsts:
        return None
    if not survey.doubtful:
        raise Contradiction(
            f"{survey.directory}: entry {min(firsts)} has another term than on a node whose later "
            "entries are the same"
        )
    return min(firsts)


def _drop(survey: Survey, peers: Mapping[str, LogMap], anchors: Mapping[str, Point]) -> Point:
    """After which entry to begin, because holes before it are compacted where they could come from:
    they are committed, and stand in a state that this node has or gets."""
    drop = Point(0, 0)
    for hole in survey.holes:
        if hole.last <= drop.index or _takes(range(hole.first, hole.last + 1), peers, anchors):
            continue
        starts = [
            peer.start
            for name, peer in peers.items()
            if name in anchors
            and anchors[name].index >= peer.start.index
            and peer.start.index >= hole.first
        ]
        if starts:
            drop = max(starts, key=lambda point: point.index)
    return drop


def _missing(
    survey: Survey, stretch: range, void_from: int | None, have: Collection[int]
) -> Iterable[range]:
    """The parts of the stretch that have to come from elsewhere."""
    first: int | None = None
    for index in stretch:
        void = void_from is not None and _void(survey, index, void_from)
        here = index in have or (survey.readable(index) and not void)
        if not here and first is None:
            first = index
        elif here and first is not None:
            yield range(first, index)
            first = None
    if first is not None:
        yield range(first, stretch.stop)


def _void(survey: Survey, index: int, void_from: int) -> bool:
    """Between the first difference and the hole after it nothing counts."""
    hole = next((hole for hole in survey.holes if hole.last >= void_from), None)
    return void_from <= index and hole is not None and index <= hole.last


def _takes(
    wanted: range, peers: Mapping[str, LogMap], anchors: Mapping[str, Point]
) -> list[Take] | None:
    takes: list[Take] = []
    first, last = wanted.start, wanted.stop - 1
    while first <= last:
        reach = {
            name: min(peers[name].readable_to(first), anchor.index, last)
            for name, anchor in anchors.items()
        }
        best = max(sorted(reach), key=lambda name: reach[name], default=None)
        if best is None or reach[best] < first:
            return None
        takes.append(Take(best, first, reach[best], anchors[best]))
        first = reach[best] + 1
    return takes
