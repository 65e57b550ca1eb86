"""`raftflow top`: what a cluster is doing, on one screen."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from raftflow.cluster.cli.client import Client
from raftflow.cluster.cli.errors import ServerError
from raftflow.cluster.cli.live import every_options, looking, screen
from raftflow.cluster.cli.options import client_options
from raftflow.cluster.cli.output import Block, Printer, Rows
from raftflow.cluster.cli.queues import duration, queue_rows, tolerant_get
from raftflow.cluster.cli.status import headline, look, now

QUEUES_SHOWN = 12
_BARS = "▁▂▃▄▅▆▇█"
_BARS_SHOWN = 40
_MINUTES = 10
NODES = (
    *("node", "role", "member", "lag", "contact", "entries/s", "fsync", "loop"),
    *("log", "store", "disk free", "skew", "up", "version"),
)
# Of /api/cluster/history: its name, and what people read.
_FIGURES = (
    ("commits", "commits/s", True),
    ("requests", "requests/s", True),
    ("commit_p50_ms", "p50 ms", False),
    ("commit_p99_ms", "p99 ms", False),
    ("open_runs", "open runs", False),
    ("workflow_queue", "workflow tasks", False),
    ("activity_queue", "activity tasks", False),
    ("leases", "leases", False),
)


@dataclass(slots=True)
class Watched:
    """What was seen so far; the last of it stays on the screen while nobody answers."""

    state: dict[str, Any] = field(default_factory=dict)
    queues: dict[str, Any] | None = None
    history: dict[str, Any] | None = None
    silent: str = ""
    # node -> (when, commit index) at the look before, for what it does in a second
    before: dict[str, tuple[float, int]] = field(default_factory=dict)
    rates: dict[str, float] = field(default_factory=dict)


@click.command()
@every_options("2s")
@client_options
def top(client: Client, printer: Printer, every: int, count: int | None) -> None:
    """Show what the cluster does: its nodes, its figures, its busiest queues.

    On a terminal it has the screen for itself until `q` or Ctrl-C; plain output is one view after
    the other, json a document a line. It goes on through the loss of any node.
    """
    watched = Watched()
    if printer.format == "table":
        with screen(whole=True) as show, looking(every, count) as looks:
            for _ in looks:
                _look(client, watched)
                show(view(watched))
        return
    with looking(every, count) as looks:
        for number in looks:
            _look(client, watched)
            if printer.format == "json":
                printer.line(_document(watched))
            else:
                printer.view([*([""] if number else []), f"at {now()}", *view(watched)])


def _look(client: Client, watched: Watched) -> None:
    state = look(client)
    if isinstance(state, str):
        watched.silent = state
        return
    watched.silent, watched.state = "", state
    _measure(watched, time.monotonic())
    try:
        watched.queues = tolerant_get(client, "/api/queues")
        watched.history = tolerant_get(client, "/api/cluster/history", minutes=_MINUTES)
    except ServerError as error:  # a role that may see the one and not the other
        watched.silent = str(error)


def _measure(watched: Watched, at_s: float) -> None:
    """Entries a second that each node committed since the look before."""
    seen = {
        row["id"]: (at_s, row["commit_index"])
        for row in watched.state["nodes"]
        if row.get("commit_index") is not None
    }
    watched.rates = {
        name: max(0, index - before[1]) / (at - before[0])
        for name, (at, index) in seen.items()
        if (before := watched.before.get(name)) and at > before[0]
    }
    watched.before = seen


def view(watched: Watched) -> list[Block]:
    if not watched.state:
        return [watched.silent or "nothing was heard yet"]
    state = watched.state
    blocks: list[Block] = [headline(state), *_elected(state)]
    if state.get("pending_change"):
        blocks.append(f"pending: {state['pending_change']}")
    blocks += figures(watched.history)
    blocks.append(Rows(NODES, [_node(row, state, watched.rates) for row in state["nodes"]], ""))
    if watched.queues is not None:
        queues = sorted(
            watched.queues["queues"],
            key=lambda each: (-(each["queued"] or 0), -(each["oldest_ms"] or 0), each["name"]),
        )
        if queues:
            more = len(queues) - QUEUES_SHOWN
            title = f"queues, {more} more" if more > 0 else "queues"
            blocks.append(queue_rows(queues[:QUEUES_SHOWN], title))
    if watched.silent:
        blocks.append(f"as of the last answer: {watched.silent}")
    return blocks


def figures(history: dict[str, Any] | None) -> list[Block]:
    """The newest of each series, and how the commits went before it."""
    if not history or not history.get("every_ms"):
        return []
    samples, every_s = history["samples"], history["every_ms"] / 1_000
    said = []
    for name, label, per_second in _FIGURES:
        value = next((each for each in reversed(samples.get(name) or ()) if each is not None), None)
        if value is not None:
            said.append(f"{label} {value / every_s if per_second else value:.4g}")
    blocks: list[Block] = ["  ".join(said)] if said else []
    if bars := sparkline((samples.get("commits") or ())[-_BARS_SHOWN:]):
        blocks.append(f"commits {bars}")
    return blocks


def sparkline(values: Sequence[float | None]) -> str:
    most = max((each for each in values if each is not None), default=0)
    if not most:
        return ""
    steps = len(_BARS) - 1
    return "".join(" " if each is None else _BARS[round(each / most * steps)] for each in values)


def _elected(state: dict[str, Any]) -> list[Block]:
    elections = state.get("elections") or []
    if not elections:
        return []
    last = elections[-1]
    who = f"{last['leader']} leads" if last.get("leader") else "no leader"
    reason = f": {last['reason']}" if last.get("reason") else ""
    at = str(state.get("leader_since") or last["at"])
    return [f"since {at[:19]}Z {who} in term {last['term']}{reason}"]


def _node(row: dict[str, Any], state: dict[str, Any], rates: dict[str, float]) -> tuple[Any, ...]:
    contact, rate = row.get("last_contact_ms"), rates.get(row["id"])
    lost = not row.get("connected", True) and row["id"] != state["node"]
    up, skew = row.get("uptime_seconds"), row.get("clock_skew_ms")
    return (
        row["id"],
        row["role"],
        row.get("member"),
        row.get("lag"),
        "lost" if lost else duration(contact),
        None if rate is None else f"{rate:.0f}",
        duration(row.get("fsync_ms")),
        duration(row.get("loop_lag_ms")),
        size(row.get("log_bytes")),
        size(row.get("store_bytes")),
        size(row.get("disk_free_bytes")),
        None if skew is None else f"{skew} ms",
        None if up is None else duration(up * 1_000),
        row.get("version") or None,
    )


def size(count: int | None) -> str | None:
    if count is None:
        return None
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count >= 1 << shift:
            return f"{count / (1 << shift):.3g} {unit}"
    return f"{count} B"


def _document(watched: Watched) -> dict[str, Any]:
    return {
        "at": now(),
        "cluster": watched.state or None,
        "queues": watched.queues,
        "history": watched.history,
        "error": watched.silent or None,
    }
