"""`raftflow dev`: a cluster of real node processes on this machine."""

import contextlib
import os
from pathlib import Path
from typing import Any

import click

from raftflow.cluster.cli import devfile
from raftflow.cluster.cli.errors import EXIT_USAGE, CommandError
from raftflow.cluster.cli.options import output_option
from raftflow.cluster.cli.output import Printer
from raftflow.cluster.cli.supervisor import Supervisor
from raftflow.cluster.printable import json_text, printable

DEFAULT_DIR = Path("dev-data")

_data_dir = click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help=f"Directory of the cluster: node data, ID.log, dev.json. Default: {DEFAULT_DIR}.",
)


@click.group(invoke_without_command=True)
@click.option("--nodes", type=click.IntRange(1, 9), help="Number of nodes. Default: 3.")
@_data_dir
@click.option(
    "--port-offset", type=click.IntRange(0, 50_000), default=0, help="Added to each port."
)
@click.option(
    "--tls",
    is_flag=True,
    help="Speak TLS on all ports, with certificates of the cluster's own in DIR/tls.",
)
@click.option("--restart", is_flag=True, help="Start a node again when it dies.")
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    envvar="RAFTFLOW_CONFIG",
    show_envvar=True,
    help="TOML file with further settings for every node.",
)
@click.option(
    "--auth-token-file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="File with tokens, for every node; every call must then carry one.",
)
@output_option
@click.pass_context
def dev(
    context: click.Context,
    printer: Printer,
    nodes: int | None,
    data_dir: Path | None,
    port_offset: int,
    tls: bool,
    restart: bool,
    config: Path | None,
    auth_token_file: Path | None,
) -> None:
    """Run a cluster on this machine until Ctrl-C.

    Node i of 0, 1, 2... serves HTTP on port 8233+i, gRPC on 7233+i, Raft on 9233+i and metrics on
    9090+i, each plus --port-offset. It keeps its data in DIR/ID and its log in DIR/ID.log;
    DIR/dev.json says what runs. A directory that was begun with --tls goes on with it; clients need
    its DIR/tls/ca.crt, which is printed as the variables that tell them. `ready` is printed once
    there is a leader. A node that dies is left dead, so that you can watch the others go on, unless
    --restart. RAFTFLOW_* variables reach every node: RAFTFLOW_LEASE_MS=5s raftflow dev. With
    -o json each line is an object whose `event` is serves, trusts, ready, no_leader, started,
    ended or killed.
    """
    # `dev --data-dir DIR node kill n1` is as good as `dev node kill n1 --data-dir DIR`.
    context.obj = directory = (data_dir or DEFAULT_DIR).absolute()
    if context.invoked_subcommand:
        return
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"--data-dir {directory}: {error.strerror}", status=EXIT_USAGE) from None
    if auth_token_file:  # as any other setting that is the same for all nodes
        os.environ["RAFTFLOW_AUTH_TOKEN_FILE"] = str(auth_token_file.absolute())
    plan = devfile.plan(directory, count=nodes, port_offset=port_offset, tls=tls)
    with devfile.supervisor_lock(directory):
        say = _say_json if printer.format == "json" else _say
        Supervisor(plan, restart=restart, config=config, say=say).run()


@dev.group()
def node() -> None:
    """Kill and start nodes of a running `raftflow dev`."""


@node.command()
@click.argument("node_id", metavar="ID")
@_data_dir
@output_option
@click.pass_obj
def start(outer: Path, printer: Printer, node_id: str, data_dir: Path | None) -> None:
    """Start a dead node again."""
    directory = data_dir.absolute() if data_dir else outer
    _tell(printer, directory, node_id, devfile.start_node(directory, node_id))


@node.command()
@click.argument("node_id", metavar="ID")
@_data_dir
@output_option
@click.pass_obj
def kill(outer: Path, printer: Printer, node_id: str, data_dir: Path | None) -> None:
    """End a node with SIGKILL: it has no time to tidy up."""
    directory = data_dir.absolute() if data_dir else outer
    _tell(printer, directory, node_id, devfile.kill_node(directory, node_id))


def _tell(printer: Printer, directory: Path, node_id: str, sentence: str) -> None:
    node = devfile.read(directory).node(node_id)
    printer.said(sentence, node=node_id, pid=node.pid, http=node.http)


def _say(text: str, /, **_facts: Any) -> None:
    """One line, seen at once also through a pipe; a reader that has gone ends no cluster."""
    with contextlib.suppress(OSError):
        os.write(1, f"{printable(text)}\n".encode())


def _say_json(text: str, /, **facts: Any) -> None:
    with contextlib.suppress(OSError):
        os.write(1, f"{json_text({**facts, 'says': text})}\n".encode())
