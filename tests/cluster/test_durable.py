from pathlib import Path

import pytest

from raftflow.cluster.durable import replace_durably, sync_directory


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    replace_durably(str(path), b"first")
    replace_durably(str(path), b"second")
    assert path.read_bytes() == b"second"
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_a_directory_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        sync_directory(str(tmp_path / "none"))
