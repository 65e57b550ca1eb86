from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from raftflow.cluster.cli.cert import cert
from raftflow.cluster.cli.errors import CommandError


def run(*arguments: str | Path) -> Result:
    done = CliRunner().invoke(cert, [str(each) for each in arguments])
    if isinstance(done.exception, CommandError):
        raise done.exception
    return done


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "certs"
    assert run("init", made, "--cluster-id", "shop").exit_code == 0
    assert run("issue", made, "n1", "--host", "127.0.0.1", "--host", "n1.example").exit_code == 0
    return made


def rows(directory: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(run("show", directory, "-o", "json").output)[
        "certificates"
    ]
    return found


def test_what_was_made_is_shown(directory: Path) -> None:
    assert run("issue", directory, "reports", "--client", "--days", "10").exit_code == 0
    shown = rows(directory)
    assert [(row["for"], row["hosts"], row["days_left"]) for row in shown] == [
        ("raftflow:shop", [], 3649),
        ("raftflow:shop/n1", ["n1.example", "127.0.0.1"], 364),
        ("reports", [], 9),
    ]
    text = run("show", directory, "-o", "plain").output
    assert "raftflow:shop/n1" in text
    assert "n1.example, 127.0.0.1" in text


def test_nothing_is_overwritten_by_mistake(directory: Path) -> None:
    with pytest.raises(CommandError, match="cert rotate"):
        run("init", directory, "--cluster-id", "shop")
    with pytest.raises(CommandError, match="n1` replaces it"):
        run("issue", directory, "n1", "--host", "x")


def test_a_rotation_step_by_step(directory: Path) -> None:
    before = rows(directory)
    assert "Copy it to all nodes" in run("rotate", directory).output
    assert [row["for"] for row in rows(directory)][:2] == ["raftflow:shop"] * 2
    with pytest.raises(CommandError, match="n1: signed by an authority that would be dropped"):
        run("rotate", directory, "--drop-old")
    assert run("rotate", directory, "n1", "--days", "30").exit_code == 0
    assert run("rotate", directory, "--drop-old").exit_code == 0
    after = rows(directory)
    assert [row["for"] for row in after] == [row["for"] for row in before]
    assert [row["hosts"] for row in after] == [row["hosts"] for row in before]
    assert after[1]["days_left"] == 29
    assert {row["serial"] for row in after}.isdisjoint(row["serial"] for row in before)


@pytest.mark.parametrize(
    "arguments",
    [
        ("issue", "n2"),
        ("issue", "n2", "--client", "--host", "x"),
        ("issue", "n2", "--host", "x", "--days", "0"),
        ("rotate", "n1", "--drop-old"),
    ],
)
def test_wrong_usage(directory: Path, arguments: tuple[str, ...]) -> None:
    verb, *rest = arguments
    assert run(verb, directory, *rest).exit_code == 2


def test_a_host_that_is_none(directory: Path) -> None:
    with pytest.raises(CommandError, match="'a b' is neither a host name nor an address"):
        run("issue", directory, "n2", "--host", "a b")
    assert not (directory / "n2.key").exists()
