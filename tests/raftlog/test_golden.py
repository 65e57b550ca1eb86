"""The bytes on disk are a promise to every later release.

golden/v1 was written by `python tests/raftlog/test_golden.py tests/raftlog/golden/v1`. A change of
format gets a new version and a new directory; an old directory is never written again.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from raftflow.raftlog import segment
from raftflow.raftlog.disk import OsDisk
from raftflow.raftlog.hardstate import FILE, HardState
from raftflow.raftlog.journal import Journal, LogEntry

GOLDEN = Path(__file__).parent / "golden" / "v1"
SEGMENT_BYTES = segment.HEADER_BYTES + 100

ENTRIES = [
    LogEntry(41, 7, b"\0first"),
    LogEntry(42, 7, b"\0" + bytes(range(256))),
    LogEntry(43, 9, "\0größer".encode()),
]


def write(directory: Path) -> None:
    """After a snapshot at 40: entries 41 to 44, of which 43 and 44 are replaced."""
    journal = Journal.open(str(directory), disk=OsDisk(), segment_bytes=SEGMENT_BYTES)
    HardState.open(str(directory), OsDisk()).store(9, "node-2")
    journal.reset(40, 7)
    journal.append([*ENTRIES[:2], LogEntry(43, 8, b"\0gone")])
    journal.flush()
    journal.append([LogEntry(44, 8, b"\0gone too")])
    journal.flush()
    journal.truncate_from(43)
    journal.append(ENTRIES[2:])
    journal.flush()
    journal.close()


def test_writing_gives_the_golden_bytes(tmp_path: Path) -> None:
    write(tmp_path)
    names = sorted(path.name for path in GOLDEN.iterdir())
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert len(names) == 5
    for name in names:
        assert (tmp_path / name).read_bytes() == (GOLDEN / name).read_bytes(), name


def test_the_golden_bytes_are_read(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN, tmp_path / "raft")
    journal = Journal.open(str(tmp_path / "raft"), disk=OsDisk())
    state = HardState.open(str(tmp_path / "raft"), OsDisk())
    assert (state.term, state.voted_for) == (9, "node-2")
    assert (journal.prev_index, journal.prev_term) == (40, 7)
    assert journal.entries(41, 100, 1 << 20) == ENTRIES
    journal.close()


def test_the_header_is_where_the_drawing_says() -> None:
    data = (GOLDEN / f"{2:016d}{segment.SUFFIX}").read_bytes()
    assert data[:8] == b"RAFTFLOW"
    assert int.from_bytes(data[8:12], "little") == segment.VERSION == 1
    assert int.from_bytes(data[16:24], "little") == 2
    assert (GOLDEN / FILE).read_bytes()[:8] == b"RAFTVOTE"


if __name__ == "__main__":
    write(Path(sys.argv[1]))
