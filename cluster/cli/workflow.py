"""`raftflow workflow`: start and watch runs."""

from pathlib import Path
from typing import Any

import click

from raftflow.cluster.cli import offers
from raftflow.cluster.cli.client import (
    CLOSED_STATUSES,
    Client,
    payload_bytes,
    wait_until_closed,
    workflow_path,
)
from raftflow.cluster.cli.errors import CommandError
from raftflow.cluster.cli.options import (
    ATTRIBUTE,
    DURATION,
    MEMO,
    PAIR,
    client_options,
    not_empty,
    payload_option,
    run_id_option,
    workflow_id_argument,
)
from raftflow.cluster.cli.output import Printer, write_exactly
from raftflow.cluster.cli.progress import watching
from raftflow.cluster.cli.run_view import event_details, follow_run, run_view
from raftflow.cluster.cli.steering import STEERING
from raftflow.cluster.printable import printable

STATUSES = (*("RUNNING", "WAITING", "PAUSED", "UNKNOWN"), *sorted(CLOSED_STATUSES))


@click.group()
def workflow() -> None:
    """Start, watch and steer workflows."""


for command in STEERING:
    workflow.add_command(command)


@workflow.command()
@click.argument("workflow_type", metavar="TYPE", shell_complete=offers.workflow_types)
@click.option(
    "--id",
    "workflow_id",
    default="",
    callback=not_empty,
    help="Workflow id. Default: made by the server.",
)
@click.option("--input", "text", help="Input, passed on byte for byte.")
@click.option(
    "--input-file",
    type=click.Path(path_type=Path, allow_dash=True, dir_okay=False),
    help="Read the input from this file; - is standard input.",
)
@click.option(
    "--task-queue", default="", help="Queue whose workers run it.", shell_complete=offers.queues
)
@click.option(
    "--attr",
    "attributes",
    type=ATTRIBUTE,
    multiple=True,
    help="Search attribute; the value is JSON where it can be, else text. May be repeated.",
)
@click.option("--memo", type=MEMO, help="A JSON object that is shown with the run.")
@click.option("--signal", "signal_name", help="Signal that the run, new or open, gets with it.")
@click.option("--signal-payload", help="Payload of that signal, passed on byte for byte.")
@click.option("--execution-timeout", type=DURATION, help="Time after which the run is TIMED_OUT.")
@click.option(
    "--id-reuse-policy",
    type=click.Choice(["REJECT_DUPLICATE", "ALLOW_DUPLICATE", "ALLOW_DUPLICATE_FAILED_ONLY"]),
    help="Whether an id whose run has closed may start again. Default: REJECT_DUPLICATE.",
)
@click.option("--use-existing", is_flag=True, help="If the id is running, return that run.")
@click.option("--wait", is_flag=True, help="Wait until it is closed and print its output.")
@client_options
def start(
    client: Client,
    printer: Printer,
    workflow_type: str,
    workflow_id: str,
    text: str | None,
    input_file: Path | None,
    task_queue: str,
    attributes: tuple[tuple[str, Any], ...],
    memo: dict[str, Any] | None,
    signal_name: str | None,
    signal_payload: str | None,
    execution_timeout: int | None,
    id_reuse_policy: str | None,
    use_existing: bool,
    wait: bool,
) -> None:
    """Start a workflow of TYPE.

    \b
    Example:
      raftflow workflow start OrderSaga --id order-42 --input '{"sku": "book"}' --wait
    """
    body: dict[str, Any] = {"type": workflow_type}
    optional = {
        "workflow_id": workflow_id,
        "task_queue": task_queue,
        "execution_timeout_ms": execution_timeout,
        "id_reuse_policy": id_reuse_policy,
        "id_conflict_policy": "USE_EXISTING" if use_existing else None,
        "search_attributes": dict(attributes) or None,
        "memo": memo,
        "signal": _signal(signal_name, signal_payload),
    }
    body |= {name: value for name, value in optional.items() if value not in (None, "")}
    body |= payload_option("input", text, input_file)
    started = client.post("/api/workflows", body)
    if wait:
        # Without a run id the wait goes on through continue-as-new.
        _finish(client, printer, started["workflow_id"], "", None)
    elif printer.format == "json":
        printer.document(started)
    else:
        printer.fields(
            {
                "workflow id": started["workflow_id"],
                "run id": started["run_id"],
                "started": "yes" if started["started"] else "no, it was there already",
            }
        )


def _signal(name: str | None, payload: str | None) -> dict[str, str] | None:
    if name is None:
        if payload is not None:
            raise click.UsageError("--signal-payload needs --signal")
        return None
    return {"name": name} | payload_option("payload", payload, None)


