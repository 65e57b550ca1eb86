"""`raftflow queue` and `raftflow worker`: what waits for whom, and who asks for what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import click

from raftflow.cluster.cli import offers
from raftflow.cluster.cli.client import Client
from raftflow.cluster.cli.errors import CommandError, ServerError
from raftflow.cluster.cli.options import client_options
from raftflow.cluster.cli.output import Printer, Rows, shortened

QUEUE_COLUMNS = ("queue", "kind", "namespace", "queued", "oldest", "leases", "expired", "pollers")
_KINDS = ("workflow", "activity")


@click.group()
def queue() -> None:
    """Look at the task queues."""


@queue.command(name="list")
@click.option("--kind", type=click.Choice(_KINDS), help="Only workflow or activity queues.")
@client_options
def list_queues(client: Client, printer: Printer, kind: str | None) -> None:
    """List the task queues: how much waits, for how long, and who asks for it.

    Of all namespaces that the token may see, unless --namespace names one. `expired` is how many
    leases ran out under the present leader. The node that answers asks all others; who did not
    tell is named, and its pollers are missing then.
    """
    answer = tolerant_get(client, "/api/queues")
    if answer is None:
        raise CommandError(_OLD.format("queues"))
    shown = [
        each
        for each in answer["queues"]
        if kind in (None, each["kind"]) and client.namespace in ("", each["namespace"])
    ]
    if printer.format == "json":
        printer.document({**answer, "queues": shown})
        return
    printer.view([queue_rows(shown)])
    _tell_missing(printer, answer)


@click.group()
def worker() -> None:
    """Look at the workers."""


@worker.command(name="list")
@click.option(
    "--queue",
    "queue_name",
    default="",
    help="Only workers of this queue.",
    shell_complete=offers.queues,
)
@client_options
def list_workers(client: Client, printer: Printer, queue_name: str) -> None:
    """List the workers that ask for tasks or hold some: where, for what, since when."""
    answer = tolerant_get(client, "/api/workers")
    if answer is None:
        raise CommandError(_OLD.format("workers"))
    shown = [
        each
        for each in answer["workers"]
        if queue_name in ("", *each["queues"]) and client.namespace in ("", each["namespace"])
    ]
    if printer.format == "json":
        printer.document({**answer, "workers": shown})
        return
    columns = ("worker", "node", "namespace", "polls", "leases", "last seen", "queues")
    rows = [
        (
            each["id"],
            each["node"],
            each.get("namespace"),
            each["polls"],
            each["leases"],
            _ago(each.get("last_seen")),
            ", ".join(each["queues"]) or None,
        )
        for each in shown
    ]
    printer.view([Rows(columns, rows)])
    _tell_missing(printer, answer)


_OLD = (
    "the node that answered is of a release before 0.5, which does not tell of {}: name others with"
    " --address, or finish the upgrade"
)


def tolerant_get(client: Client, path: str, **query: Any) -> dict[str, Any] | None:
    """None from a release that does not know the call yet."""
    try:
        found: dict[str, Any] = client.get(path, **query)
    except ServerError as error:
        if error.http_status != HTTPStatus.NOT_FOUND:
            raise
        return None
    return found


def queue_rows(queues: Iterable[dict[str, Any]], title: str = "") -> Rows:
    rows = [
        (
            each["name"],
            each["kind"],
            each.get("namespace"),
            each["queued"],
            duration(each.get("oldest_ms")),
            each.get("leases"),
            each.get("expired_total"),
            _pollers(each.get("pollers") or ()),
        )
        for each in queues
    ]
    return Rows(QUEUE_COLUMNS, rows, title)


def duration(milliseconds: float | None) -> str | None:
    """As people say it: 340 ms, 12 s, 5 min, 3 h, 9 d."""
    if milliseconds is None:
        return None
    if milliseconds < 1_000:
        return f"{milliseconds:g} ms"
    for size, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min")):
        if milliseconds >= 2 * size:
            return f"{milliseconds / size:.0f} {unit}"
    return f"{milliseconds / 1_000:.0f} s"


def _pollers(pollers: Sequence[dict[str, Any]]) -> str | None:
    """How many on each node; and for which names, where they do not take all."""
    counted: Counter[str] = Counter()
    for each in pollers:
        counted[each["node"]] += each.get("polls", 1)
    names = {name for each in pollers for name in each.get("types") or ()} - {"*"}
    where = " ".join(f"{node}:{count}" for node, count in sorted(counted.items()))
    return f"{where} for {shortened(', '.join(sorted(names)), 50)}" if names else where or None


def _tell_missing(printer: Printer, answer: dict[str, Any]) -> None:
    reasons = answer.get("reasons") or {}
    for node in answer.get("missing") or ():
        why = f" ({reasons[node]})" if node in reasons else ""
        printer.note(f"{node} did not tell{why}: what it alone knows is missing")
    if answer.get("truncated"):
        printer.note("there are more than a node tells")


def _ago(moment: str | None) -> str | None:
    if not moment:
        return None
    try:
        since = datetime.now(UTC) - datetime.fromisoformat(moment.replace("Z", "+00:00"))
    except ValueError:
        return moment
    return f"{duration(max(0, since.total_seconds()) * 1_000)} ago"
