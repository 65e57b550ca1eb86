"""The command `raftflow`: one group a noun, each command in the module of its noun."""

import io
import sys
from itertools import pairwise

import click

from raftflow.cluster.cli.audit import audit
from raftflow.cluster.cli.backup import backup
from raftflow.cluster.cli.cert import cert
from raftflow.cluster.cli.cluster import cluster
from raftflow.cluster.cli.completion import completion
from raftflow.cluster.cli.dev import dev
from raftflow.cluster.cli.doctor import doctor
from raftflow.cluster.cli.errors import (
    EXIT_FAILED,
    EXIT_USAGE,
    CommandError,
    ServerError,
    Unreachable,
)
from raftflow.cluster.cli.history import history
from raftflow.cluster.cli.log import log
from raftflow.cluster.cli.namespace import namespace
from raftflow.cluster.cli.node import node
from raftflow.cluster.cli.queues import queue, worker
from raftflow.cluster.cli.recover import force_recover
from raftflow.cluster.cli.serve import serve
from raftflow.cluster.cli.token import token
from raftflow.cluster.cli.top import top
from raftflow.cluster.cli.why import why
from raftflow.cluster.cli.workflow import workflow
from raftflow.cluster.config import ConfigError
from raftflow.cluster.printable import json_text, printable, printable_lines


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
    *(
        serve,
        dev,
        workflow,
        queue,
        worker,
        namespace,
        token,
        audit,
        cluster,
        node,
        top,
        why,
        doctor,
    ),
    *(backup, force_recover, history, log, cert, completion),
):
    cli.add_command(command)


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that is not of UTF-8
    try:
        _check_words(sys.argv[1:])
        status = cli.main(standalone_mode=False, prog_name="raftflow")
    except click.ClickException as error:
        _show_usage(error)
        status = error.exit_code
    except click.Abort:
        click.echo("stopped", err=True)
        status = 130
    except ConfigError as error:
        _show(error)
        status = EXIT_USAGE
    except CommandError as error:
        _show(error)
        status = error.status
    except BrokenPipeError:
        # The reader of our output (head, less) has seen enough.
        sys.stderr.close()
        status = 0
    except OSError as error:  # a disk that is full, behind our output, too
        _show(CommandError(": ".join(filter(None, (error.filename, error.strerror))) or str(error)))
        status = EXIT_FAILED
    sys.exit(status if isinstance(status, int) else 0)


def _show_usage(error: click.ClickException) -> None:
    if _wants_json(sys.argv[1:]):
        click.echo(json_text({"error": error.format_message()}), err=True)
        return
    said = io.StringIO()
    error.show(said)
    click.echo(printable_lines(said.getvalue()), nl=False, err=True)


def _check_words(words: list[str]) -> None:
    """The shell passes on any bytes; names and texts are Unicode."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise click.UsageError(f"{word!a} is not UTF-8") from None


def _show(error: Exception) -> None:
    """Programs that asked for json read the error as the server sent it, and ours alike."""
    if not _wants_json(sys.argv[1:]):
        click.echo(f"Error: {printable(error)}", err=True)
        return
    body = error.body if isinstance(error, ServerError) else {}
    if isinstance(error, Unreachable):
        body = {"error": str(error), "code": "UNAVAILABLE", "maybe_applied": error.maybe_applied}
    click.echo(json_text(body or {"error": str(error)}), err=True)


def _wants_json(arguments: list[str]) -> bool:
    """Asked of the words, since the command that knew has ended."""
    if ("-o", "json") in pairwise(arguments) or ("--output", "json") in pairwise(arguments):
        return True
    return not {"-ojson", "--output=json"}.isdisjoint(arguments)


if __name__ == "__main__":
    main()