@workflow.command(name="list")
@click.option(
    "--status",
    default="",
    help="Only this status, for example RUNNING.",
    shell_complete=lambda _context, _parameter, begun: offers.plain(STATUSES, begun.upper()),
)
@click.option("-q", "--query", default="", help="Part of the id or type, in any case.")
@click.option(
    "--type",
    "workflow_type",
    default="",
    help="Only this workflow type.",
    shell_complete=offers.workflow_types,
)
@click.option(
    "--task-queue", default="", help="Only this task queue.", shell_complete=offers.queues
)
@click.option(
    "--attr", "attributes", type=PAIR, multiple=True, help="Only runs with this search attribute."
)
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@click.option("--offset", type=click.IntRange(0), default=0, help="Skip the newest so many.")
@client_options
def list_(
    client: Client,
    printer: Printer,
    status: str,
    query: str,
    workflow_type: str,
    task_queue: str,
    attributes: tuple[tuple[str, str], ...],
    limit: int,
    offset: int,
) -> None:
    """List runs, newest first."""
    filters = {
        "status": status.upper(),
        "q": query,
        "type": workflow_type,
        "task_queue": task_queue,
        **{f"attr.{name}": value for name, value in attributes},
    }
    page = client.get("/api/workflows", limit=limit, offset=offset, **filters)
    runs = page["workflows"]
    # Of few among very many a node finds some, and says where to go on.
    while not offset and len(runs) < limit and (cursor := page.pop("next_cursor", "")):
        rest = limit - len(runs)
        more = client.get("/api/workflows", limit=rest, cursor=cursor, **filters)
        runs += more["workflows"]
        page |= {name: value for name, value in more.items() if name == "next_cursor"}
    if printer.format == "json":
        printer.document(page)
        return
    # A terminal of 80 columns has no room for run ids beside what people look for.
    count = 5 if printer.format == "table" else 6
    printer.rows(
        ("workflow id", "type", "status", "events", "started", "run id")[:count],
        [
            (
                run["workflow_id"],
                run["workflow_type"],
                run["status"],
                run["history_length"],
                printer.moment(run["started_at"]),
                run["run_id"],
            )[:count]
            for run in runs
        ],
    )
    if len(runs) < page["total"] and printer.format == "table":
        many = f"{page['total']}{'' if page.get('total_exact', True) else '+'}"
        printer.note(f"{offset + 1} to {offset + len(runs)} of {many}")


@workflow.command()
@workflow_id_argument
@run_id_option
@click.option("--follow", is_flag=True, help="Go on until it is closed.")
@client_options
def show(client: Client, printer: Printer, workflow_id: str, run_id: str, follow: bool) -> None:
    """Show one run: its state, steps and signals.

    With --follow a terminal is drawn anew whenever something happens to it; plain output goes on
    with its events, a line each, and json is the run as it is then, a document a line. Without
    --run-id it goes on through each continue-as-new. Its end is exit status 0 whatever it is;
    `raftflow workflow result` judges.
    """
    if follow:
        follow_run(client, printer, workflow_id, run_id)
        return
    run = client.get(workflow_path(workflow_id), run_id=run_id)
    if printer.format == "json":
        printer.document(run)
    else:
        printer.view(run_view(run))


@workflow.command()
@workflow_id_argument
@run_id_option
@client_options
def history(client: Client, printer: Printer, workflow_id: str, run_id: str) -> None:
    """Show the events of one run, oldest first."""
    events: list[dict[str, Any]] = []
    while True:
        page = client.get(
            workflow_path(workflow_id, "history"), run_id=run_id, **{"from": len(events) + 1}
        )
        events += page["events"]
        # The run may go on meanwhile; what this page said was there is what is shown.
        if not page["events"] or len(events) >= page["history_length"]:
            break
    if printer.format == "json":
        printer.document(page | {"events": events})
        return
    printer.rows(
        ("id", "time", "event", "details"),
        [
            (event["event_id"], printer.moment(event["time"]), event["type"], event_details(event))
            for event in events
        ],
    )


@workflow.command()
@workflow_id_argument
@run_id_option
@click.option("--timeout", type=DURATION, help="Give up after this time with exit status 3.")
@client_options
def result(
    client: Client, printer: Printer, workflow_id: str, run_id: str, timeout: int | None
) -> None:
    """Wait until a run is closed and print its output, byte for byte.

    Exit status 1 when the run did not complete; the reason is on standard error.
    """
    _finish(client, printer, workflow_id, run_id, timeout)


def _finish(
    client: Client, printer: Printer, workflow_id: str, run_id: str, timeout_ms: int | None
) -> None:
    timeout_s = None if timeout_ms is None else timeout_ms / 1000
    with watching(workflow_id) as on_progress:
        run = wait_until_closed(
            client, workflow_id, run_id=run_id, timeout_s=timeout_s, on_progress=on_progress
        )
    if printer.format == "json":
        printer.document(run)
    elif run["status"] == "COMPLETED":
        write_exactly(payload_bytes(run, "output"))
    if run["status"] != "COMPLETED":
        reason = f": {printable(run['error'])}" if run.get("error") else ""
        raise CommandError(f"{printable(workflow_id)} ended {run['status']}{reason}")
