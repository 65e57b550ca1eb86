"""`raftflow cluster`: the nodes and who leads them."""

from dataclasses import asdict
from typing import Any

import click

from raftflow.cluster.cli.client import Client
from raftflow.cluster.cli.errors import CommandError
from raftflow.cluster.cli.options import DURATION, client_options
from raftflow.cluster.cli.output import Printer, printable


@click.group()
def cluster() -> None:
    """Look at the cluster, and restart its nodes."""


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


@cluster.command()
@click.option(
    "--each",
    "command",
    required=True,
    metavar="COMMAND",
    help="Shell command that restarts the node $NODE on $HOST, and ends when that is under way.",
)
@click.option("--release", default="", help="Stop unless each node comes back with this release.")
@click.option(
    "--timeout",
    type=DURATION,
    default="5m",
    show_default=True,
    help="How long a node may take until it is well again.",
)
@client_options
def restart(client: Client, printer: Printer, command: str, release: str, timeout: int) -> None:
    """Restart every node, one after the other, the leader last.

    COMMAND runs once for each node. The next one is taken when the cluster is well: every node
    answers, has caught up and counts in majorities. It stops at the first that does not come back.
    An upgrade is the same, with a command that installs before it restarts. Name several nodes
    with --address: the one that is asked is restarted, too.

    \b
    Examples:
      raftflow cluster restart --each 'ssh "$HOST" sudo systemctl restart raftflow'
      raftflow cluster restart --release 0.4.0 --each 'ssh "$HOST" sudo upgrade-raftflow 0.4.0'
    """
    # Only who restarts nodes pays for it.
    from raftflow.cluster.cli.rolling import restart_all

    done = restart_all(client, printer, command=command, release=release, timeout_s=timeout / 1_000)
    if printer.format == "json":
        printer.document([asdict(each) for each in done])
    else:
        printer.note(f"all {len(done)} nodes are restarted")


@cluster.command()
@click.argument("to", metavar="[ID]", default="")
@client_options
def transfer(client: Client, printer: Printer, to: str) -> None:
    """Hand leadership over to the voter ID, or to the one that has most of the log.

    Calls wait for a moment and none is lost. Returns once another node leads; exit status 1 when
    the old one leads on.

    \b
    Examples:
      raftflow cluster transfer
      raftflow cluster transfer n2
    """
    handed = client.request("POST", "/api/cluster/transfer", body={"to": to} if to else {}).json()
    if printer.format == "json":
        printer.document(handed)
    else:
        click.echo(printable(f"{handed['leader']} leads, in term {handed['term']}"))


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
