"""`raftflow workflow show --follow`: a run until it is closed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result
from fake_api import Call, FakeApi, Reply, serving
from rich.console import Console

from raftflow.cluster.cli import run_view
from raftflow.cluster.cli.errors import Unreachable
from raftflow.cluster.cli.main import cli
from raftflow.cluster.cli.output import rendered

RUN = {
    "workflow_id": "order-42",
    "run_id": "r1",
    "workflow_type": "Order",
    "status": "RUNNING",
    "history_length": 2,
    "started_at": "2026-01-01T00:00:00.000000Z",
    "updated_at": "2026-01-01T00:00:00.000000Z",
    "task_queue": "default",
    "steps": [],
    "signals": [],
}
STEP = {"step_name": "pay\u202e", "sequence": 1, "kind": "ACTIVITY", "status": "COMPLETED"}


def event(number: int, kind: str, **more: Any) -> dict[str, Any]:
    return {"event_id": number, "type": kind, "time": "2026-01-01T00:00:01.000000Z", **more}


class Going:
    """A run that is two events further at each look."""

    def __init__(self, *, next_run: dict[str, Any] | None = None) -> None:
        self.events = [
            event(3, "SignalReceived", name="go\x1b[2J"),
            event(4, "StepScheduled", step_name="pay"),
            event(5, "StepCompleted", step_name="pay", output="ok"),
            event(6, "WorkflowContinuedAsNew" if next_run else "WorkflowCompleted"),
        ]
        self.length = 2
        self.next_run = next_run

    def __call__(self, call: Call) -> Reply:
        if "/history" in call.target:
            self.length = min(6, self.length + 2)
            seen = int(call.target.partition("from=")[2].split("&")[0])
            found = [each for each in self.events if seen <= each["event_id"] <= self.length]
            return (200, {"events": found}) if found else (204, b"")
        if self.length == 6 and self.next_run:
            return 200, self.next_run
        done = {"status": "COMPLETED", "output": "done\x07", "steps": [STEP]}
        return 200, RUN | {"history_length": self.length} | (done if self.length == 6 else {})


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_view, "PAUSE_S", 0.0)
    monkeypatch.setattr("raftflow.cluster.cli.client.EVENT_PAUSE_S", 0.0)


def follow(fake: FakeApi, output: str, *arguments: str) -> Result:
    command = ["workflow", "show", "order-42", "--follow", "-o", output, *arguments]
    result = CliRunner().invoke(cli, [*command, "--address", fake.address])
    assert result.exit_code == 0, result.output
    return result


def test_plain_goes_on_with_the_events() -> None:
    with serving(Going()) as fake:
        lines = follow(fake, "plain").output.splitlines()
    at = next(number for number, line in enumerate(lines) if "SignalReceived" in line)
    assert [line.split()[1] for line in lines[at:-1]] == [
        *("SignalReceived", "StepScheduled", "StepCompleted", "WorkflowCompleted")
    ]
    assert r"name=go\x1b[2J" in lines[at]
    assert lines[-1] == r"COMPLETED done\x07"


def test_json_is_the_run_as_it_is_then_a_line_each() -> None:
    with serving(Going()) as fake:
        runs = [json.loads(line) for line in follow(fake, "json").output.splitlines()]
    assert [run["history_length"] for run in runs] == [2, 4, 6]
    assert runs[-1]["status"] == "COMPLETED"


def test_a_terminal_keeps_the_end() -> None:
    with serving(Going()) as fake:
        shown = follow(fake, "table").output
    assert "COMPLETED" in shown.splitlines()[3]
    assert r"pay\u202e" in shown
    assert "\u202e" not in shown
    assert "\x07" not in shown


@pytest.mark.parametrize("output", ["plain", "json", "table"])
def test_who_does_not_answer_is_asked_again(output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("followed", "events_after"):
        monkeypatch.setattr(run_view, name, stumbling(getattr(run_view, name)))
    with serving(Going()) as fake:
        shown = follow(fake, output).output
    assert "COMPLETED" in shown
    assert output == "table" or "no node answered" in shown


def stumbling(function: Callable[..., Any]) -> Callable[..., Any]:
    """Nobody answers the first call."""
    outcomes: list[Exception] = [Unreachable("no node answered")]

    def call(*args: Any, **kwargs: Any) -> Any:
        if outcomes:
            raise outcomes.pop()
        return function(*args, **kwargs)

    return call


def test_it_goes_on_through_continue_as_new_unless_a_run_is_named() -> None:
    second = RUN | {"run_id": "r2", "status": "COMPLETED", "output": "all", "history_length": 9}
    with serving(Going(next_run=second)) as fake:
        lines = follow(fake, "plain").output.splitlines()
    assert lines[-1] == "it goes on as run r2"
    closed = RUN | {"status": "CONTINUED_AS_NEW"}
    with serving(Going(next_run=closed)) as fake:
        lines = follow(fake, "plain", "--run-id", "r1").output.splitlines()
    assert lines[-1] == "CONTINUED_AS_NEW"


def test_a_run_with_many_steps_fits_on_a_terminal() -> None:
    steps = [STEP | {"sequence": number} for number in range(1, 51)]
    [_, rows] = run_view.run_view(RUN | {"steps": steps}, recent=20)
    assert isinstance(rows, run_view.Rows)
    assert (len(rows.rows), rows.title) == (20, "steps, 30 before them")


PAST = {
    "attempt": 12,
    "worker_id": "packer\u202e-of-the-warehouse-in-the-north",
    "node": "n3",
    "started_at": "2026-01-01T00:00:01.000000Z",
    "ended_at": "2026-01-01T00:00:02.000000Z",
    "error": "no " + "x" * 200,
}


def test_attempts_before_the_last_have_their_worker_and_node() -> None:
    run = RUN | {"steps": [STEP | {"attempts": 30, "past_attempts": [PAST] * 25}]}
    [*_, rows] = run_view.run_view(run)
    assert isinstance(rows, run_view.Rows)
    assert rows.title == "attempts before the last"
    assert rows.rows[0][1:4] == (12, PAST["worker_id"], "n3")
    assert rows.rows[0][-1].startswith("no xxx")
    assert len(rows.rows) == 25
    [*_, rows] = run_view.run_view(run, recent=20)
    assert isinstance(rows, run_view.Rows)
    assert len(rows.rows) == 20


def test_long_errors_leave_room_for_who_made_them() -> None:
    [*_, rows] = run_view.run_view(RUN | {"steps": [STEP | {"past_attempts": [PAST]}]})
    console = Console(width=80, force_terminal=False)
    with console.capture() as said:
        console.print(rendered(rows))
    words = said.get().split()
    assert {"seq", "attempt", "worker", "node", "error", "n3", "12"} <= set(words)
    assert "2026-01-01T00:00:02.000000Z" in words
