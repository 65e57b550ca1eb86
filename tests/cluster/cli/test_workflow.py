import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from fake_api import Call, FakeApi, Reply, serving

from raftflow.cluster.cli.errors import CommandError, ServerError
from raftflow.cluster.cli.main import cli

RUN = {
    "workflow_id": "order-42",
    "run_id": "r1",
    "workflow_type": "Order",
    "status": "COMPLETED",
    "history_length": 4,
    "input": "in",
    "output": "done\n",
    "started_at": "2026-01-01T00:00:00.000000Z",
    "updated_at": "2026-01-01T00:00:01.000000Z",
    "closed_at": "2026-01-01T00:00:01.000000Z",
    "task_queue": "default",
    "steps": [
        {
            "step_name": "reserve",
            "sequence": 1,
            "kind": "ACTIVITY",
            "status": "COMPLETED",
            "attempts": 2,
            "output": "a\x1b[31mb",
        }
    ],
    "signals": [{"name": "approved", "payload": "yes", "taken_by": 2}],
    "waiting_on": [],
}


def run_cli(fake: FakeApi, *arguments: str, stdin: bytes | None = None) -> Result:
    command = [*arguments, "--address", fake.address]
    return CliRunner().invoke(cli, command, input=stdin, catch_exceptions=True)


def test_start_sends_what_was_given(tmp_path: Path) -> None:
    file = tmp_path / "input"
    file.write_bytes(b"\xff\x00")
    started = {"workflow_id": "o", "run_id": "r", "started": True}
    with serving(lambda _: (201, started)) as fake:
        result = run_cli(
            fake,
            *("workflow", "start", "Order", "--id", "a/b", "--input-file", str(file)),
            *("--execution-timeout", "2s", "--use-existing", "-o", "json"),
        )
    assert json.loads(result.output) == started
    (call,) = fake.calls
    assert call.target == "/api/workflows"
    assert call.body.pop("request_id")
    assert call.body == {
        "type": "Order",
        "workflow_id": "a/b",
        "input_base64": "/wA=",
        "execution_timeout_ms": 2000,
        "id_conflict_policy": "USE_EXISTING",
    }


def test_start_reads_standard_input_and_waits() -> None:
    def respond(call: Call) -> Reply:
        if call.method == "POST":
            return 201, {"workflow_id": "order-42", "run_id": "r1", "started": True}
        return 200, RUN

    with serving(respond) as fake:
        result = run_cli(
            fake, "workflow", "start", "Order", "--input-file", "-", "--wait", stdin="ü".encode()
        )
    assert result.stdout_bytes == b"done\n"
    assert fake.calls[0].body["input"] == "ü"


def test_input_twice_is_wrong_usage() -> None:
    with serving(lambda _: (500, {})) as fake:
        result = run_cli(fake, *["workflow", "start", "T", "--input", "a", "--input-file", "-"])
    assert result.exit_code == 2
    assert "--input and --input-file exclude each other" in result.stderr


def test_result_prints_the_bytes_exactly() -> None:
    run = {**RUN, "output": "", "output_base64": "/wBhCg=="}
    with serving(lambda _: (200, run)) as fake:
        assert run_cli(fake, "workflow", "result", "order-42").stdout_bytes == b"\xff\x00a\n"


def test_result_of_a_failed_run() -> None:
    run = {**RUN, "status": "FAILED", "output": None, "error": "charge\nfailed"}
    with serving(lambda _: (200, run)) as fake:
        result = run_cli(fake, "workflow", "result", "order-42")
    assert result.stdout_bytes == b""
    assert isinstance(result.exception, CommandError)
    assert str(result.exception) == r"order-42 ended FAILED: charge\nfailed"


@pytest.mark.parametrize(
    ("arguments", "target", "body"),
    [
        (
            ["signal", "a/b", "approved", "--payload", "yes"],
            "/api/workflows/a%2Fb/signal",
            {"name": "approved", "payload": "yes"},
        ),
        (["terminate", "x", "--reason", "r"], "/api/workflows/x/terminate", {"reason": "r"}),
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


def test_show_cannot_steer_the_terminal() -> None:
    with serving(lambda _: (200, RUN)) as fake:
        result = run_cli(fake, "workflow", "show", "order-42", "-o", "plain")
    assert r"a\x1b[31mb" in result.output
    assert "\x1b" not in result.output
    assert "1    reserve  ACTIVITY  COMPLETED  2" in result.output
    assert "approved  yes      2" in result.output


def test_list_formats() -> None:
    page = {"total": 7, "offset": 0, "limit": 50, "workflows": [RUN]}
    with serving(lambda _: (200, page)) as fake:
        plain = run_cli(
            fake, *["workflow", "list", "--status", "completed", "-q", "ord", "-o", "plain"]
        )
        table = run_cli(fake, *["workflow", "list", "-o", "table"])
        document = run_cli(fake, *["workflow", "list", "-o", "json"])
    assert fake.calls[0].target == "/api/workflows?status=COMPLETED&q=ord&limit=50&offset=0"
    assert plain.output.splitlines()[1].split() == [
        *("order-42", "Order", "COMPLETED", "4", RUN["started_at"], "r1")
    ]
    assert "1 to 1 of 7" in table.output
    assert json.loads(document.output) == page


def test_a_list_reads_well_in_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    run = RUN | {
        "workflow_id": "order-2026-01-01-4242",
        "run_id": "8867354db9e94f7e8f5da1dcf77c3171",
    }
    with serving(lambda _: (200, {"total": 1, "workflows": [run]})) as fake:
        table = run_cli(fake, "workflow", "list", "-o", "table")
    assert "order-2026-01-01-4242  Order  COMPLETED  4" in table.output


def test_history_reads_every_page() -> None:
    events = [
        {"event_id": n, "type": "SignalReceived", "time": "t", "name": "s"} for n in (1, 2, 3)
    ]

    def respond(call: Call) -> Reply:
        start = int(call.target.partition("from=")[2])
        return 200, {"history_length": 3, "events": events[start - 1 : start + 1]}

    with serving(respond) as fake:
        result = run_cli(fake, "workflow", "history", "x", "-o", "json")
    assert json.loads(result.output)["events"] == events
    assert len(fake.calls) == 2


def test_not_found() -> None:
    with serving(lambda _: (404, {"error": "unknown workflow"})) as fake:
        result = run_cli(fake, "workflow", "show", "x")
    assert isinstance(result.exception, ServerError)
    assert result.exception.status == 1
