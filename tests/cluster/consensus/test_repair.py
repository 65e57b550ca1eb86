"""Damaged logs come back from the peers exactly as they were, or the node abstains or waits: never
a wrong entry, never a lost committed one, never a vote that could elect a leader without one."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from crash_disk import CrashDisk
from hypothesis import given, note, settings
from hypothesis import strategies as st
from repair_rig import DIRECTORY, Patient, cure, entries_of, is_abstaining, opened

from raftflow.cluster.consensus.proof import Contradiction, Point
from raftflow.raftlog import frame, segment
from raftflow.raftlog.errors import JournalDamaged
from raftflow.raftlog.journal import LogEntry


def records_of(disk: CrashDisk) -> list[tuple[str, int, int]]:
    """(file, index, term) of all frames on this disk, superseded ones too."""
    found = []
    for segment_id in segment.segment_ids(disk.listdir(DIRECTORY)):
        scan, data = segment.scan(disk, DIRECTORY, segment_id)
        for offset in scan.ends[:-1]:
            item = frame.decode(data, offset, scan.header.seed)
            found.append((scan.path[-9:-8], item.index, item.term))
    return found


NAMES = ("a", "b", "c")


def log_of(terms: list[int], *, tag: str = "") -> list[LogEntry]:
    return [
        LogEntry(index, term, f"{index}.{term}{tag}".encode() * (1 + index % 4))
        for index, term in enumerate(terms, 1)
    ]


def written(
    entries: list[LogEntry], *, group: int = 2, stale: list[LogEntry] | None = None
) -> CrashDisk:
    """A disk with this log in several segments; `stale` was there before and was cut off."""
    disk = CrashDisk()
    journal = opened(disk)
    stale = stale or []
    if stale:
        begin = stale[0].index
        journal.append(entries[: begin - 1])
        journal.flush()
        journal.append(stale)
        journal.flush()
        journal.truncate_from(begin)
        entries = entries[begin - 1 :]
    for start in range(0, len(entries), group):
        journal.append(entries[start : start + group])
        journal.flush()
    journal.close()
    return disk


@dataclass(frozen=True)
class Damage:
    node: int
    kind: str
    file: float
    place: float
    bit: int

    def apply(self, disk: CrashDisk) -> CrashDisk:
        files = disk.files()
        paths = sorted(path for path in files if path.endswith(".segment"))
        path = paths[min(int(self.file * len(paths)), len(paths) - 1)]
        data = bytearray(files[path])
        at = min(int(self.place * len(data)), len(data) - 1)
        if self.kind == "flip":
            # Mostly where something stands, and not in the empty rest of the header.
            at = at if at >= 4096 or at % 512 < 36 else 4096 + at % max(1, len(data) - 4096)
            at = min(at, len(data) - 1)
            data[at] ^= 1 << self.bit
        elif self.kind == "cut":
            del data[at:]
        elif self.kind == "zero":
            begin = at // 64 * 64
            size = min(64, len(data) - begin)
            data[begin : begin + size] = bytes(size)
        elif self.kind == "head":
            data[:4096] = bytes(min(4096, len(data)))
        if self.kind == "gone" and len(paths) > 1:
            del files[path]  # a log without any file is the driver's business
        else:
            files[path] = bytes(data)
        return CrashDisk(files)


damages = st.builds(
    Damage,
    node=st.integers(0, 2),
    kind=st.sampled_from(["flip", "flip", "cut", "zero", "head", "gone"]),
    file=st.floats(0, 1, exclude_max=True),
    place=st.floats(0, 1, exclude_max=True),
    bit=st.integers(0, 7),
)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[list[LogEntry]], int, list[CrashDisk]]:
    """Three logs that Raft could have left, and how far they are committed."""
    terms = sorted(draw(st.lists(st.integers(1, 4), min_size=4, max_size=14)))
    truth = log_of(terms)
    lengths = [draw(st.integers(2, len(truth))) for _ in NAMES]
    lengths[draw(st.integers(0, 2))] = len(truth)
    committed = sorted(lengths)[1]
    logs, disks = [], []
    for length in lengths:
        log, stale = truth[:length], None
        if draw(st.booleans()) and length > 2:
            # It had entries of a deposed leader, which were cut off again.
            begin = draw(st.integers(2, length))
            old = truth[begin - 2].term
            if old < truth[begin - 1].term and committed < length + 1:
                stale = [
                    LogEntry(begin + n, old, b"stale %d" % n)
                    for n in range(draw(st.integers(1, 3)))
                ]
        logs.append(log)
        disks.append(written(log, group=draw(st.integers(1, 3)), stale=stale))
    return logs, committed, disks


def judge(patients: list[Patient], logs: list[list[LogEntry]], committed: int) -> None:
    """Everything that repair promises, for nodes that are whole again."""
    ends = {}
    for patient, log in zip(patients, logs, strict=True):
        journal = opened(patient.disk)
        found = entries_of(journal)
        wanted = [entry for entry in log if journal.prev_index < entry.index]
        if is_abstaining(patient):
            common = [entry for entry in found if entry in log]
            stale = [entry for entry in found if entry not in log]
            assert all(b"stale" in entry.payload for entry in stale), (found, log)
            assert found[: len(common)] == common
        else:
            # A lost beginning looks like a compaction: such a node awaits a copy of the state.
            assert found == wanted
            assert journal.last_index == log[-1].index
            ends[patient.name] = (journal.last_term, journal.last_index, patient)
        journal.close()
    for term, last, candidate in ends.values():
        votes = sum((term, last) >= (t, i) for t, i, _ in ends.values())
        if votes >= 2:
            assert last >= committed, f"{candidate.name} could lead without entry {committed}"


@given(clusters(), st.lists(damages, min_size=1, max_size=3, unique_by=lambda d: d.node))
@settings(max_examples=300, deadline=None)
@pytest.mark.slow
def test_any_damage_of_one_place_per_node_is_repaired_or_safe(
    cluster: tuple[list[list[LogEntry]], int, list[CrashDisk]], wounds: list[Damage]
) -> None:
    logs, committed, disks = cluster
    originals = list(disks)
    for wound in wounds:
        disks[wound.node] = wound.apply(disks[wound.node])
    patients = [Patient(name, disk) for name, disk in zip(NAMES, disks, strict=True)]
    for each, before in zip(patients, originals, strict=True):
        note(f"{each.name}: {records_of(before)}")
    note(f"{wounds} {[[e.term for e in log] for log in logs]} {committed}")
    assert cure(patients) == []
    judge(patients, logs, committed)


def test_a_different_committed_record_on_each_node_comes_back_from_the_others() -> None:
    log = log_of([1, 1, 2, 2, 2, 3, 3, 3, 4, 4])
    patients = []
    for name, index in zip(NAMES, (3, 6, 9), strict=True):
        disk = written(log)
        files = disk.files()
        path, at = place(files, log[index - 1].payload)
        data = bytearray(files[path])
        data[at] ^= 1
        patients.append(Patient(name, CrashDisk({**files, path: bytes(data)})))
    assert cure(patients) == []
    for patient in patients:
        assert patient.abstains is False
        assert entries_of(opened(patient.disk)) == log
        assert patient.set_aside


def place(files: dict[str, bytes], payload: bytes) -> tuple[str, int]:
    return next(
        (path, data.index(payload)) for path, data in sorted(files.items()) if payload in data
    )


def test_it_waits_for_the_peer_that_may_have_what_is_lost() -> None:
    log = log_of([1] * 8)
    files = written(log).files()
    path, at = place(files, log[3].payload)
    data = bytearray(files[path])
    data[at - 20 : at + 2] = bytes(22)
    hurt = Patient("a", CrashDisk({**files, path: bytes(data)}))
    behind = Patient("b", written(log[:2]))
    waits = cure([hurt, behind, Patient("c", written(log), away=True)], rounds=60)
    assert len(waits) == 1
    assert "c may have them" in waits[0]
    with pytest.raises(JournalDamaged):
        opened(hurt.disk)


def test_what_nobody_proves_is_cut_and_the_node_abstains() -> None:
    log = log_of([1] * 8)
    files = written(log).files()
    path = max(files)
    data = bytearray(files[path])
    data[-60:] = bytes(60)
    patients = [
        Patient("a", CrashDisk({**files, path: bytes(data)})),
        Patient("b", written(log)),
        Patient("c", written(log[:3])),
    ]
    assert cure(patients) == []
    assert patients[0].abstains
    found = entries_of(opened(patients[0].disk))
    assert found == log[: len(found)]
    assert len(found) < len(log)
    assert [each.abstains for each in patients[1:]] == [False, False]


def test_entries_that_the_state_holds_are_given_up_when_nobody_answers() -> None:
    log = log_of([1] * 12)
    files = written(log).files()
    path, at = place(files, log[1].payload)
    data = bytearray(files[path])
    data[at] ^= 4
    alone = Patient("a", CrashDisk({**files, path: bytes(data)}), applied=Point(6, 1))
    others = [Patient(name, CrashDisk(), away=True) for name in "bc"]
    assert cure([alone, *others]) == []
    journal = opened(alone.disk)
    assert (journal.prev_index, journal.last_index) == (6, 12)
    assert entries_of(journal) == log[6:]


def test_a_log_that_contradicts_its_peers_is_not_touched() -> None:
    log = log_of([1, 1, 2, 2, 3, 3, 3])
    other = [*log[:2], LogEntry(3, 1, b"x"), *log[3:]]
    files = written(log).files()
    path, at = place(files, log[4].payload)
    data = bytearray(files[path])
    data[at] ^= 4
    hurt = Patient("a", CrashDisk({**files, path: bytes(data)}))
    with pytest.raises(Contradiction):
        cure([hurt, Patient("b", written(other)), Patient("c", written(other))])


def test_an_interrupted_repair_is_taken_up_again() -> None:
    log = log_of([1, 1, 1, 2, 2, 2, 3, 3, 3, 3])
    files = written(log).files()
    paths = sorted(path for path in files if segment.SUFFIX in path)
    torn = {path: data[:-5] if path in paths[:3] else data for path, data in files.items()}
    for stop in range(1, 40):
        disk = CrashDisk(torn)
        disk.stop_at(stop)
        hurt = Patient("a", disk)
        others = [Patient(name, written(log)) for name in "bc"]
        try:
            cure([hurt, *others])
        except Exception:  # noqa: BLE001  the machine went off
            hurt = Patient("a", CrashDisk(disk.killed().files()))
            others = [Patient(name, written(log)) for name in "bc"]
            assert cure([hurt, *others]) == []
        assert entries_of(opened(CrashDisk(hurt.disk.files()))) == log
    assert DIRECTORY in paths[0]
