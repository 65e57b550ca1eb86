"""`raftflow node`: who belongs to the cluster, and a data directory that must begin anew."""

import math
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from raftflow.cluster.cli.client import Client
from raftflow.cluster.cli.errors import EXIT_UNREACHABLE, CommandError, ServerError, Unreachable
from raftflow.cluster.cli.options import DURATION, client_options
from raftflow.cluster.cli.output import Printer, printable
from raftflow.cluster.config import Peer
from raftflow.cluster.consensus.identity import IdentityError
from raftflow.cluster.rebuild import Needed, Plan, plan_rebuild, rebuild_directory

NODES = "/api/cluster/nodes"
KINDS = ("voter", "api")
# An API node that is no further behind than `/api/ready` allows serves.
READY_LAG = 1_000
LOOK_S = 0.3
DEFAULT_WAIT = "10m"


class New(click.ParamType[Peer]):
    name = "ID=HOST:PORT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Peer:
        try:
            return Peer.parse(str(value))
        except ValueError as error:
            self.fail(f"{error}; write it like n4=10.0.0.4:9233", param, ctx)


NEW = New()


@click.group()
def node() -> None:
    """Add, remove and replace the nodes of a cluster.

    Any node takes these calls. Members change one at a time, while the cluster goes on serving; a
    node that is added gets the log first and votes only when it has it.
    """


_wait_options = (
    click.option(
        "--timeout",
        type=DURATION,
        default=DEFAULT_WAIT,
        show_default=True,
        help="How long to wait for the vote. What was begun goes on without this command.",
    ),
    click.option("--no-wait", is_flag=True, help="Return once the node is a member."),
)


def _waits(command: Any) -> Any:
    for option in reversed(_wait_options):
        command = option(command)
    return command


@node.command(name="list")
@client_options
def list_(client: Client, printer: Printer) -> None:
    """List the members: who votes, on which disk, at which feature level."""
    state = client.get("/api/cluster")
    if printer.format == "json":
        printer.document(state)
        return
    if state.get("pending_change"):
        printer.note(f"pending: {state['pending_change']}")
    printer.rows(
        ("node", "member", "role", "connected", "incarnation", "level", "version", "raft"),
        [
            (
                each["id"],
                each.get("member"),
                each["role"],
                "yes" if each.get("connected") or each["id"] == state["node"] else "no",
                (each.get("incarnation") or "")[:8] or None,
                each.get("feature_level"),
                each.get("version") or None,
                each.get("raft"),
            )
            for each in state["nodes"]
        ],
    )


@node.command()
@click.argument("new", metavar="ID=HOST:PORT", type=NEW)
@click.option(
    "--as",
    "kind",
    type=click.Choice(KINDS),
    default="voter",
    show_default=True,
    help="api: it serves like any other and never votes.",
)
@_waits
@client_options
def add(
    client: Client, printer: Printer, new: Peer, kind: str, timeout: int, no_wait: bool
) -> None:
    """Add the node ID, whose Raft port the others reach at HOST:PORT.

    Prints the command that starts it, and waits until it votes (as an API node: until it has the
    log). Again after an interruption: it goes on waiting.
    """
    member_id, raft = new.id, str(new.raft)
    _add(client, printer, member_id, raft, kind)
    if not no_wait:
        row = _until_it_serves(client, printer, member_id, timeout)
        done = "votes" if kind == "voter" else "serves, and never votes"
        _tell(printer, row, f"{member_id} {done}")


@node.command()
@click.argument("node_id", metavar="ID")
@client_options
def remove(client: Client, printer: Printer, node_id: str) -> None:
    """Take the node ID out of the cluster, the leader too.

    Its process ends by itself when it hears of it. It can come back only with an empty data
    directory, through `raftflow node add`.
    """
    removed = client.request("DELETE", _path(node_id)).json()
    _tell(printer, removed, f"{node_id} is removed (entry {removed['index']})")


@node.command()
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW=HOST:PORT", type=NEW)
@_waits
@client_options
def replace(
    client: Client,
    printer: Printer,
    old: str,
    new: Peer,
    timeout: int,
    no_wait: bool,
) -> None:
    """Add the node NEW, wait until it votes, then remove OLD.

    OLD may be down, or the leader. A node that lost its disk and keeps id and address needs none of
    this: start it again.
    """
    member_id, raft = new.id, str(new.raft)
    if no_wait:
        raise click.UsageError("OLD goes only once NEW votes: use `node add --no-wait` instead")
    if member_id == old:
        raise click.UsageError(
            f"{old} cannot take its own place. With an empty data directory it joins again by"
            " itself (`raftflow node rebuild DIR`, then start it); at another address it needs"
            " another id"
        )
    if _row(client, old) is None:
        raise CommandError(f"{old} is no member; `raftflow node list` shows them")
    _add(client, printer, member_id, raft)
    _until_it_serves(client, printer, member_id, timeout)
    removed = client.request("DELETE", _path(old)).json()
    _tell(printer, removed, f"{member_id} votes in the place of {old} (entry {removed['index']})")


@node.command()
@click.argument("node_id", metavar="ID")
@client_options
def snapshot(client: Client, printer: Printer, node_id: str) -> None:
    """Make the state of the node ID durable on its disk now, and shorten its log.

    Nodes do so by themselves every few seconds and keep a tail of the log for others that are slow;
    this keeps none but for those that the leader has yet to send entries to. For a disk that fills.
    """
    made = client.request("POST", f"{_path(node_id)}/snapshot").json()
    _tell(
        printer,
        made,
        f"{node_id}: the state is durable up to entry {made['index']}, the log begins with"
        f" {made['first_index']} ({made['bytes_freed']} bytes freed)",
    )


