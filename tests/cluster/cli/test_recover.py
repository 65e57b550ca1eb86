"""`raftflow force-recover` asks before it does anything; tests/cluster/test_force_recover.py has
what it does."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from survivor import born

from raftflow.cluster.cli.main import cli


def recover(*arguments: str, typed: str = "") -> Result:
    return CliRunner().invoke(cli, ["force-recover", *arguments], input=typed)


def identity(directory: Path) -> dict[str, str]:
    found: dict[str, str] = json.loads((directory / "node.json").read_text())
    return found


def test_nothing_is_changed_before_the_id_is_typed(tmp_path: Path) -> None:
    born(tmp_path)
    before = identity(tmp_path)
    for typed in ("", "yes\n", "n2\n"):
        result = recover(str(tmp_path), typed=typed)
        assert result.exit_code != 0
    assert identity(tmp_path) == before
    done = recover(str(tmp_path), typed="n1\n")
    assert done.exit_code == 0, done.exception
    assert identity(tmp_path)["cluster_id"].startswith("shop-r1.")


def test_what_may_be_lost_is_said_first(tmp_path: Path) -> None:
    born(tmp_path)
    said = recover(str(tmp_path), "--yes-lose-data").output
    for words in (
        "node n1 of cluster shop, with n2, n3",
        "its log ends at entry 9 of term 2",
        "Nobody can tell which.",
        "also those whose calls got no answer",
        "No other node of shop may be started again with its data",
        "n1 is the only voter of cluster shop-r1.",
    ):
        assert words in said, words


def test_the_id_can_be_chosen(tmp_path: Path) -> None:
    born(tmp_path)
    recover(str(tmp_path), "--yes-lose-data", "--cluster-id", "shop-2027", "-o", "json")
    assert identity(tmp_path)["cluster_id"] == "shop-2027"
    bad = recover(str(tmp_path), "--yes-lose-data", "--cluster-id", "a b")
    assert "use 1 to 64 letters" in str(bad.output)


@pytest.mark.parametrize("name", ["", "nothing"])
def test_where_no_node_was_there_is_nothing_to_recover(tmp_path: Path, name: str) -> None:
    assert "director" in str(recover(str(tmp_path / name)).exception)


def test_who_answers_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as alive:
        born(tmp_path, n2=f"127.0.0.1:{alive.getsockname()[1]}")
        said = recover(str(tmp_path), typed="no\n").output
    assert "n2 answered on the Raft port just now" in said
    born(tmp_path / "other", n2="127.0.0.1:1")
    assert "on the Raft port" not in recover(str(tmp_path / "other"), typed="no\n").output
