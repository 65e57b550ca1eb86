from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from raftflow.cluster.consensus.identity import (
    DirectoryLock,
    IdentityError,
    claim_directory,
    open_identity,
)


def test_it_is_drawn_once_and_kept(tmp_path: Path) -> None:
    data = tmp_path / "data"
    DirectoryLock(str(data)).release()
    first = open_identity(str(data), cluster_id="shop", node_id="n1")
    assert open_identity(str(data), cluster_id="shop", node_id="n1") == first
    assert len(first.incarnation) == 32
    assert json.loads((data / "node.json").read_text())["format"] == 1


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "named"),
    [("other", "n1", "cluster_id 'shop'.* derived from peers"), ("shop", "n2", "node_id 'n1'")],
)
def test_a_foreign_directory_is_refused(
    tmp_path: Path, cluster_id: str, node_id: str, named: str
) -> None:
    open_identity(str(tmp_path), cluster_id="shop", node_id="n1")
    with pytest.raises(IdentityError, match=named):
        open_identity(str(tmp_path), cluster_id=cluster_id, node_id=node_id)


def test_a_directory_with_data_but_without_identity_is_refused(tmp_path: Path) -> None:
    (tmp_path / "raft").mkdir()
    with pytest.raises(IdentityError, match="no node"):
        open_identity(str(tmp_path), cluster_id="shop", node_id="n1")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": 1}', b'{"format":1,"a":2}'])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "node.json").write_bytes(content)
    with pytest.raises(IdentityError, match="damaged"):
        open_identity(str(tmp_path), cluster_id="shop", node_id="n1")


def test_a_later_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "node.json").write_text('{"format": 2}')
    with pytest.raises(IdentityError, match="format 2"):
        open_identity(str(tmp_path), cluster_id="shop", node_id="n1")


def test_one_process_a_directory(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from raftflow.cluster.consensus.identity import DirectoryLock\n"
        "lock = DirectoryLock(sys.argv[1])\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(IdentityError, match=f"in use by process {holder.pid}"):
            DirectoryLock(str(tmp_path))
    finally:
        holder.kill()
        holder.wait()
    DirectoryLock(str(tmp_path)).release()


def test_a_directory_that_cannot_be_used_is_refused_in_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for path, problem in ((file, "File exists"), (file / "below", "Not a directory")):
        with pytest.raises(IdentityError, match=f"{path} cannot be used: .*{problem}"):
            claim_directory(str(path), cluster_id="shop", node_id="n1")
