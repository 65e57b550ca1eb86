"""`raftflow audit`: who changed what, when, from where, and what came of it."""

import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from raftflow.cluster.cli import offers
from raftflow.cluster.cli.client import Client
from raftflow.cluster.cli.errors import CommandError
from raftflow.cluster.cli.options import DURATION, client_options
from raftflow.cluster.cli.output import Printer
from raftflow.cluster.printable import json_text

_PAGE = 1_000


@click.group()
def audit() -> None:
    """Read the audit log. It needs an admin's token."""


def _filters(command: Callable[..., Any]) -> Callable[..., Any]:
    for name, text, offered in (
        ("outcome", "OK, or the reason of a refusal.", None),
        ("target", "A workflow id, a namespace, a token's id, a node.", None),
        ("in-namespace", "What was changed in it.", offers.namespaces),
        ("call", "TerminateWorkflow, MintToken, AddNode...", offers.calls),
        ("actor", "A token's id, or the name of a line in the token file.", offers.token_ids),
    ):
        parameter = "within" if name == "in-namespace" else name
        command = click.option(
            f"--{name}", parameter, default="", help=text, shell_complete=offered
        )(command)
    return click.option("--since", type=DURATION, help="Of the last 24h, 7d...")(command)


@audit.command(name="list")
@_filters
@click.option("--limit", type=click.IntRange(1, 1_000), default=50, show_default=True)
@client_options
def list_(client: Client, printer: Printer, limit: int, **filters: Any) -> None:
    """Show the newest entries."""
    found = []
    for entry in _entries(client, "newest", _query(**filters), page=limit):
        found.append(entry)
        if len(found) == limit:
            break
    if printer.format == "json":
        printer.document({"entries": found})
        return
    printer.rows(
        ("at", "actor", "role", "call", "namespace", "target", "outcome", "from", "details"),
        [_row(printer, each) for each in found],
    )


@audit.command()
@_filters
@click.option(
    "-f",
    "--file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where to write; default: standard output.",
)
@client_options
def export(client: Client, printer: Printer, file: Path | None, **filters: Any) -> None:
    """Write entries as JSON, one a line, oldest first."""
    count = 0
    try:
        with file.open("w", encoding="utf-8") if file else nullcontext(sys.stdout) as out:
            for entry in _entries(client, "oldest", _query(**filters), page=_PAGE):
                out.write(json_text(entry) + "\n")
                count += 1
    except OSError as error:
        if file is None:
            raise
        raise CommandError(f"{file}: {error.strerror}") from None
    if file:
        printer.said(f"{file}: {count} entries", file=str(file), entries=count)


def _query(*, since: int | None, within: str, **filters: str) -> dict[str, Any]:
    query: dict[str, Any] = {**filters, "namespace": within}
    if since is not None:
        moment = datetime.now(UTC) - timedelta(milliseconds=since)
        query["after"] = moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return query


def _entries(
    client: Client, order: str, query: dict[str, Any], *, page: int
) -> Iterator[dict[str, Any]]:
    cursor = ""
    while True:
        answer = client.get("/api/audit", **query, order=order, limit=page, cursor=cursor)
        yield from answer["entries"]
        cursor = answer.get("next_cursor", "")
        if not cursor:
            return


def _row(printer: Printer, each: dict[str, Any]) -> tuple[Any, ...]:
    return (
        printer.moment(each["at"]),
        each["actor"],
        each["role"],
        each["call"],
        each.get("namespace"),
        each.get("target"),
        each["outcome"],
        f"{each['address']} at {each['node']}",
        each.get("detail"),
    )
