"""`raftflow token`: who may call, and what for."""

from typing import Any
from urllib.parse import quote

import click

from raftflow.cluster.cli import offers
from raftflow.cluster.cli.client import Client
from raftflow.cluster.cli.errors import CommandError
from raftflow.cluster.cli.options import DURATION, client_options
from raftflow.cluster.cli.output import Printer
from raftflow.cluster.printable import printable

ROLES = ("viewer", "user", "admin", "worker")


@click.group()
def token() -> None:
    """Mint, list and revoke tokens. All of it needs an admin's."""


@token.command()
@click.argument("name")
@click.option("--role", type=click.Choice(ROLES), required=True, help="What its holder may do.")
@click.option(
    "--for-namespace",
    "namespaces",
    multiple=True,
    metavar="NAMESPACE",
    shell_complete=offers.namespaces,
    help="Of these namespaces alone; several are allowed. Default: all.",
)
@click.option("--expires", type=DURATION, help="How long it is good. Default: until revoked.")
@click.option("--see-payloads", is_flag=True, help="Inputs, outputs and signals are shown to it.")
@client_options
def mint(
    client: Client,
    printer: Printer,
    name: str,
    role: str,
    namespaces: tuple[str, ...],
    expires: int | None,
    see_payloads: bool,
) -> None:
    """Mint a token for NAME and print it, once: nobody can show it again.

    The token alone goes to standard output, so that it can be piped to where it is kept.
    """
    open_to_all = client.get("/api/session").get("auth") == "off"
    minted = client.post(
        "/api/tokens",
        {
            "name": name,
            "role": role,
            "namespaces": list(namespaces),
            "sees_payloads": see_payloads,
            "lifetime_ms": expires or 0,
        },
    )
    if printer.format == "json":
        printer.document(minted)
        return
    until = f" until {minted['expires_at']}" if "expires_at" in minted else ""
    click.echo(printable(f"{minted['id']}: {role}{until}; it is shown this once"), err=True)
    _warn(minted["not_yet"], "have not heard of it yet, and refuse it until they do")
    if open_to_all:
        said = "This node asks nobody for a token yet: docs/security.md says how to turn that on"
        click.echo(said, err=True)
    click.echo(minted["token"])


@token.command(name="list")
@click.option("--sessions", is_flag=True, help="Sessions of the page, too.")
@client_options
def list_(client: Client, printer: Printer, sessions: bool) -> None:
    """List all tokens. Their secrets are nowhere."""
    found = client.get("/api/tokens")["tokens"]
    shown = [each for each in found if sessions or not each.get("parent")]
    if printer.format == "json":
        printer.document({"tokens": shown})
        return
    printer.rows(
        ("id", "name", "role", "namespaces", "payloads", "status", "created", "expires"),
        [_row(printer, each) for each in shown],
    )


@token.command()
@click.argument("token_id", metavar="ID", shell_complete=offers.token_ids)
@client_options
def revoke(client: Client, printer: Printer, token_id: str) -> None:
    """Revoke the token ID: its calls, streams and polls end on all nodes.

    ID is the middle of `rf_ID_...`; a whole token is taken, too. Exit status 1 when a node has not
    heard of it within two seconds: that one may go on to show lists until it does.
    """
    parts = token_id.split("_")
    token_id = parts[1] if len(parts) > 2 and parts[0] == "rf" else token_id
    done = client.delete(f"/api/tokens/{quote(token_id, safe='')}")
    printer.said(f"{token_id}: revoked on {', '.join(done['applied_by'])}", **done)
    if done["not_yet"]:
        late = ", ".join(done["not_yet"])
        raise CommandError(f"revoked, but {late} had not applied it within two seconds")


def _row(printer: Printer, each: dict[str, Any]) -> tuple[Any, ...]:
    return (
        each["id"],
        each["name"],
        each["role"],
        ",".join(each["namespaces"]) or "all",
        "yes" if each["sees_payloads"] else "no",
        each["status"],
        printer.moment(each["created_at"]),
        printer.moment(each["expires_at"]) if "expires_at" in each else None,
    )


def _warn(nodes: list[str], what: str) -> None:
    if nodes:
        click.echo(printable(f"{', '.join(nodes)} {what}"), err=True)
