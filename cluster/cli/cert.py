"""`raftflow cert`: the certificates of a cluster, from an authority of its own."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from raftflow.cluster.cli.errors import EXIT_USAGE, CommandError
from raftflow.cluster.cli.options import output_option
from raftflow.cluster.cli.output import Printer

if TYPE_CHECKING:
    # It loads a library of X.509, for which no other command should wait.
    from raftflow.cluster.cli.authority import Authority

F = TypeVar("F", bound=Callable[..., Any])

AUTHORITY_DAYS = 3650
DAYS = 365

_directory = click.argument(
    "directory", metavar="DIR", type=click.Path(path_type=Path, file_okay=False)
)


def _days(usual: int) -> Callable[[F], F]:
    return click.option(
        "--days",
        type=click.IntRange(1, 36_500),
        default=usual,
        show_default=True,
        help="How long it is good.",
    )


@click.group()
def cert() -> None:
    """Make and renew certificates for nodes and clients.

    \b
    A cluster of three, from a directory that only its operator has:
      raftflow cert init certs --cluster-id shop
      raftflow cert issue certs n1 --host n1.example.com --host 10.0.0.1
      (and so on for n2 and n3)

    Each node gets ca.crt, its own .crt and its own .key; clients get ca.crt. Nodes notice new files
    by themselves.
    """


@cert.command()
@_directory
@click.option(
    "--cluster-id",
    required=True,
    help="The cluster whose authority this is; `raftflow cluster status` shows it.",
)
@_days(AUTHORITY_DAYS)
@output_option
def init(printer: Printer, directory: Path, cluster_id: str, days: int) -> None:
    """Make a certificate authority in DIR.

    DIR/ca.key signs: keep it safe, and on no node.
    """
    authority = _authority(directory)
    authority.create(cluster_id, days=days)
    printer.note(f"{authority.trusted}: for every node and client")
    printer.said(
        f"{authority.signing_key}: signs for cluster {cluster_id}; keep it safe",
        trusted=str(authority.trusted),
        signing_key=str(authority.signing_key),
        cluster_id=cluster_id,
    )


@cert.command()
@_directory
@click.argument("name")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    help="Host name or address by which clients reach the node; may be given several times.",
)
@click.option("--client", is_flag=True, help="For a client, where nodes have tls_client_ca_file.")
@_days(DAYS)
@output_option
def issue(
    printer: Printer, directory: Path, name: str, hosts: tuple[str, ...], client: bool, days: int
) -> None:
    """Make the certificate and key of the node NAME (its node id)."""
    authority = _authority(directory)
    if authority.has(name):
        raise CommandError(
            f"{authority.certificate(name)} exists; `raftflow cert rotate {directory} {name}` "
            "replaces it",
            status=EXIT_USAGE,
        )
    if client and hosts:
        raise click.UsageError("a client has no --host")
    if not client and not hosts:
        raise click.UsageError("say by which --host clients reach the node")
    authority.issue(name, hosts=hosts, client=client, days=days)
    _tell_pair(printer, authority, name)


@cert.command()
@_directory
@click.argument("name", required=False)
@click.option("--drop-old", is_flag=True, help="Trust only the authority that signs now.")
@click.option(
    "--cluster-id", default="", help="The new id of a cluster that was restored or recovered."
)
@click.option("--days", type=click.IntRange(1, 36_500), help="How long the new one is good.")
@output_option
def rotate(
    printer: Printer,
    directory: Path,
    name: str | None,
    drop_old: bool,
    cluster_id: str,
    days: int | None,
) -> None:
    """Replace the pair of NAME, or the authority.

    \b
    To replace the authority without an interruption:
      1. raftflow cert rotate DIR: a new one signs, both are trusted. Copy ca.crt to all nodes and
         clients.
      2. raftflow cert rotate DIR NAME for each node and client; copy its .crt and .key there.
      3. raftflow cert rotate DIR --drop-old; copy ca.crt everywhere again.
    Finish each step on all machines before the next one.
    """
    authority = _authority(directory)
    if drop_old:
        if name or days or cluster_id:
            raise click.UsageError("--drop-old goes with nothing else")
        _drop_old(printer, authority)
    elif name:
        if cluster_id:
            raise click.UsageError("--cluster-id is of the authority: leave NAME out")
        authority.renew(name, days=days or DAYS)
        _tell_pair(printer, authority, name)
    else:
        authority.succeed(days=days or AUTHORITY_DAYS, cluster_id=cluster_id)
        printer.said(
            f"{authority.trusted}: a new authority and the one before. Copy it to all nodes and "
            f"clients, then: raftflow cert rotate {directory} NAME, for each of them",
            trusted=str(authority.trusted),
            signing_key=str(authority.signing_key),
        )


@cert.command()
@click.argument("files", metavar="DIR|FILE...", nargs=-1, required=True, type=click.Path())
@output_option
def show(printer: Printer, files: tuple[str, ...]) -> None:
    """Say for whom certificates are, who signed them, and when they end."""
    from raftflow.cluster.cli.authority import listed

    rows = [row for each in files for row in listed(Path(each))]
    if printer.format == "json":
        printer.document({"certificates": rows})
        return
    printer.rows(
        ("file", "for", "hosts", "signed by", "ends", "days left"),
        [
            (
                row["file"],
                row["for"],
                ", ".join(row["hosts"]) or "-",
                row["signed_by"],
                printer.moment(row["ends"]),
                row["days_left"],
            )
            for row in rows
        ],
    )


def _authority(directory: Path) -> "Authority":
    from raftflow.cluster.cli.authority import Authority

    return Authority(directory)


def _drop_old(printer: Printer, authority: "Authority") -> None:
    left_out = authority.drop_old()
    if left_out:
        raise CommandError(
            f"{', '.join(left_out)}: signed by an authority that would be dropped; first: "
            f"raftflow cert rotate {authority.directory} NAME"
        )
    printer.said(
        f"{authority.trusted}: the new authority alone. Copy it to all nodes and clients",
        trusted=str(authority.trusted),
    )


def _tell_pair(printer: Printer, authority: "Authority", name: str) -> None:
    certificate, key = authority.certificate(name), authority.key(name)
    printer.said(
        f"{certificate}, {key}: for {name}, with {authority.trusted}",
        certificate=str(certificate),
        key=str(key),
        trusted=str(authority.trusted),
    )
