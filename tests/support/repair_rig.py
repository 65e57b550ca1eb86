"""Nodes with damaged logs that repair themselves from one another, in one thread."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field

from crash_disk import CrashDisk

from raftflow.cluster.consensus.proof import LogMap, Point, map_for_others
from raftflow.cluster.consensus.repair import (
    Answer,
    AskEntries,
    AskMaps,
    Pause,
    RepairJob,
    Request,
    repair,
)
from raftflow.raftlog import abstaining
from raftflow.raftlog.journal import Journal, LogEntry
from raftflow.raftlog.salvage import Survey, survey

DIRECTORY = "/raft"


def opened(disk: CrashDisk, segment_bytes: int = 4096 + 200) -> Journal:
    return Journal.open(DIRECTORY, disk=disk, segment_bytes=segment_bytes)


def entries_of(journal: Journal) -> list[LogEntry]:
    if journal.last_index == journal.prev_index:
        return []
    return journal.entries(journal.prev_index + 1, journal.last_index + 1, 1 << 30)


@dataclass
class Patient:
    """One node's disk and what it serves while it repairs."""

    name: str
    disk: CrashDisk
    applied: Point = field(default_factory=lambda: Point(0, 0))
    away: bool = False
    survey: Survey | None = None
    set_aside: list[str] = field(default_factory=list)
    abstains: bool | None = None

    def start(self, peers: Sequence[str]) -> Generator[Request, Answer, bool]:
        def surveyed(found: Survey) -> None:
            self.survey = found

        return repair(
            RepairJob(
                disk=self.disk,
                directory=DIRECTORY,
                peers=peers,
                applied=self.applied,
                segment_bytes=4096 + 200,
                set_aside=self.set_aside.extend,
                surveyed=surveyed,
            )
        )

    def map(self) -> LogMap:
        return map_for_others(survey(self.disk, DIRECTORY))

    def read(self, wanted: AskEntries) -> list[LogEntry]:
        found = survey(self.disk, DIRECTORY)
        if wanted.anchor and found.term(wanted.anchor.index) != wanted.anchor.term:
            return []
        return found.entries(wanted.first, wanted.last, 150)


def cure(patients: Sequence[Patient], *, rounds: int = 400) -> list[str]:
    """All repair at once. Returns why those that did not get whole still wait."""
    here = {each.name: each for each in patients if not each.away}
    names = [each.name for each in patients]
    steps = {each.name: each.start([n for n in names if n != each.name]) for each in here.values()}
    answers: dict[str, Answer] = dict.fromkeys(steps)
    waits: dict[str, str] = {}
    clock = 0.0
    for _ in range(rounds):
        for name, running in list(steps.items()):
            try:
                request = running.send(answers[name])
            except StopIteration as stop:
                here[name].abstains = stop.value
                del steps[name]
                waits.pop(name, None)
                continue
            if isinstance(request, Pause):
                waits[name] = request.reason
            clock += 0.05
            answers[name] = answer(request, name, here, clock)
        if not steps:
            break
    return list(waits.values())


def answer(request: Request, name: str, here: Mapping[str, Patient], clock: float) -> Answer:
    if isinstance(request, AskMaps):
        return {other: each.map() for other, each in here.items() if other != name}
    if isinstance(request, AskEntries):
        return here[request.peer].read(request)
    return clock


def is_abstaining(patient: Patient) -> bool:
    return abstaining.marked(patient.disk, DIRECTORY)
