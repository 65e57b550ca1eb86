"""`raftflow history`: the `.history` file of a run, our unit of export and verification."""

import os
from pathlib import Path

import click

from raftflow.cluster.cli.client import Client, workflow_path
from raftflow.cluster.cli.errors import CommandError
from raftflow.cluster.cli.options import client_options, output_option, workflow_id_argument
from raftflow.cluster.cli.output import Printer


@click.group()
def history() -> None:
    """Export and verify history files."""


@history.command()
@workflow_id_argument
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
    """Write a run's history to a file, verified, whole or not at all."""
    path = workflow_path(workflow_id)
    # The run is fixed first: the newest may change between two calls.
    run_id = client.get(path, run_id=run_id)["run_id"]
    query = {"format": "binary", "run_id": run_id}
    content = client.request("GET", f"{path}/history", query=query).content
    target = file or Path(f"{run_id}.history")
    count = _write_whole(target, content)
    printer.said(f"{target}: {count} events", file=str(target), run_id=run_id, events=count)


@history.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@output_option
def verify(printer: Printer, files: tuple[Path, ...]) -> None:
    """Check FILES: checksums, records, event ids without a gap.

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
    # protobuf and SQLite cost a quarter of a second that only these commands should pay.
    from raftflow.cluster.store import history_file

    try:
        verdict = history_file.verify(str(path))
    except OSError as error:
        return {"file": str(path), "events": None, "damage": f"cannot be read: {error.strerror}"}
    except history_file.HistoryFileDamaged as damaged:
        damage: str | None = f"offset {damaged.offset}: {damaged.problem}"
        return {"file": str(path), "events": None, "damage": damage}
    damage = None
    if verdict.torn_bytes:
        damage = (
            f"offset {verdict.whole_bytes}: the last record is cut short, {verdict.torn_bytes} "
            f"bytes of it are there; {verdict.events} events before it are whole"
        )
    return {"file": str(path), "events": verdict.events, "damage": damage}


def _write_whole(target: Path, content: bytes) -> int:
    """The number of events; the file has its name only when it is verified and on disk."""
    from raftflow.cluster.durable import sync_directory

    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        report = _verified(temporary)
        if report["damage"] is not None:
            raise CommandError(f"what the node sent is damaged: {report['damage']}")
        temporary.replace(target)
        sync_directory(str(target.parent))
    except OSError as error:
        raise CommandError(f"cannot write {target}: {error.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)
    return int(report["events"] or 0)
