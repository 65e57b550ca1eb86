"""`raftflow force-recover`: a survivor goes on alone after a majority of its cluster is lost."""

from __future__ import annotations

import socket
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

import click

from raftflow.cluster.cli.errors import CommandError
from raftflow.cluster.cli.options import output_option
from raftflow.cluster.cli.output import Printer
from raftflow.cluster.config import ID_PATTERN, Address
from raftflow.cluster.printable import printable

if TYPE_CHECKING:
    from raftflow.cluster.force_recover import Survivor

LOOK_S = 1.0


@click.command(name="force-recover")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--cluster-id",
    default="",
    help="Of the new cluster. Default: the old one's, -r1 and a mark of the disk.",
)
@click.option(
    "--yes-lose-data", is_flag=True, help="Do not ask for the node's id: what is lost is known."
)
@output_option
def force_recover(printer: Printer, directory: Path, cluster_id: str, yes_lose_data: bool) -> None:
    """Make the stopped node with the data directory DIR the only voter of a new cluster.

    For a cluster that lost a majority of its disks for good, and only then: while a majority can
    be brought back, bring it back. Look at every survivor first (without --yes-lose-data it tells
    what the directory holds, and changes nothing before the node's id is typed), and take the one
    with the last entry: the higher term, then the higher index. What only the lost nodes held is
    gone. A backup may be newer: `raftflow backup list`.
    """
    # SQLite and the log cost a quarter of a second that only these commands should pay.
    from raftflow.cluster import force_recover as recovery
    from raftflow.cluster.consensus.identity import IdentityError
    from raftflow.cluster.store import StoreError
    from raftflow.raftlog.errors import JournalError

    if cluster_id and not ID_PATTERN.fullmatch(cluster_id):
        raise click.UsageError("--cluster-id: use 1 to 64 letters, digits, '.', '_' or '-'")
    try:
        survivor = recovery.survey(directory)
        new_id = cluster_id or recovery.another_id(survivor.identity)
        click.echo(printable_lines(_describe(survivor, new_id)), err=True)
        if not yes_lose_data:
            _ask(survivor.identity.node_id)
        kept = recovery.recover(survivor, new_id)
    except (recovery.Refused, IdentityError, JournalError, StoreError) as error:
        raise CommandError(str(error)) from None
    except (OSError, sqlite3.Error) as error:
        raise CommandError(f"{directory}: {error}") from None
    node_id = survivor.identity.node_id
    printer.said(
        f"{node_id} is the only voter of cluster {new_id}; start it, with that id where its"
        f" settings and peer certificates name one. What was replaced is in {kept}. Then empty the"
        " directories of the others, and add them: `raftflow node add`",
        node=node_id,
        cluster_id=new_id,
        kept=str(kept),
    )


def _ask(node_id: str) -> None:
    typed = click.prompt(f"Type {node_id} to go on", err=True, default="", show_default=False)
    if typed != node_id:
        raise CommandError("nothing was changed")


def _describe(survivor: Survivor, new_id: str) -> list[str]:
    identity, applied = survivor.identity, survivor.applied
    lines = [
        f"{survivor.directory}: node {identity.node_id} of cluster {identity.cluster_id}, with"
        f" {', '.join(survivor.others) or 'nobody else'}",
        f"  its log ends at entry {survivor.last_index} of term {survivor.last_term}; its state on"
        f" disk is that of entry {applied.index}, digest {applied.digest.hex()}",
        "WARNING, this cannot be undone:",
        "  - Entries after that one are lost if only the other nodes held them, also those whose"
        " calls were answered. Nobody can tell which.",
        "  - Entries that this node holds become true, also those whose calls got no answer.",
        "  - Activities may run again whose results are lost; workers and clients may know of runs"
        " and signals that are not there.",
        f"  - The new cluster is {new_id}. No other node of {identity.cluster_id} may be started"
        " again with its data: a majority of them would go on as the old cluster, beside this one.",
    ]
    if answering := [each for each in survivor.others if _answers(survivor, each)]:
        lines.append(
            f"  - {', '.join(answering)} answered on the Raft port just now. Unless the disks there"
            " are lost, stop here: start this node as it is, and see who leads"
            " (`raftflow cluster status`)."
        )
    if survivor.lost_end:
        lines.append(
            "  - The end of this node's own log was damaged: it may lack more than others."
        )
    return lines


def _answers(survivor: Survivor, member_id: str) -> bool:
    member = survivor.configuration.find(member_id)
    assert member is not None
    try:
        address = Address.parse(member.raft)
        socket.create_connection((address.host, address.port), timeout=LOOK_S).close()
    except (OSError, ValueError):
        return False
    return True


def printable_lines(lines: list[str]) -> str:
    return "\n".join(printable(line) for line in lines)
