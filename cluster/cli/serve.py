"""`raftflow serve`: one node, configured by flags, environment and file."""

import os
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from raftflow.cluster.cli.options import output_option
from raftflow.cluster.cli.output import Printer
from raftflow.cluster.config_sources import SETTINGS, load, to_toml
from raftflow.cluster.printable import printable_lines


def _setting_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """One option a setting, in the order of the configuration object."""
    for known in reversed(SETTINGS):
        command = click.option(
            *known.flags,
            known.name.replace(".", "__"),
            metavar="DURATION" if len(known.flags) > 1 else "VALUE",
            help=known.help + (f"  [{known.default_text}]" if known.default_text else ""),
        )(command)
    return command


@click.command()
@click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="RAFTFLOW_CONFIG",
    show_envvar=True,
    help="TOML file with the same settings.",
)
@_setting_options
@click.option(
    "--print-config", is_flag=True, help="Print the configuration as TOML (-o json: so) and exit."
)
@output_option
def serve(printer: Printer, file: Path | None, print_config: bool, **flags: str | None) -> None:
    """Run one node until SIGTERM or Ctrl-C.

    A setting comes from its flag, else from its environment variable (--http-addr is
    RAFTFLOW_HTTP_ADDR), else from the TOML file, else it has its default. Without --peers the node
    is a cluster of one; with --join it waits to be added to a cluster (`raftflow node add`).

    \b
    Exit status: 0 stopped in order; 2 a setting that cannot be (flag, environment, TOML file);
    70 the node could not go on (its disk, its log) and ended itself: start it again;
    78 it refuses to start (token file, data directory, port), or the cluster has removed it:
    starting it again does not help.

    \b
    Example, one of three nodes:
      raftflow serve --node-id n2 --data-dir /var/lib/raftflow --http-addr :8233 \\
        --peers n1=10.0.0.1:9233,n2=10.0.0.2:9233,n3=10.0.0.3:9233
    """
    given = {name.replace("__", "."): value for name, value in flags.items()}
    config = load(flags=given, env=os.environ, file=file)
    if print_config:
        _print(printer, to_toml(config))
        return
    # gRPC's own lines would stand among our JSON ones; what matters of them we say ourselves.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    # The node's own imports (gRPC, aiohttp) cost a second that no other command should pay.
    from raftflow.cluster.main import run

    sys.exit(run(config))


def _print(printer: Printer, toml: str) -> None:
    if printer.format == "json":
        printer.document(tomllib.loads(toml))
    else:
        click.echo(printable_lines(toml), nl=False)
