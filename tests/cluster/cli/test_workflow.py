import json
from pathlib import Path

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


def test_start_with_attributes_memo_and_signal() -> None:
    with serving(lambda _: (201, {"workflow_id": "o", "run_id": "r", "started": True})) as fake:
        result = run_cli(
            fake,
            *("workflow", "start", "Order", "--attr", "city=Köln", "--attr", "amount=12.50"),
            *("--attr", "vip=true", "--attr", 'zip="007"', "--attr", "list=[1]", "--attr", "a=b=c"),
            *("--memo", '{"by": ["ann"]}', "--signal", "go", "--signal-payload", "now"),
        )
    assert result.exit_code == 0, result.output
    body = fake.calls[0].body
    assert body["search_attributes"] == {
        "city": "Köln",
        "amount": 12.5,
        "vip": True,
        "zip": "007",
        "list": "[1]",
        "a": "b=c",
    }
    assert body["memo"] == {"by": ["ann"]}
    assert body["signal"] == {"name": "go", "payload": "now"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--attr", "city"], "'city' is not NAME=VALUE"),
        (["--attr", "=x"], "'=x' is not NAME=VALUE"),
        (["--memo", "[1]"], "is not a JSON object"),
        (["--memo", "{"], "is not JSON"),
        (["--signal-payload", "x"], "--signal-payload needs --signal"),
    ],
)
def test_wrong_usage_of_start(arguments: list[str], message: str) -> None:
    with serving(lambda _: (500, {})) as fake:
        result = run_cli(fake, "workflow", "start", "Order", *arguments)
    assert (result.exit_code, fake.calls) == (2, [])
    assert message in result.stderr


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


def test_show_cannot_steer_the_terminal() -> None:
    with serving(lambda _: (200, RUN)) as fake:
        result = run_cli(fake, "workflow", "show", "order-42", "-o", "plain")
    assert r"a\x1b[31mb" in result.output
    assert "\x1b" not in result.output
    assert "1    reserve  ACTIVITY  COMPLETED  2" in result.output
    assert "approved  yes      2" in result.output


def test_show_tells_what_a_run_has_to_do_with_others() -> None:
    steps = [
        {"step_name": "v2", "sequence": 1, "kind": "MARKER", "status": "COMPLETED"}
        | {"marker": "version", "output": "2"},
        {"step_name": "pack", "sequence": 2, "kind": "CHILD", "status": "SCHEDULED"}
        | {"workflow_type": "Pack", "workflow_id": "order-42/pack", "run_id": "c1"},
        {"step_name": "wait", "sequence": 3, "kind": "TIMER", "status": "CANCELLED"}
        | {"error": "lost a race"},
    ]
    run = RUN | {
        "steps": steps,
        "parent": {"workflow_id": "day", "run_id": "d1", "sequence": 7},
        "continued_from_run_id": "r0",
        "continued_to_run_id": "r2",
        "cancel_requested_at": "2026-01-01T00:00:00.500000Z",
        "cancel_reason": "no stock",
        "search_attributes": {"vip": True},
        "memo": {"by": "ann"},
    }
    with serving(lambda _: (200, run)) as fake:
        shown = run_cli(fake, "workflow", "show", "order-42", "-o", "plain").output
    for line in (
        "parent:           day run d1 step 7",
        "continued from:   r0",
        "continued to:     r2",
        "cancel requested: 2026-01-01T00:00:00.500000Z no stock",
        'attributes:       {"vip": true}',
        'memo:             {"by": "ann"}',
    ):
        assert line in shown.splitlines(), shown
    assert "version: 2" in shown
    assert "Pack order-42/pack" in shown
    assert "lost a race" in shown


def test_show_says_why_a_run_stands_still() -> None:
    """Nondeterminism: the sequence, what the code did, what history has."""
    error = (
        "nondeterministic workflow code at sequence 2: the code issued timer 'nap', "
        "but history has activity 'charge'"
    )
    run = RUN | {"status": "UNKNOWN", "error": error, "output": None}
    with serving(lambda _: (200, run)) as fake:
        shown = run_cli(fake, "workflow", "show", "order-42", "-o", "plain").output
    assert error in shown


def test_show_tells_what_the_last_attempt_failed_of() -> None:
    step = {**RUN["steps"][0], "status": "SCHEDULED", "last_error": "card\x1b declined"}
    wait = {"sequence": 1, "step_name": "charge", "detail": "attempt 2 offered again after a pause"}
    with serving(lambda _: (200, RUN | {"steps": [step], "waiting_on": [wait]})) as fake:
        shown = run_cli(fake, "workflow", "show", "order-1", "-o", "plain").output
    assert r"offered again after a pause (it failed: card\x1b declined)" in shown


def test_list_by_attribute() -> None:
    with serving(lambda _: (200, {"total": 0, "workflows": []})) as fake:
        run_cli(fake, *["workflow", "list", "--attr", "city=Bad Ems", "--attr", "vip=true"])
    assert fake.calls[0].target == (
        "/api/workflows?limit=50&offset=0&attr.city=Bad%20Ems&attr.vip=true"
    )


def test_list_formats() -> None:
    page = {"total": 7, "offset": 0, "limit": 50, "workflows": [RUN]}
    with serving(lambda _: (200, page)) as fake:
        plain = run_cli(
            fake, *["workflow", "list", "--status", "completed", "-q", "ord", "-o", "plain"]
        )
        table = run_cli(fake, *["workflow", "list", "-o", "table"])
        document = run_cli(fake, *["workflow", "list", "-o", "json"])
    assert fake.calls[0].target == "/api/workflows?limit=50&offset=0&status=COMPLETED&q=ord"
    assert plain.output.splitlines()[1].split() == [
        *("order-42", "Order", "COMPLETED", "4", RUN["started_at"], "r1")
    ]
    assert "1 to 1 of 7" in table.output
    assert json.loads(document.output) == page


def test_a_list_goes_on_where_a_page_is_short() -> None:
    """As when few of very many match."""
    pages = {
        "": {"total": 0, "total_exact": False, "workflows": [], "next_cursor": "90"},
        "90": {"total": 1, "total_exact": False, "workflows": [RUN], "next_cursor": "40"},
        "40": {"total": 1, "total_exact": False, "workflows": [RUN | {"run_id": "r2"}]},
    }

    def respond(call: Call) -> Reply:
        return 200, pages[call.target.partition("cursor=")[2].partition("&")[0]]

    with serving(respond) as fake:
        document = run_cli(fake, *["workflow", "list", "-q", "ord", "-o", "json"])
        one = run_cli(fake, *["workflow", "list", "--limit", "1", "-o", "json"])
    shown = json.loads(document.output)
    assert [run["run_id"] for run in shown["workflows"]] == ["r1", "r2"]
    assert "next_cursor" not in shown
    assert fake.calls[2].target == "/api/workflows?limit=49&cursor=40&q=ord"
    assert json.loads(one.output)["next_cursor"] == "40"


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
