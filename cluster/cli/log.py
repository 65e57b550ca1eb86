"""`raftflow log`: look at the Raft log of a node on disk. Only reads, beside a running node too."""

from collections.abc import Iterable
from pathlib import Path

import click

from raftflow.cluster.cli.errors import CommandError
from raftflow.cluster.cli.options import output_option
from raftflow.cluster.cli.output import Printer
from raftflow.cluster.printable import printable
from raftflow.raftlog import dump as raftlog
from raftflow.raftlog.disk import OsDisk
from raftflow.raftlog.errors import JournalError

_directory = click.argument(
    "directory", metavar="DIR", type=click.Path(path_type=Path, exists=True, file_okay=False)
)


@click.group()
def log() -> None:
    """Look at a node's Raft log on disk.

    DIR is the node's data directory or the raft directory in it. Nothing is changed, and the node
    may be running.
    """


@log.command()
@_directory
@output_option
def dump(printer: Printer, directory: Path) -> None:
    """Print vote, segments and entries in order, then what is wrong.

    With -o json each record is one line, its payload in base64.
    """
    _print(printer, raftlog.records(_raft_directory(directory), OsDisk()))


@log.command()
@_directory
@output_option
def verify(printer: Printer, directory: Path) -> None:
    """Judge the log as a start of the node would.

    It goes on after the first damage. Each finding names file, offset and remedy; then comes which
    entries are lost. A node with peers fetches those at its start, a single one refuses. Exit
    status 1 when anything is damaged.
    """
    path = _raft_directory(directory)
    findings = raftlog.verify(path, OsDisk())
    _print(printer, [*findings, *(raftlog.missing(path, OsDisk()) if findings else [])])
    printer.note(f"{path}: no damage")


def _print(printer: Printer, records: Iterable[raftlog.Record]) -> None:
    damaged = 0
    try:
        for record in records:
            if printer.format == "json":
                printer.line(record.json())
            else:
                click.echo(printable(record))
            if isinstance(record, raftlog.Finding):
                damaged += record.severity is raftlog.Severity.DAMAGED
    except BrokenPipeError:
        raise  # the reader has seen enough; that is no error of the log
    except (JournalError, OSError) as error:
        raise CommandError(str(error)) from None
    if damaged:
        places = "place" if damaged == 1 else "places"
        raise CommandError(f"the log is damaged in {damaged} {places}")


def _raft_directory(directory: Path) -> str:
    inner = directory / "raft"
    path = str(inner if inner.is_dir() else directory)
    if not raftlog.holds_log(path, OsDisk()):
        raise CommandError(f"{directory} holds no log: it is not the data directory of a node")
    return path
