"""`raftflow why`: one chain of causes, each with what shows it, and what to do."""

from typing import Any
from urllib.parse import quote

import click

from raftflow.cluster.cli import offers
from raftflow.cluster.cli.client import Client
from raftflow.cluster.cli.options import client_options, run_id_option, workflow_id_argument
from raftflow.cluster.cli.output import Printer
from raftflow.cluster.printable import printable


@click.group()
def why() -> None:
    """Say why something does not go on, and what to do about it.

    Each line is why the one above it is so; the last one is the cause to act on.
    """


@why.command()
@workflow_id_argument
@run_id_option
@client_options
def run(client: Client, printer: Printer, workflow_id: str, run_id: str) -> None:
    """Why the run ID does not go on, or how it ended."""
    _show(printer, client.get(_path("run", workflow_id), run_id=run_id))


@why.command()
@workflow_id_argument
@click.argument("step")
@run_id_option
@client_options
def task(client: Client, printer: Printer, workflow_id: str, step: str, run_id: str) -> None:
    """Why STEP of the run ID is not done.

    STEP is a step's name, its sequence, or 0 for the workflow task.
    """
    _show(printer, client.get(_path("task", workflow_id), step=step, run_id=run_id))


@why.command()
@click.argument("name", shell_complete=offers.queues)
@client_options
def queue(client: Client, printer: Printer, name: str) -> None:
    """Why the tasks of the queue NAME are not taken."""
    _show(printer, client.get(_path("queue", name)))


@why.command()
@client_options
def log(client: Client, printer: Printer) -> None:
    """Why the log does not grow, or is not compacted."""
    _show(printer, client.get("/api/why/log"))


@why.command()
@client_options
def leader(client: Client, printer: Printer) -> None:
    """Why there is no leader, or why this one leads."""
    _show(printer, client.get("/api/why/leader"))


@why.command()
@click.argument("node_id", metavar="ID", shell_complete=offers.nodes)
@client_options
def node(client: Client, printer: Printer, node_id: str) -> None:
    """Why the node ID is behind, cut off, or about to end itself."""
    _show(printer, client.get(_path("node", node_id)))


def _path(kind: str, name: str) -> str:
    return f"/api/why/{kind}/{quote(name, safe='')}"


def _show(printer: Printer, answer: dict[str, Any]) -> None:
    if printer.format == "json":
        printer.document(answer)
        return
    for depth, link in enumerate(answer["links"]):
        indent = "   " * depth
        printer.note(f"{indent}{'because ' if depth else ''}{link['says']}")
        printer.note(f"{indent}   [{link['cause']}] {_evidence(link['evidence'])}".rstrip())
        if link["next"]:
            printer.note(f"{indent}   next: {link['next']}")


def _evidence(evidence: dict[str, Any]) -> str:
    return "  ".join(f"{name}={printable(value)}" for name, value in evidence.items())
