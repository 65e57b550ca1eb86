"""What `raftflow workflow` does to runs."""

from typing import Any

import pytest
from click.testing import CliRunner, Result
from fake_api import FakeApi, serving

from raftflow.cluster.cli.main import cli


def run_cli(fake: FakeApi, *arguments: str) -> Result:
    return CliRunner().invoke(cli, [*arguments, "--address", fake.address])


@pytest.mark.parametrize(
    ("arguments", "target", "body"),
    [
        (
            ["signal", "a/b", "approved", "--payload", "yes"],
            "/api/workflows/a%2Fb/signal",
            {"name": "approved", "payload": "yes"},
        ),
        (["terminate", "x", "--reason", "r"], "/api/workflows/x/terminate", {"reason": "r"}),
        (
            ["cancel", "x", "--graceful", "--reason", "r"],
            "/api/workflows/x/cancel",
            {"reason": "r", "graceful": True},
        ),
        (["pause", "x", "--reason", "r"], "/api/workflows/x/pause", {"reason": "r"}),
        (["unpause", ".."], "/api/workflows/%2E%2E/unpause", {}),
        (["cancel", "x"], "/api/workflows/x/cancel", {"reason": ""}),
        (
            ["cancel", "x", "--run-id", "r1"],
            "/api/workflows/x/cancel",
            {"reason": "", "run_id": "r1"},
        ),
    ],
)
def test_steering(arguments: list[str], target: str, body: dict[str, Any]) -> None:
    with serving(lambda _: (200, {"status": "delivered"})) as fake:
        result = run_cli(fake, "workflow", *arguments, "-o", "plain")
    (call,) = fake.calls
    assert call.body.pop("request_id")
    assert (call.target, call.body) == (target, body)
    assert result.output == f"{arguments[1]}: delivered\n"


def test_the_short_help_of_cancel_does_not_hide_the_graceful_one() -> None:
    listed = CliRunner().invoke(cli, ["workflow", "--help"], terminal_width=80).output
    assert "End a run at once, or with --graceful as its code decides." in listed


def test_an_answer_reads_as_words() -> None:
    with serving(lambda _: (200, {"status": "cancel_requested"})) as fake:
        result = run_cli(fake, "workflow", "cancel", "x", "--graceful", "-o", "plain")
    assert result.output == "x: cancel requested\n"


@pytest.mark.parametrize(
    ("options", "query", "runs", "said"),
    [
        ([], "", 3, "a/b: 3 runs deleted\n"),
        (["--run-id", "r1"], "&run_id=r1", 1, "a/b: 1 run deleted\n"),
    ],
)
def test_delete(options: list[str], query: str, runs: int, said: str) -> None:
    with serving(lambda _: (200, {"status": "deleted", "runs": runs})) as fake:
        result = run_cli(fake, "workflow", "delete", "a/b", *options, "-o", "plain")
    (call,) = fake.calls
    assert call.method == "DELETE"
    path, _, given = call.target.partition("?request_id=")
    assert (path, given[32:]) == ("/api/workflows/a%2Fb", query)
    assert result.output == said
