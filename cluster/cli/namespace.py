"""`raftflow namespace`: the namespaces of a cluster, and how long each keeps closed runs."""

from urllib.parse import quote

import click

from raftflow.cluster.cli.client import Client
from raftflow.cluster.cli.options import DURATION, client_options
from raftflow.cluster.cli.output import Printer

_DAY_MS = 24 * 3_600_000


@click.group()
def namespace() -> None:
    """Create, change and list namespaces."""


@namespace.command()
@click.argument("name")
@click.option("--retention", type=DURATION, help="Default: closed runs stay for ever.")
@client_options
def create(client: Client, printer: Printer, name: str, retention: int | None) -> None:
    """Create the namespace NAME."""
    made = client.post("/api/namespaces", {"name": name, "retention_ms": retention or 0})
    _show(printer, made, "created")


@namespace.command()
@click.argument("name")
@click.option("--retention", type=DURATION, help="How long closed runs stay.")
@click.option("--keep", is_flag=True, help="Closed runs stay for ever.")
@client_options
def update(client: Client, printer: Printer, name: str, retention: int | None, keep: bool) -> None:
    """Change how long NAME keeps closed runs. A shorter time holds for those of the past too."""
    if (retention is None) != keep:
        raise click.UsageError("say --retention or --keep")
    path = f"/api/namespaces/{quote(name, safe='')}"
    _show(printer, client.put(path, {"retention_ms": retention or 0}), "updated")


@namespace.command(name="list")
@client_options
def list_(client: Client, printer: Printer) -> None:
    """List all namespaces."""
    found = client.get("/api/namespaces")
    if printer.format == "json":
        printer.document(found)
        return
    printer.rows(
        ("namespace", "keeps closed runs", "created"),
        [
            (each["name"], _kept(each["retention_ms"]), printer.moment(each.get("created_at", "")))
            for each in found["namespaces"]
        ],
    )


def _show(printer: Printer, namespace: dict[str, object], done: str) -> None:
    if printer.format == "json":
        printer.document(namespace)
    else:
        kept = _kept(int(str(namespace["retention_ms"])))
        printer.note(f"{namespace['name']}: {done}, keeps closed runs {kept}")


def _kept(retention_ms: int) -> str:
    if retention_ms == 0:
        return "for ever"
    days, rest_ms = divmod(retention_ms, _DAY_MS)
    return f"{days} d" if not rest_ms else f"{retention_ms / 3_600_000:g} h"
