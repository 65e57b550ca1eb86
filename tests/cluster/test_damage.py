"""What is damaged is noted durably, set aside whole, and forgotten when it is repaired."""

from pathlib import Path

from raftflow.cluster import damage
from raftflow.cluster.damage import Part


def test_notes_add_up_until_they_are_cleared(tmp_path: Path) -> None:
    assert damage.noted(tmp_path) == {}
    damage.note(tmp_path, Part.STATE, "a record")
    damage.note(tmp_path, Part.LOG, "a frame")
    assert damage.noted(tmp_path) == {"state": "a record", "log": "a frame"}
    damage.clear(tmp_path)
    damage.clear(tmp_path)
    assert damage.noted(tmp_path) == {}


def test_a_note_that_rotted_trusts_nothing(tmp_path: Path) -> None:
    (tmp_path / damage.MARKER).write_bytes(b"\xff{")
    assert set(damage.noted(tmp_path)) == {"log", "state"}


def test_a_state_is_set_aside_with_its_wal(tmp_path: Path) -> None:
    for name in ("state.db", "state.db-wal", "node.json"):
        (tmp_path / name).write_text(name)
    damage.set_aside_state(tmp_path, "it is damaged")
    (folder,) = (tmp_path / damage.FOLDER).iterdir()
    assert sorted(path.name for path in folder.iterdir()) == ["state.db", "state.db-wal"]
    assert not (tmp_path / "state.db").exists()
    assert (tmp_path / "node.json").exists()


def test_log_files_are_kept_beside_those_that_replace_them(tmp_path: Path) -> None:
    segment = tmp_path / "1.segment"
    for content in ("damaged once", "damaged twice"):
        segment.unlink(missing_ok=True)
        segment.write_text(content)
        damage.keep_copies(tmp_path, [str(segment)])
    kept = sorted(path.read_text() for path in (tmp_path / damage.FOLDER).glob("*/1.segment"))
    assert kept == ["damaged once", "damaged twice"]
    assert segment.exists()
