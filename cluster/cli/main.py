"""The command `raftflow`: one group a noun, each command in the module of its noun."""

import json
import sys

import click

from raftflow.cluster.cli.audit import audit
from raftflow.cluster.cli.backup import backup
from raftflow.cluster.cli.cert import cert
from raftflow.cluster.cli.cluster import cluster
from raftflow.cluster.cli.dev import dev
from raftflow.cluster.cli.doctor import doctor
from raftflow.cluster.cli.errors import EXIT_USAGE, CommandError, ServerError
from raftflow.cluster.cli.history import history
from raftflow.cluster.cli.log import log
from raftflow.cluster.cli.namespace import namespace
from raftflow.cluster.cli.node import node
from raftflow.cluster.cli.recover import force_recover
from raftflow.cluster.cli.serve import serve
from raftflow.cluster.cli.token import token
from raftflow.cluster.cli.why import why
from raftflow.cluster.cli.workflow import workflow
from raftflow.cluster.config import ConfigError


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="raftflow")
def cli() -> None:
    """A durable workflow engine that needs nothing beside itself.

    `raftflow dev` runs a cluster on this machine; `raftflow serve` runs one node of a real one.
    The other commands talk to any node of a cluster.

    \b
    Exit status: 0 done; 1 the run failed, nothing was found, or the call was refused;
    2 wrong usage, or a setting that cannot be (flag, environment, TOML file); 3 no node gave
    an answer in time; 130 Ctrl-C. `raftflow serve` also: 70 the node ended itself;
    78 it refuses to start with what it found (token file, data directory, port), or was removed.
    """


for command in (
    *(serve, dev, workflow, namespace, token, audit, cluster, node, backup, force_recover, doctor),
    *(history, log, cert, why),
):
    cli.add_command(command)


def main() -> None:
    try:
        status = cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except click.Abort:
        click.echo("stopped", err=True)
        status = 130
    except ConfigError as error:
        click.echo(f"Error: {error}", err=True)
        status = EXIT_USAGE
    except CommandError as error:
        _show(error)
        status = error.status
    except BrokenPipeError:
        # The reader of our output (head, less) has seen enough.
        sys.stderr.close()
        status = 0
    sys.exit(status if isinstance(status, int) else 0)


def _show(error: CommandError) -> None:
    """Programs that asked for json read the error as the server sent it."""
    if isinstance(error, ServerError) and error.body and _wants_json(sys.argv):
        click.echo(json.dumps(error.body, ensure_ascii=False), err=True)
    else:
        click.echo(f"Error: {error}", err=True)


def _wants_json(arguments: list[str]) -> bool:
    joined = " ".join(arguments)
    return "-o json" in joined or "--output json" in joined or "--output=json" in joined


if __name__ == "__main__":
    main()
