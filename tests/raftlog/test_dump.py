"""What `raftflow log dump` and `raftflow log verify` say."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from corrupt import cut_tail, damage_entry, flip, records
from crash_disk import CrashDisk

from raftflow.raftlog import dump, segment
from raftflow.raftlog.disk import OsDisk
from raftflow.raftlog.dump import EntryRecord, Finding, SegmentRecord, Severity, Vote
from raftflow.raftlog.errors import JournalDamaged
from raftflow.raftlog.hardstate import HardState
from raftflow.raftlog.journal import Journal, LogEntry


def open_journal(directory: Path) -> Journal:
    return Journal.open(str(directory), disk=OsDisk(), segment_bytes=segment.HEADER_BYTES + 200)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Entries 1 to 7, of which 6 and 7 were superseded by an entry 6 of term 3."""
    HardState.open(str(tmp_path), OsDisk()).store(3, "n2")
    journal = open_journal(tmp_path)
    journal.append([LogEntry(index, 1, b"entry %d" % index) for index in range(1, 8)])
    journal.flush()
    journal.truncate_from(6)
    journal.append([LogEntry(6, 3, b"another")])
    journal.flush()
    journal.close()
    return tmp_path


def verify(directory: Path) -> list[Finding]:
    return dump.verify(str(directory), OsDisk())


def test_a_dump_shows_everything_in_order(directory: Path) -> None:
    found = list(dump.records(str(directory), OsDisk()))
    kinds = [Vote] + [SegmentRecord] + [EntryRecord] * 5 + [SegmentRecord] + [EntryRecord] * 2
    assert [type(record) for record in found] == [*kinds, SegmentRecord, EntryRecord]
    entries = [record for record in found if isinstance(record, EntryRecord)]
    shown = [(entry.index, entry.term, entry.live) for entry in entries]
    assert shown == [(i, 1, i < 6) for i in range(1, 8)] + [(6, 3, True)]
    assert [Path(entry.path) for entry in entries] == [r.path for r in records(directory)]
    assert [entry.offset for entry in entries] == [r.offset for r in records(directory)]


def test_records_are_text_and_json(directory: Path) -> None:
    found = list(dump.records(str(directory), OsDisk()))
    text = [str(record) for record in found]
    assert text[0].startswith("term 3, voted for n2")
    assert text[1].startswith("segment 1: follows entry 0 of term 0, ")
    assert "65 6e 74 72 79 20 31" in text[2]
    assert text[-3].endswith("(superseded)")
    lines = [json.loads(json.dumps(record.json())) for record in found]
    assert lines[0] == {
        "kind": "vote",
        "path": str(directory / "hardstate"),
        "term": 3,
        "voted_for": "n2",
    }
    assert lines[2]["kind"] == "entry"
    assert lines[2]["payload"] == "ZW50cnkgMQ=="
    assert lines[2]["size"] == 7


def test_a_good_directory_has_no_findings(directory: Path, tmp_path: Path) -> None:
    assert verify(directory) == []
    (tmp_path / "empty").mkdir()
    assert verify(tmp_path / "empty") == []


def test_a_running_node_can_be_looked_at(directory: Path) -> None:
    journal = open_journal(directory)
    journal.append([LogEntry(7, 3, b"new")])
    journal.flush()
    assert verify(directory) == []
    journal.close()


def test_every_damage_is_found_with_file_and_offset(directory: Path) -> None:
    first = damage_entry(directory, 2)
    last = cut_tail(directory, 1)
    hardstate = directory / "hardstate"
    hardstate.write_bytes(flip(hardstate.read_bytes(), 100))
    found = verify(directory)
    assert [(f.severity, Path(f.path)) for f in found] == [
        (Severity.DAMAGED, hardstate),
        (Severity.DAMAGED, first.path),
        (Severity.DAMAGED, last),
    ]
    assert found[1].offset == first.offset
    assert str(found[1]).startswith(f"damaged: {first.path}: offset {first.offset}: ")
    assert found[1].json()["kind"] == "finding"
    assert list(dump.records(str(directory), OsDisk()))[-3:] == found
    with pytest.raises(JournalDamaged):
        open_journal(directory)


def test_a_torn_tail_is_no_damage(directory: Path) -> None:
    path = records(directory)[-1].path
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + b"half a frame")
    (torn,) = verify(directory)
    assert (torn.severity, torn.offset) == (Severity.TORN, size)
    assert "the next start cuts it off" in torn.remedy
    open_journal(directory).close()
    assert verify(directory) == []


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_a_missing_segment_is_found_as_a_start_finds_it(directory: Path, gone: int) -> None:
    sorted(directory.glob("*" + segment.SUFFIX))[gone].unlink()
    if gone == 0:
        # Indistinguishable from a compaction; the state beside the journal knows better.
        assert verify(directory) == []
        return
    assert [finding.severity for finding in verify(directory)] == [Severity.DAMAGED]
    with pytest.raises(JournalDamaged):
        open_journal(directory)


def test_a_bad_header_does_not_hide_the_rest(directory: Path) -> None:
    paths = sorted(directory.glob("*" + segment.SUFFIX))
    paths[1].write_bytes(flip(paths[1].read_bytes(), 8 * 24))
    assert [(Path(f.path), f.offset) for f in verify(directory)] == [(paths[1], 0)]
    shown = [r for r in dump.records(str(directory), OsDisk()) if isinstance(r, EntryRecord)]
    assert [entry.index for entry in shown] == [1, 2, 3, 4, 5, 6]


class FailingDisk(OsDisk):
    """One segment cannot be read (EIO), or was compacted away after it was listed (ENOENT)."""

    def __init__(self, code: int) -> None:
        self.code = code

    def open(self, path: str) -> int:
        if path.endswith(f"1{segment.SUFFIX}"):
            raise OSError(self.code, os.strerror(self.code), path)
        return super().open(path)


def test_an_unreadable_segment_is_a_finding(directory: Path) -> None:
    (finding,) = dump.verify(str(directory), FailingDisk(errno.EIO))
    assert finding.path.endswith(f"1{segment.SUFFIX}")
    assert "Input/output error" in finding.message
    assert "check the disk" in finding.remedy


def test_a_segment_that_a_running_node_removes_is_not(directory: Path) -> None:
    disk = FailingDisk(errno.ENOENT)
    assert dump.verify(str(directory), disk) == []
    shown = [r for r in dump.records(str(directory), disk) if isinstance(r, EntryRecord)]
    assert [entry.index for entry in shown] == [6, 7, 6]


def test_a_missing_vote_is_found(directory: Path) -> None:
    (directory / "hardstate").unlink()
    (finding,) = verify(directory)
    assert finding.message == "the term and vote are missing"


def test_what_damage_took_is_told_by_entries() -> None:
    log = [LogEntry(index, 1, b"entry %d" % index) for index in range(1, 7)]
    disk = CrashDisk()
    journal = Journal.open("/lost", disk=disk)
    for entry in log:
        journal.append([entry])
        journal.flush()
    journal.close()
    (path, whole) = next((p, d) for p, d in disk.files().items() if p.endswith(".segment"))
    data = bytearray(whole)
    data[data.index(b"entry 3")] ^= 1
    data[data.index(b"entry 6")] ^= 1
    lost = dump.missing("/lost", CrashDisk({path: bytes(data)}))
    assert lost == [dump.Missing(3, 3), dump.Missing(6, None)]
    assert "entries 3 to 3" in str(lost[0])
    assert dump.missing("/lost", CrashDisk({path: whole})) == []
