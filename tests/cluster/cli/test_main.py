"""Exit statuses, which scripts rely on, of the real command."""

import json
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from fake_api import serving

from raftflow.cluster.cli.main import cli

pytestmark = pytest.mark.slow


GUIDE = Path(__file__).parents[3] / "docs" / "cli.md"


def raftflow(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "raftflow.cluster.cli.main", *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--version"], 0, ""),
        (["workflow", "lost"], 2, "No such command 'lost'"),
        (["workflow", "list", "--address", "x:y"], 2, "--address: 'x:y' is not host:port"),
        (["workflow", "list", "--address", "ftp://x:1"], 2, "'ftp://x:1' is not HOST:PORT, http"),
        (
            ["workflow", "list", "--address", "https://x:1", "--ca-file", "/nowhere"],
            2,
            "--ca-file /nowhere: No such file",
        ),
        (["workflow", "result", "x", "--timeout", "2"], 2, "'2' has no unit: write 2s or 2ms"),
        (["dev", "--data-dir", "/dev/null/x"], 2, "--data-dir /dev/null/x: Not a directory"),
        (["serve", "--lease", "soon"], 2, "lease_ms (from --lease-ms): 'soon' is not"),
        (["serve", "--config", "/nowhere"], 2, "cannot read /nowhere"),
        (["cluster", "status", "--address", "127.0.0.1:1"], 3, "127.0.0.1:1: Connection refused"),
        (["cluster", "status", "--address", ":1,:2"], 3, "127.0.0.1:2: Connection refused (does a"),
        (["dev", "node", "kill", "n1", "--data-dir", "/nowhere"], 1, "dev.json does not exist"),
    ],
)
def test_exit_statuses(arguments: list[str], status: int, said: str) -> None:
    done = raftflow(*arguments)
    assert (done.returncode, said in done.stderr) == (status, True), done.stderr


def test_who_needs_a_token_hears_how_to_give_one() -> None:
    with serving(lambda _: (401, {"error": "a token is needed"})) as fake:
        done = raftflow("workflow", "show", "x", "--address", fake.address)
    assert (done.returncode, done.stderr) == (
        1,
        "Error: a token is needed (on the command line: --token TOKEN or RAFTFLOW_TOKEN)\n",
    )


def test_help_tells_every_exit_status() -> None:
    for command, statuses in (((), (0, 1, 2, 3, 70, 78, 130)), (("serve",), (0, 2, 70, 78))):
        said = raftflow(*command, "--help").stdout.partition("Exit status:")[2]
        assert all(re.search(rf"\b{status}\b", said) for status in statuses), said


def test_errors_of_the_server() -> None:
    with serving(lambda _: (404, {"error": "unknown workflow", "code": "NOT_FOUND"})) as fake:
        command = ("workflow", "show", "x", "--address", fake.address)
        plain, document = raftflow(*command), raftflow(*command, "-o", "json")
        run_together = raftflow(*command, "-ojson")
    assert (plain.returncode, plain.stderr) == (1, "Error: unknown workflow\n")
    assert document.stderr == '{"error": "unknown workflow", "code": "NOT_FOUND"}\n'
    assert run_together.stderr == document.stderr


def test_other_errors_for_programs() -> None:
    for arguments in (("--output", "json"), ("--output=json",), ("-o", "json")):
        done = raftflow("log", "verify", "/", *arguments)
        assert json.loads(done.stderr)["error"].startswith("/ holds no log")
    assert raftflow("log", "verify", "/", "-o", "plain").stderr.startswith("Error: / holds no log")
    done = raftflow("serve", "--lease", "soon", "-o", "json")
    assert "'soon' is not" in json.loads(done.stderr)["error"]
    assert done.returncode == 2


def test_no_error_steers_a_terminal() -> None:
    hostile = "a\x1b[2J\u202eb"
    with serving(lambda _: (404, {"error": f"no run {hostile}"})) as fake:
        address = ("--address", fake.address)
        told = raftflow("workflow", "show", "x", *address), raftflow("workflow", hostile)
        json_told = raftflow("workflow", "show", "x", *address, "-o", "json")
    for done in (*told, raftflow("log", "verify", f"/{hostile}")):
        assert {"\x1b", "\u202e"}.isdisjoint(done.stderr)
        assert r"a\x1b[2J\u202eb" in done.stderr
    assert {"\x1b", "\u202e"}.isdisjoint(json_told.stderr)
    assert json.loads(json_told.stderr)["error"] == f"no run {hostile}"


def test_the_guide_has_every_command() -> None:
    def leaves(command: click.Command, path: str = "") -> list[str]:
        if not isinstance(command, click.Group):
            return [path]
        own = [path] if command.invoke_without_command else []
        below = [leaves(each, f"{path} {name}".strip()) for name, each in command.commands.items()]
        return own + [name for names in below for name in names]

    rows = GUIDE.read_text().partition("## Commands")[2].splitlines()
    named = [
        name
        for row in rows
        for name in re.findall(r"`([^`]+)`", row.split("|")[1] if "|" in row else "")
    ]
    assert sorted(named) == sorted(leaves(cli)), "docs/cli.md: bring its table in line"


@pytest.mark.parametrize(
    "words", [("workflow", "show"), ("why", "run"), ("audit", "list", "--target")]
)
def test_bytes_that_are_no_text_are_refused(words: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "raftflow.cluster.cli.main", *words, b"\xff\xfe"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, "is not UTF-8" in done.stderr) == (2, True), done.stderr


def test_a_disk_that_is_full_is_told() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "raftflow.cluster.cli.main", "completion", "bash"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=30,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, "Error: No space left on device\n")


def test_an_empty_id_is_not_the_default() -> None:
    done = raftflow("workflow", "start", "Order", "--id", "")
    assert (done.returncode, "'--id': is empty" in done.stderr) == (2, True), done.stderr


def test_wrong_usage_is_an_object_to_who_asked_for_json() -> None:
    done = raftflow("workflow", "start", "Order", "--memo", "{bad", "-o", "json")
    assert done.returncode == 2
    assert "is not JSON" in json.loads(done.stderr)["error"]
