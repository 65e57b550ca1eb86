"""`raftflow history`: the `.history` file of a run, our unit of export and verification."""

import os
from pathlib import Path

import click

from raftflow.cluster.cli.client import Client, workflow_path
from raftflow.cluster.cli.errors import CommandError
from raftflow.cluster.cli.options import client_options, output_option
from raftflow.cluster.cli.output import Printer, printable


@click.group()
def history() -> None:
    """Export and verify history files."""


@history.command()
@click.argument("workflow_id", metavar="ID")
@click.option("--run-id", default="", help="One run of this id; default: the newest.")
@click.option(
    "-f",
    "--file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where to write; default: RUN_ID.history in this directory.",
)
@client_options
def export(
    client: Client, printer: Printer, workflow_id: str, run_id: str, file: Path | None
) -> None:
    """Write the history of a run to a file, verified and whole or not at all."""
    # protobuf costs a tenth of a second that only these two commands should pay.
    from raftflow.cluster.cli.history_file import read_events

    path = workflow_path(workflow_id)
    # The run is fixed first: the newest may change between two calls.
    run_id = client.get(path, run_id=run_id)["run_id"]
    query = {"format": "binary", "run_id": run_id}
    content = client.request("GET", f"{path}/history", query=query).content
    target = file or Path(f"{run_id}.history")
    count = len(read_events(content, str(target)))
    _write_whole(target, content)
    if printer.format == "json":
        printer.document({"file": str(target), "run_id": run_id, "events": count})
    else:
        printer.note(f"{target}: {count} events")


@history.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@output_option
def verify(printer: Printer, files: tuple[Path, ...]) -> None:
    """Check FILES: every checksum, every record, event ids without a gap.

    Damage is named by file and byte offset, with exit status 1.
    """
    reports = [_verified(path) for path in files]
    if printer.format == "json":
        printer.document(reports)
    else:
        for report in reports:
            verdict = report["damage"] or f"ok, {report['events']} events"
            printer.note(f"{report['file']}: {verdict}")
    damaged = sum(report["damage"] is not None for report in reports)
    if damaged:
        raise CommandError(f"{damaged} of {len(files)} files are damaged")


def _verified(path: Path) -> dict[str, str | int | None]:
    from raftflow.cluster.cli.history_file import Damage, read_events

    try:
        events = read_events(path.read_bytes(), str(path))
    except OSError as error:
        return {"file": str(path), "events": 0, "damage": f"cannot be read: {error.strerror}"}
    except Damage as damage:
        return {"file": str(path), "events": damage.intact, "damage": damage.problem}
    return {"file": str(path), "events": len(events), "damage": None}


def _write_whole(target: Path, content: bytes) -> None:
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise CommandError(f"cannot write {printable(target)}: {error.strerror}") from None
