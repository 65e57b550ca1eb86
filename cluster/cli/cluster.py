"""`raftflow cluster`: the nodes and who leads them."""

from typing import Any

import click

from raftflow.cluster.cli.client import Client
from raftflow.cluster.cli.errors import CommandError
from raftflow.cluster.cli.options import client_options
from raftflow.cluster.cli.output import Printer


@click.group()
def cluster() -> None:
    """Look at the cluster."""


@cluster.command()
@client_options
def status(client: Client, printer: Printer) -> None:
    """Show every node: role, term, log positions, lag, last contact.

    Lag and last contact are as the node that answered sees them. Exit status 1 when there is no
    leader.
    """
    state: dict[str, Any] = client.get("/api/cluster")
    if printer.format == "json":
        printer.document(state)
    else:
        printer.note(
            f"cluster {state['cluster_id']}  leader {state.get('leader') or 'none'}  "
            f"term {state['term']}  (as {state['node']} sees it)"
        )
        if state.get("pending_change"):
            printer.note(f"pending: {state['pending_change']}")
        printer.rows(
            (
                *("node", "role", "member", "term", "commit", "applied", "lag", "contact"),
                *("version", "level", "incarnation", "http"),
            ),
            [_row(node, state["node"]) for node in state["nodes"]],
        )
    if not state.get("leader"):
        raise CommandError("the cluster has no leader")


def _row(node: dict[str, Any], answering: str) -> tuple[Any, ...]:
    contact = node.get("last_contact_ms")
    silent = not node.get("connected", True) and node["id"] != answering
    return (
        node["id"],
        node["role"],
        node.get("member"),
        node.get("term"),
        node.get("commit_index"),
        node.get("applied_index"),
        node.get("lag"),
        "lost" if silent else None if contact is None else f"{contact} ms",
        node.get("version") or None,
        node.get("feature_level"),
        (node.get("incarnation") or "")[:8] or None,
        node.get("http"),
    )
