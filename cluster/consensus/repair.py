"""A damaged log made whole again from the peers (CONSENSUS row 19), without I/O to them.

`repair` is a generator: it reads and writes this node's own disk, and yields what it wants of
others. So the event loop, the simulator and the property tests run the same code.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import structlog

from raftflow.cluster.consensus.proof import LogMap, Mend, Point, Take, Unproven, decide
from raftflow.raftlog import abstaining, mend, salvage
from raftflow.raftlog.disk import Disk
from raftflow.raftlog.journal import LogEntry
from raftflow.raftlog.salvage import Survey

log = structlog.get_logger()

# So long all peers are waited for; then what needs nobody is done without them.
PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True)
class AskMaps:
    """What can every peer read? Answer: the maps of those that answered."""


@dataclass(frozen=True, slots=True)
class AskEntries:
    """Answer: entries of that peer from `first` on, as many as it gives; none when it cannot."""

    peer: str
    first: int
    last: int
    anchor: Point | None


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing can be done now, for this reason. Answer: seconds waited so far, altogether."""

    reason: str


Request: TypeAlias = AskMaps | AskEntries | Pause
Answer: TypeAlias = Mapping[str, LogMap] | Sequence[LogEntry] | float | None
Steps: TypeAlias = Generator[Request, Answer, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairJob:
    """`applied` is the last entry of this node's own state. `set_aside` keeps the damaged files for
    a report; `surveyed` is told what can be read now, for peers that ask."""

    disk: Disk
    directory: str
    peers: Collection[str]
    applied: Point
    segment_bytes: int
    set_aside: Callable[[Sequence[str]], None] = lambda _paths: None
    surveyed: Callable[[Survey], None] = lambda _survey: None


def repair(job: RepairJob) -> Steps:
    """Until the log is whole. Returns whether this node abstains. Raises JournalDamaged and
    Contradiction for what must not be repaired."""
    waited = 0.0
    while True:
        survey = salvage.survey(job.disk, job.directory)
        job.surveyed(survey)
        abstains = abstaining.marked(job.disk, job.directory)
        if not (survey.wounds or survey.holes or survey.tail):
            return abstains
        _tell(survey)
        answered = yield AskMaps()
        assert isinstance(answered, Mapping)
        reason = yield from _step(job, survey, answered, waited, abstains=abstains)
        if reason:
            pause = yield Pause(reason)
            assert isinstance(pause, float)
            waited = pause


def _step(
    job: RepairJob, survey: Survey, maps: Mapping[str, LogMap], waited: float, *, abstains: bool
) -> Generator[Request, Answer, str]:
    """One improvement; or why there is none yet."""
    away = sorted(set(job.peers) - set(maps))
    patient = bool(away) and waited < PATIENCE_S
    known: dict[int, LogEntry] = {}
    if survey.tail is not None:
        tail, end = survey.tail, survey.end_index + 1
        proven, reached = yield from _by_checksum(survey, maps, tail.path, tail.offset, end, None)
        known.update(proven)
        if not abstains and not (tail.synced and reached >= tail.synced):
            majority = (len(job.peers) + 1) // 2 + 1
            if patient or len(maps) + 1 < majority:
                return f"{', '.join(away)} may prove how the log ended at {tail.path}"
            _abstain(job, f"the acknowledged end of the log is damaged from entry {end} on")
    applied = Point(0, 0) if patient else job.applied
    while isinstance(decision := decide(survey, maps, applied, known), Unproven):
        gap = decision
        proven, _ = yield from _by_checksum(survey, maps, gap.path, gap.offset, gap.first, gap.last)
        if gap.last not in proven:
            return _give_up(job, survey, gap, away)
        known.update(proven)
    for take in decision.takes:
        got = yield from _fetch(take)
        if got is None:
            return f"{take.peer} could not give entries {take.first} to {take.last}"
        known.update(got)
    _mend(job, survey, known, decision)
    return ""


def _give_up(job: RepairJob, survey: Survey, gap: Unproven, away: Sequence[str]) -> str:
    if away:
        return f"entries {gap.first} to {gap.last} are damaged; {', '.join(away)} may have them"
    _abstain(job, f"no node can prove what stood in entries {gap.first} to {gap.last}")
    job.set_aside(salvage.damaged_files(survey))
    mend.mend(survey, entries={}, cut_from=gap.first, segment_bytes=job.segment_bytes)
    log.warning("log_cut", directory=job.directory, first=gap.first)
    return ""


def _by_checksum(
    survey: Survey,
    maps: Mapping[str, LogMap],
    path: str,
    offset: int,
    index: int,
    last: int | None,
) -> Generator[Request, Answer, tuple[dict[int, LogEntry], int]]:
    """Try what peers have in the damaged frames, one after another; and where they then end."""
    proven: dict[int, LogEntry] = {}
    while offset >= 0 and (last is None or index <= last):
        end = None
        for peer in sorted(name for name in maps if maps[name].readable_to(index) >= index):
            got = yield AskEntries(peer, index, index, None)
            assert isinstance(got, Sequence)
            end = survey.fits(path, offset, got[0]) if got else None
            if end is not None:
                proven[index] = got[0]
                break
        if end is None:
            break
        index, offset = index + 1, end
    return proven, offset


def _fetch(take: Take) -> Generator[Request, Answer, dict[int, LogEntry] | None]:
    found: dict[int, LogEntry] = {}
    first = take.first
    while first <= take.last:
        got = yield AskEntries(take.peer, first, take.last, take.anchor)
        assert isinstance(got, Sequence)
        if not got or [entry.index for entry in got] != list(range(first, first + len(got))):
            return None
        found.update({entry.index: entry for entry in got if entry.index <= take.last})
        first = got[-1].index + 1
    return found


def _mend(job: RepairJob, survey: Survey, entries: Mapping[int, LogEntry], decision: Mend) -> None:
    job.set_aside(salvage.damaged_files(survey))
    drop = decision.drop_to
    began = time.monotonic()
    mend.mend(
        survey,
        entries=entries,
        drop_to=(drop.index, drop.term),
        void_from=decision.void_from,
        segment_bytes=job.segment_bytes,
    )
    log.info(
        "log_mended",
        directory=job.directory,
        entries=len(entries),
        peers=sorted({take.peer for take in decision.takes}),
        begins_after=drop.index or survey.prev_index,
        took_ms=round((time.monotonic() - began) * 1_000),
    )


def _abstain(job: RepairJob, reason: str) -> None:
    abstaining.mark(job.disk, job.directory, reason)
    log.warning("node_abstains", directory=job.directory, reason=reason)


def _tell(survey: Survey) -> None:
    for wound in survey.wounds:
        log.error("log_damaged", file=wound.path, offset=wound.offset, problem=wound.message)
    for hole in survey.holes:
        log.warning("log_hole", first=hole.first, last=hole.last)