@node.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option("--yes", is_flag=True, help="Do not ask.")
def rebuild(directory: Path, yes: bool) -> None:
    """Set the data in DIR aside, so that its node starts empty and fetches all from the others.

    For a node whose data is damaged or an old copy. It keeps its id and its cluster; the old files
    go to DIR/damaged-TIME. Until the others have taken it in again it votes in nothing.
    """
    try:
        plan = plan_rebuild(directory)
        plan.require_majority()
    except (IdentityError, Needed) as error:
        raise CommandError(str(error)) from None
    click.echo(_describe(plan), err=True)
    if not yes:
        click.confirm("Go on?", abort=True, err=True)
    try:
        aside = rebuild_directory(plan)
    except (IdentityError, OSError) as error:
        raise CommandError(str(error)) from None
    click.echo(f"set aside in {aside}; start the node as before")


def _describe(plan: Plan) -> str:
    who = f"node {plan.node_id} of cluster {plan.cluster_id}" if plan.node_id else "a node"
    text = f"{plan.directory} holds the data of {who}."
    if plan.others:
        return (
            f"{text} It will fetch everything from {', '.join(plan.others)}: see that they run and "
            "that `raftflow node list` shows them as voters, and touch no other node until it shows"
            " this one as voter again."
        )
    if plan.others is None:
        return (
            f"{text} Who else belongs to the cluster cannot be read: make sure that other nodes "
            "run. Of a cluster of one, everything would be gone."
        )
    return (
        f"WARNING: {text} It is the only member of its cluster: nobody has a copy. It will start "
        "EMPTY, and everything in the cluster will be gone but for the files set aside."
    )


def _add(client: Client, printer: Printer, member_id: str, raft: str, kind: str = "voter") -> None:
    body = {"id": member_id, "raft": raft} | ({"as": kind} if kind != "voter" else {})
    member = "learner" if kind == "voter" else "member that never votes"
    try:
        client.request("POST", NODES, body=body)
    except ServerError as error:
        row = _row(client, member_id)
        wanted = "learner" if kind == "voter" else kind
        waits = row is not None and row["raft"] == raft and row.get("member") == wanted
        if error.body.get("reason") != "NODE_EXISTS" or not waits:
            raise
        printer.note(f"{member_id} is a {member} already")
    printer.note(
        f"{member_id} is a {member}. Where it does not run yet, start it so, with a --data-dir and"
        " --http-addr, --grpc-addr, --metrics-addr of its own, and tokens and TLS as the others"
        " have them:"
    )
    printer.note("  " + _serve_line(client.get("/api/cluster"), member_id, raft))


def _serve_line(state: dict[str, Any], member_id: str, raft: str) -> str:
    """Data directory, HTTP and gRPC addresses are its own business."""
    join = ",".join(
        f"{each['id']}={each['raft']}"
        for each in state["nodes"]
        if each.get("member") == "voter" and each["id"] != member_id
    )
    return (
        f"raftflow serve --node-id {member_id} --raft-addr {raft} "
        f"--cluster-id {state['cluster_id']} --join {join}"
    )


def _until_it_serves(
    client: Client, printer: Printer, member_id: str, timeout_ms: int
) -> dict[str, Any]:
    give_up_at = time.monotonic() + timeout_ms / 1_000
    said, said_at = "", -math.inf
    aim = "serve"
    while True:
        try:
            state = client.get("/api/cluster")
        except Unreachable as error:
            state, progress = None, str(error)
        else:
            row = _find(state, member_id)
            if row is None:
                raise CommandError(f"{member_id} is no member any more: somebody removed it")
            if row.get("member") == "voter" or _serves_as_api(row):
                return row
            aim = "serve" if row.get("member") == "api" else "vote"
            progress = _progress(state, row)
        if time.monotonic() >= give_up_at:
            raise CommandError(
                f"{member_id} does not {aim} yet ({progress}). It goes on by itself: watch it with "
                f"`raftflow node list`, or take it back with `raftflow node remove {member_id}`",
                status=EXIT_UNREACHABLE,
            )
        # A number that counts down is worth a line every few seconds, a new reason at once.
        kind = progress.rstrip("0123456789")
        if kind != said or time.monotonic() - said_at > 5.0:
            printer.note(progress)
            said, said_at = kind, time.monotonic()
        time.sleep(LOOK_S)


def _serves_as_api(row: dict[str, Any]) -> bool:
    """It answers itself, so it has the state, and is no further behind than others."""
    lag = row.get("lag")
    caught_up = lag is not None and lag <= READY_LAG
    return row.get("member") == "api" and bool(row.get("connected")) and caught_up


def _progress(state: dict[str, Any], row: dict[str, Any]) -> str:
    if not row.get("connected"):
        return (
            f"{row['id']} is not connected: start it, and see that {row['raft']} reaches it from "
            "the other nodes"
        )
    matched = row.get("match_index")
    ahead = max((each.get("commit_index") or 0 for each in state["nodes"]), default=0)
    left = "" if matched is None else f", entries to go: {max(0, ahead - matched)}"
    return f"{row['id']} is catching up{left}"


def _row(client: Client, member_id: str) -> dict[str, Any] | None:
    return _find(client.get("/api/cluster"), member_id)


def _find(state: dict[str, Any], member_id: str) -> dict[str, Any] | None:
    return next(
        (
            each
            for each in state["nodes"]
            if each["id"] == member_id and each.get("member") != "removed"
        ),
        None,
    )


def _path(member_id: str) -> str:
    return f"{NODES}/{quote(member_id, safe='')}"


def _tell(printer: Printer, document: dict[str, Any], sentence: str) -> None:
    if printer.format == "json":
        printer.document(document)
    else:
        click.echo(printable(sentence))
