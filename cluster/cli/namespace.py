"""`raftflow namespace`: the namespaces of a cluster, how long each keeps closed runs, and how much
may be started in it."""

from typing import Any
from urllib.parse import quote

import click

from raftflow.cluster.cli import offers
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
@click.argument("name", shell_complete=offers.namespaces)
@click.option("--retention", type=DURATION, help="How long closed runs stay.")
@click.option("--keep", is_flag=True, help="Closed runs stay for ever.")
@client_options
def update(client: Client, printer: Printer, name: str, retention: int | None, keep: bool) -> None:
    """Change how long NAME keeps closed runs. A shorter time holds for those of the past too."""
    if (retention is None) != keep:
        raise click.UsageError("say --retention or --keep")
    path = f"/api/namespaces/{quote(name, safe='')}"
    _show(printer, client.put(path, {"retention_ms": retention or 0}), "updated")


@namespace.command()
@click.argument("name", shell_complete=offers.namespaces)
@click.option("--max-open-runs", type=click.IntRange(1), help="Runs that may be open.")
@click.option("--starts-per-second", type=click.IntRange(1), help="Runs started in a second.")
@click.option("--none", is_flag=True, help="No bound at all.")
@client_options
def quota(
    client: Client,
    printer: Printer,
    name: str,
    max_open_runs: int | None,
    starts_per_second: int | None,
    none: bool,
) -> None:
    """Bound what is started in NAME from outside, on all nodes together. It takes the place of the
    quota before; what is not named has no bound. Children and runs that continue as new count, and
    are never refused."""
    if (max_open_runs is None and starts_per_second is None) != none:
        raise click.UsageError("say --max-open-runs, --starts-per-second or both; or --none")
    wanted = {"max_open_runs": max_open_runs or 0, "starts_per_second": starts_per_second or 0}
    made = client.put(f"/api/namespaces/{quote(name, safe='')}/quota", wanted)
    printer.said(f"{name}: {_bounded(made) or 'no quota'}", **made)


@namespace.command(name="list")
@client_options
def list_(client: Client, printer: Printer) -> None:
    """List all namespaces."""
    found = client.get("/api/namespaces")
    if printer.format == "json":
        printer.document(found)
        return
    printer.rows(
        ("namespace", "keeps closed runs", "quota", "created"),
        [
            (
                each["name"],
                _kept(each["retention_ms"]),
                _bounded(each),
                printer.moment(each.get("created_at", "")),
            )
            for each in found["namespaces"]
        ],
    )


def _show(printer: Printer, namespace: dict[str, Any], done: str) -> None:
    kept = _kept(int(namespace["retention_ms"]))
    printer.said(f"{namespace['name']}: {done}, keeps closed runs {kept}", **namespace)


def _bounded(namespace: dict[str, Any]) -> str:
    bounds = []
    if most := namespace.get("max_open_runs"):
        bounds.append(f"{most} open runs")
    if rate := namespace.get("starts_per_second"):
        bounds.append(f"{rate} starts a second")
    return ", ".join(bounds)


def _kept(retention_ms: int) -> str:
    if retention_ms == 0:
        return "for ever"
    days, rest_ms = divmod(retention_ms, _DAY_MS)
    return f"{days} d" if not rest_ms else f"{retention_ms / 3_600_000:g} h"
