from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from raftflow.cluster.cli.cert import cert
from raftflow.cluster.cli.errors import CommandError

GUIDE = Path(__file__).parents[3] / "docs" / "security.md"


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
        ("rotate", "n1", "--cluster-id", "other"),
        ("rotate", "--drop-old", "--cluster-id", "other"),
    ],
)
def test_wrong_usage(directory: Path, arguments: tuple[str, ...]) -> None:
    verb, *rest = arguments
    assert run(verb, directory, *rest).exit_code == 2


def test_a_host_that_is_none(directory: Path) -> None:
    with pytest.raises(CommandError, match="'a b' is neither a host name nor an address"):
        run("issue", directory, "n2", "--host", "a b")
    assert not (directory / "n2.key").exists()


@pytest.mark.parametrize(
    ("host", "hint"),
    [
        ("münchen", "in DNS it is xn--mnchen-3ya; name that"),
        ("node1.bücher.example", "in DNS it is node1.xn--bcher-kva.example; name that"),
        ("straße.example", "name it as it stands in DNS, xn--..."),
        ("mün chen", "neither a host name nor an address: name it as it stands in DNS"),
        ("mün..chen", "neither a host name nor an address"),
    ],
)
def test_a_host_beyond_ascii_is_told_its_name_in_dns(directory: Path, host: str, hint: str) -> None:
    with pytest.raises(CommandError, match=re.escape(hint)):
        run("issue", directory, "n2", "--host", host)


def test_the_commands_of_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In their order, as they stand; what it says "for every node" of is done for every node."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```\w*\n(.*?)^```$", GUIDE.read_text(), re.S | re.M)
    lines = [line for block in blocks for line in block.splitlines() if "raftflow cert" in line]
    commands = [shlex.split(line, comments=True)[2:] for line in lines]
    assert {verb for verb, *_ in commands} == set(cert.commands)
    for words in commands:
        if "--drop-old" in words:
            for each in ("n2", "n3"):
                assert run("rotate", "certs", each).exit_code == 0
        assert run(*words).exit_code == 0, words
    assert [row["for"] for row in rows(tmp_path / "certs")] == [
        "raftflow:shop-r1.5f2c0a",
        "raftflow:shop",
        "raftflow:shop-r1.5f2c0a/n1",
        *(f"raftflow:shop/n{each}" for each in (2, 3, 4)),
    ]
