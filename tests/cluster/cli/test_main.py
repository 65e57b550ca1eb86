"""Exit statuses, which scripts rely on, of the real command."""

import re
import subprocess
import sys

import pytest
from fake_api import serving

pytestmark = pytest.mark.slow


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
    assert (plain.returncode, plain.stderr) == (1, "Error: unknown workflow\n")
    assert document.stderr == '{"error": "unknown workflow", "code": "NOT_FOUND"}\n'
