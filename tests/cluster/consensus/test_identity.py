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
    [("other", "n1", "cluster_id 'shop'.* keeps its id"), ("shop", "n2", "node_id 'n1'")],
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


def test_every_start_is_counted(tmp_path: Path) -> None:
    for boots in (1, 2, 3):
        claim = claim_directory(str(tmp_path), cluster_id="shop", node_id="n1")
        claim.lock.release()
        assert claim.identity.boots == boots
        assert json.loads((tmp_path / "node.json").read_text())["boots"] == boots


def test_a_directory_of_an_earlier_release_has_counted_none(tmp_path: Path) -> None:
    fields = {"format": 1, "cluster_id": "shop", "node_id": "n1", "incarnation": "f" * 32}
    (tmp_path / "node.json").write_text(json.dumps(fields))
    claim = claim_directory(str(tmp_path), cluster_id="shop", node_id="n1")
    claim.lock.release()
    assert (claim.identity.boots, claim.identity.incarnation) == (1, "f" * 32)


def test_a_directory_keeps_the_cluster_id_it_was_born_with(tmp_path: Path) -> None:
    open_identity(str(tmp_path), cluster_id="born", node_id="n1", only_at_birth=True)
    again = open_identity(str(tmp_path), cluster_id="derived", node_id="n1", only_at_birth=True)
    assert again.cluster_id == "born"


def test_a_new_directory_must_be_told_its_cluster(tmp_path: Path) -> None:
    with pytest.raises(IdentityError, match="--cluster-id"):
        open_identity(str(tmp_path), cluster_id="", node_id="n4", only_at_birth=True)


def test_what_was_set_aside_does_not_hinder_a_new_start(tmp_path: Path) -> None:
    (tmp_path / "damaged-20260101T000000Z").mkdir()
    assert open_identity(str(tmp_path), cluster_id="shop", node_id="n1").incarnation


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
    for path in (file, file / "below"):
        with pytest.raises(IdentityError, match=f"{path} cannot be used: {file}: File exists"):
            claim_directory(str(path), cluster_id="shop", node_id="n1")
