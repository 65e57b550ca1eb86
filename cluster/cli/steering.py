"""`raftflow workflow`: what is done to runs."""

from pathlib import Path
from typing import Any

import click

from raftflow.cluster.cli.client import Client, workflow_path
from raftflow.cluster.cli.options import (
    client_options,
    payload_option,
    run_id_option,
    workflow_id_argument,
)
from raftflow.cluster.cli.output import Printer

_reason = click.option("--reason", default="", help="Kept in the history.")


@click.command()
@workflow_id_argument
@click.argument("name")
@click.option("--payload", "text", help="Payload, passed on byte for byte.")
@click.option(
    "--payload-file",
    type=click.Path(path_type=Path, allow_dash=True, dir_okay=False),
    help="Read the payload from this file; - is standard input.",
)
@run_id_option
@client_options
def signal(
    client: Client,
    printer: Printer,
    workflow_id: str,
    name: str,
    text: str | None,
    payload_file: Path | None,
    run_id: str,
) -> None:
    """Send the signal NAME to a run. It is kept until the workflow waits for it."""
    body = {"name": name} | payload_option("payload", text, payload_file)
    _tell(client, printer, workflow_id, "signal", body, run_id)


@click.command()
@workflow_id_argument
@_reason
@click.option("--graceful", is_flag=True, help="Tell its code, which may compensate first.")
@run_id_option
@client_options
def cancel(
    client: Client,
    printer: Printer,
    workflow_id: str,
    reason: str,
    graceful: bool,
    run_id: str,
) -> None:
    """End a run at once, or with --graceful as its code decides."""
    body = {"reason": reason} | ({"graceful": True} if graceful else {})
    _tell(client, printer, workflow_id, "cancel", body, run_id)


@click.command()
@workflow_id_argument
@_reason
@run_id_option
@client_options
def terminate(client: Client, printer: Printer, workflow_id: str, reason: str, run_id: str) -> None:
    """End a run at once. Its code is not told and does not compensate."""
    _tell(client, printer, workflow_id, "terminate", {"reason": reason}, run_id)


@click.command()
@workflow_id_argument
@click.option("--reason", default="", help="Shown while it is paused.")
@run_id_option
@client_options
def pause(client: Client, printer: Printer, workflow_id: str, reason: str, run_id: str) -> None:
    """Hand out no decision of a run. Activities in flight go on; their results are kept."""
    _tell(client, printer, workflow_id, "pause", {"reason": reason}, run_id)


@click.command()
@workflow_id_argument
@run_id_option
@client_options
def unpause(client: Client, printer: Printer, workflow_id: str, run_id: str) -> None:
    """Let a paused run go on."""
    _tell(client, printer, workflow_id, "unpause", {}, run_id)


@click.command()
@workflow_id_argument
@click.option("--run-id", default="", help="One run of this id; default: all of them.")
@client_options
def delete(client: Client, printer: Printer, workflow_id: str, run_id: str) -> None:
    """Forget a closed run, or all runs of the id. This cannot be undone."""
    answer = client.delete(workflow_path(workflow_id), run_id=run_id)
    runs = "1 run" if answer["runs"] == 1 else f"{answer['runs']} runs"
    printer.said(f"{workflow_id}: {runs} deleted", **answer)


STEERING = (signal, cancel, terminate, pause, unpause, delete)


def _tell(
    client: Client,
    printer: Printer,
    workflow_id: str,
    verb: str,
    body: dict[str, Any],
    run_id: str,
) -> None:
    body |= {"run_id": run_id} if run_id else {}
    answer = client.post(workflow_path(workflow_id, verb), body)
    printer.said(f"{workflow_id}: {answer['status'].replace('_', ' ')}", **answer)
