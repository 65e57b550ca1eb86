"""What a directory holds, for people and for programs. Only reads; safe beside a running node."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TypeAlias

from raftflow.raftlog import frame, hardstate, recovery, salvage, segment
from raftflow.raftlog.disk import Disk
from raftflow.raftlog.errors import JournalDamaged, JournalError, naming
from raftflow.raftlog.segment import Scan
from raftflow.raftlog.terms import Terms

Json: TypeAlias = dict[str, str | int | bool | None]

_NOTHING_TO_DO = "nothing: the next start cuts it off, no one was told that it is there"


class Severity(StrEnum):
    DAMAGED = "damaged"  # the node refuses to start
    TORN = "torn"  # the trace of a crash, healed by the next start


@dataclass(frozen=True, slots=True)
class Finding:
    severity: Severity
    path: str
    offset: int
    message: str
    remedy: str

    def __str__(self) -> str:
        place = f"{self.path}: offset {self.offset}"
        return f"{self.severity}: {place}: {self.message}. What to do: {self.remedy}."

    def json(self) -> Json:
        return {"kind": "finding", **asdict(self)}


@dataclass(frozen=True, slots=True)
class Vote:
    path: str
    term: int
    voted_for: str | None

    def __str__(self) -> str:
        return f"term {self.term}, voted for {self.voted_for or 'no one'}  ({self.path})"

    def json(self) -> Json:
        return {"kind": "vote", **asdict(self)}


@dataclass(frozen=True, slots=True)
class SegmentRecord:
    path: str
    segment_id: int
    prev_index: int
    prev_term: int
    reset: bool
    size: int
    synced: int

    def __str__(self) -> str:
        start = "begins anew after" if self.reset else "follows"
        return (
            f"segment {self.segment_id}: {start} entry {self.prev_index} of term "
            f"{self.prev_term}, {self.size} bytes, {self.synced} synced  ({self.path})"
        )

    def json(self) -> Json:
        return {"kind": "segment", **asdict(self)}


@dataclass(frozen=True, slots=True)
class EntryRecord:
    path: str
    offset: int
    index: int
    term: int
    live: bool  # not superseded by a later segment
    payload: bytes

    def __str__(self) -> str:
        head = self.payload[:24].hex(" ")
        more = " ..." if len(self.payload) > 24 else ""
        void = "" if self.live else "  (superseded)"
        return (
            f"  {self.index:>10}  term {self.term:<6} at {self.offset:<10} "
            f"{len(self.payload):>8} bytes  {head}{more}{void}"
        )

    def json(self) -> Json:
        payload = base64.b64encode(self.payload).decode()
        fields = {**asdict(self), "size": len(self.payload), "payload": payload}
        return {"kind": "entry", **fields}


@dataclass(frozen=True, slots=True)
class Missing:
    """Entries that damage took; `last` None: the acknowledged end, and nobody here knows how far.
    In a cluster the start of the node repairs that."""

    first: int
    last: int | None

    def __str__(self) -> str:
        if self.last is None:
            return (
                f"lost: the acknowledged end of the log, from entry {self.first} on. A start "
                "beside other nodes restores it where they prove it; else the node votes for nobody until "
                "it has caught up."
            )
        return (
            f"lost: entries {self.first} to {self.last}. A start beside other nodes fetches them."
        )

    def json(self) -> Json:
        return {"kind": "missing", **asdict(self)}


Record: TypeAlias = Vote | SegmentRecord | EntryRecord | Finding | Missing


def holds_log(directory: str, disk: Disk) -> bool:
    """Whether a node ever wrote here: an empty log is sound, and so would any directory be."""
    names = disk.listdir(directory)
    return hardstate.FILE in names or bool(segment.segment_ids(names))


def records(directory: str, disk: Disk) -> Iterator[Record]:
    """Everything in order: vote, then each segment with its entries, then what is wrong."""
    names = disk.listdir(directory)
    if hardstate.FILE in names:
        try:
            term, voted_for = hardstate.load(disk, directory)
            yield Vote(os.path.join(directory, hardstate.FILE), term, voted_for)
        except JournalError:
            pass  # among the findings
    ids = segment.segment_ids(names)
    for segment_id in ids:
        try:
            scan, data = segment.scan(disk, directory, segment_id)
        except JournalError:
            continue  # among the findings
        header = scan.header
        yield SegmentRecord(scan.path, *_header_fields(scan), len(data), scan.synced)
        void_from = _void_from(disk, directory, ids, segment_id)
        for position, offset in enumerate(scan.ends[:-1]):
            found = frame.decode(data, offset, header.seed)
            live = header.prev_index + 1 + position < void_from
            payload = frame.payload_of(data, offset, found)
            yield EntryRecord(scan.path, offset, found.index, found.term, live, payload)
    yield from verify(directory, disk)


def missing(directory: str, disk: Disk) -> list[Missing]:
    """What a repair has to bring back."""
    try:
        found = salvage.survey(disk, directory)
    except JournalError:
        return []  # among the findings
    lost = [Missing(hole.first, hole.last) for hole in found.holes]
    if found.tail is not None:
        lost.append(Missing(found.end_index + 1, None))
    return lost


def verify(directory: str, disk: Disk) -> list[Finding]:
    """Judge the directory as a start would, but go on after the first damage.

    Segments that a running node compacts meanwhile are none of our business.
    """
    findings: list[Finding] = []
    names = disk.listdir(directory)
    ids = segment.segment_ids(names)
    try:
        path = os.path.join(directory, hardstate.FILE)
        if hardstate.FILE in names:
            with naming(path, 0, "reading term and vote"):
                hardstate.load(disk, directory)
        elif ids:
            raise JournalDamaged(path, 0, "the term and vote are missing", hardstate.REMEDY)
    except JournalError as damage:
        findings.append(_damaged(damage))
    try:
        ids, _ = recovery.live_ids(disk, directory, names)
    except JournalError as damage:
        if not _vanished(damage):
            findings.append(_damaged(damage))
    terms: Terms | None = None
    for segment_id in ids:
        last = segment_id == ids[-1]
        try:
            scan = _settled_scan(disk, directory, segment_id, last=last)
            recovery.judge(scan, last=last)
            terms = recovery.join(terms, scan)
        except JournalError as damage:
            terms = None  # what follows a damaged segment cannot be compared with it
            if not _vanished(damage) and _damaged(damage) not in findings:
                findings.append(_damaged(damage))
            continue
        if (torn := recovery.torn_tail(scan)) is not None:
            message = f"{torn.reason}; {torn.size} bytes of a write that did not finish"
            findings.append(Finding(Severity.TORN, torn.path, torn.offset, message, _NOTHING_TO_DO))
    return findings


def _settled_scan(disk: Disk, directory: str, segment_id: int, *, last: bool) -> Scan:
    """Look twice at a bad end: the node may have been writing there just now."""
    scan, _ = segment.scan(disk, directory, segment_id)
    if last and scan.damage is not None:
        scan, _ = segment.scan(disk, directory, segment_id)
    return scan


def _header_fields(scan: Scan) -> tuple[int, int, int, bool]:
    header = scan.header
    return header.segment_id, header.prev_index, header.prev_term, header.reset


def _void_from(disk: Disk, directory: str, ids: list[int], segment_id: int) -> int:
    """The first index of this segment that a later segment supersedes."""
    void_from = 1 << 64
    for later in ids[ids.index(segment_id) + 1 :]:
        try:
            header = segment.read_header(disk, directory, later)
        except JournalError:
            continue
        void_from = min(void_from, 0 if header.reset else header.prev_index + 1)
    return void_from


def _vanished(error: JournalError) -> bool:
    return isinstance(error.__cause__, FileNotFoundError)


def _damaged(damage: JournalError) -> Finding:
    return Finding(Severity.DAMAGED, damage.path, damage.offset, damage.message, damage.remedy)
