"""`raftflow cluster`: the nodes and who leads them."""

from dataclasses import asdict
from typing import Any

import click

from raftflow.cluster.cli import offers
from raftflow.cluster.cli.client import Client
from raftflow.cluster.cli.errors import CommandError
from raftflow.cluster.cli.live import every_options
from raftflow.cluster.cli.options import DURATION, client_options
from raftflow.cluster.cli.output import Printer
from raftflow.cluster.cli.status import status_view, watch_status


@click.group()
def cluster() -> None:
    """Look at the cluster, and restart its nodes."""


@cluster.command()
@click.option("--watch", is_flag=True, help="Go on showing it, through the loss of any node.")
@every_options("1s")
@client_options
def status(client: Client, printer: Printer, watch: bool, every: int, count: int | None) -> None:
    """Show every node: role, term, log positions, lag, last contact.

    Lag and last contact are as the node that answered sees them. Exit status 1 when there is no
    leader. With --watch a terminal is drawn anew at each look; plain output is what changed, a line
    each, and json is a document a line.
    """
    if watch:
        watch_status(client, printer, every, count)
        return
    state: dict[str, Any] = client.get("/api/cluster")
    if printer.format == "json":
        printer.document(state)
    else:
        printer.view(status_view(state))
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
      raftflow cluster restart --release 0.5.0 --each 'ssh "$HOST" sudo upgrade-raftflow 0.5.0'
    """
    # Only who restarts nodes pays for it.
    from raftflow.cluster.cli.rolling import restart_all

    done = restart_all(client, printer, command=command, release=release, timeout_s=timeout / 1_000)
    if printer.format == "json":
        printer.document([asdict(each) for each in done])
    else:
        printer.note(f"all {len(done)} nodes are restarted")


@cluster.command()
@click.argument("to", metavar="[ID]", default="", shell_complete=offers.nodes)
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
    printer.said(f"{handed['leader']} leads, in term {handed['term']}", **handed)
