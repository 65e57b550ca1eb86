"""What can still be read of a damaged journal, and what is known of the rest."""

from __future__ import annotations

from crash_disk import CrashDisk
from repair_rig import DIRECTORY, opened

from raftflow.raftlog import segment
from raftflow.raftlog.journal import LogEntry
from raftflow.raftlog.salvage import Hole, Run, Survey, damaged_files, survey

LOG = [LogEntry(index, 1 + index // 5, b"entry %d" % index * 4) for index in range(1, 13)]


def files() -> dict[str, bytes]:
    disk = CrashDisk()
    journal = opened(disk)
    for entry in LOG:
        journal.append([entry])
        journal.flush()
    journal.close()
    return disk.files()


def surveyed(changed: dict[str, bytes]) -> Survey:
    return survey(CrashDisk(changed), DIRECTORY)


def spoiled(index: int, *, at: int = 0, size: int = 1) -> dict[str, bytes]:
    """The payload of this entry, from `at` on."""
    found = files()
    payload = LOG[index - 1].payload
    path = next(path for path in sorted(found) if payload in found[path])
    data = bytearray(found[path])
    begin = data.index(payload) + at
    data[begin : begin + size] = bytes(size)
    return {**found, path: bytes(data)}


def test_a_sound_journal_has_nothing_to_tell() -> None:
    found = surveyed(files())
    assert (found.wounds, found.holes, found.tail, found.doubtful) == ([], [], None, False)
    assert found.entries(1, 12, 1 << 20) == LOG
    assert found.runs() == [Run(1, 4, 1), Run(5, 9, 2), Run(10, 12, 3)]


def test_a_damaged_entry_is_a_hole_between_readable_ones() -> None:
    found = surveyed(spoiled(3))
    assert [(hole.first, hole.last) for hole in found.holes] == [(3, 3)]
    assert found.tail is None
    assert found.entries(1, 12, 1 << 20) == LOG[:2]
    assert found.entries(4, 12, 1 << 20) == LOG[3:]
    assert damaged_files(found) == [found.holes[0].path]


def test_a_damaged_frame_proves_by_its_checksum_what_it_held() -> None:
    found = surveyed(spoiled(3))
    hole = found.holes[0]
    end = found.fits(hole.path, hole.offset, LOG[2])
    assert end == hole.offset + 32 + len(LOG[2].payload)
    other = LogEntry(3, LOG[2].term, b"x" * len(LOG[2].payload))
    assert found.fits(hole.path, hole.offset, other) is None
    assert found.fits(hole.path, hole.offset, LogEntry(3, 9, LOG[2].payload)) is None


def test_a_damaged_checksum_leaves_the_entry_itself_as_proof() -> None:
    found = surveyed(spoiled(3, at=-28, size=2))
    hole = found.holes[0]
    assert found.fits(hole.path, hole.offset, LOG[2]) is not None


def test_a_missing_segment_leaves_a_hole_whose_end_its_successor_tells() -> None:
    whole = files()
    paths = sorted(path for path in whole if path.endswith(segment.SUFFIX))
    second = surveyed(whole).parts[2]
    wanted = (second.chunks[0].first, second.chunks[-1].last)
    found = surveyed({path: data for path, data in whole.items() if path != paths[1]})
    assert [(hole.first, hole.last) for hole in found.holes] == [wanted]
    assert found.doubtful
    assert found.points[wanted[1]] == LOG[wanted[1] - 1].term
    assert damaged_files(found) == []


def test_an_unreadable_header_costs_nothing() -> None:
    whole = files()
    path = segment.segment_path(DIRECTORY, 2)
    found = surveyed({**whole, path: bytes(4096) + whole[path][4096:]})
    assert found.holes == []
    assert found.entries(1, 12, 1 << 20) == LOG
    assert found.wounds


def test_a_damaged_acknowledged_end_is_told_from_a_torn_one() -> None:
    cut = spoiled(12, at=-32, size=60)
    assert surveyed(cut).tail is not None
    assert surveyed(cut).last_index == 11
    whole = files()
    last = max(path for path in whole if path.endswith(segment.SUFFIX))
    torn = surveyed({**whole, last: whole[last] + b"\x40\x00\x00\x00half a record"})
    assert torn.tail is None
    assert torn.wounds == []


def test_bytes_within_an_entry_are_not_taken_for_a_frame() -> None:
    """An entry may hold a whole frame of this very segment."""
    whole = files()
    inner = whole[segment.segment_path(DIRECTORY, 1)][4096:4200]
    disk = CrashDisk()
    journal = opened(disk, 1 << 20)
    for entry in [*LOG[:3], LogEntry(4, 1, b"head" + inner + b"tail"), LogEntry(5, 1, b"after")]:
        journal.append([entry])
        journal.flush()
    journal.close()
    path = segment.segment_path(DIRECTORY, 1)
    data = bytearray(disk.files()[path])
    data[data.index(b"head")] ^= 1
    found = surveyed({path: bytes(data)})
    assert found.holes == [Hole(4, 4, path, found.holes[0].offset)]
    assert found.entries(5, 5, 100)[0].payload == b"after"
