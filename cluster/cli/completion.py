"""`raftflow completion`: what a shell needs to complete commands, options and names."""

import click
from click.shell_completion import get_completion_class

from raftflow.cluster.cli.options import output_option
from raftflow.cluster.cli.output import Printer

SHELLS = ("bash", "zsh", "fish")
PROGRAM = "raftflow"
# Where click's main looks when the shell asks.
VARIABLE = "_RAFTFLOW_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@output_option
@click.pass_context
def completion(context: click.Context, printer: Printer, shell: str) -> None:
    """Print the completion script of SHELL.

    It completes commands and options, and asks the cluster (--address or RAFTFLOW_ADDRESS) for ids
    of runs, nodes and tokens, queues, types and namespaces.

    \b
    In ~/.bashrc (bash 4.4 or newer):    eval "$(raftflow completion bash)"
    In ~/.zshrc, behind compinit:        eval "$(raftflow completion zsh)"
    In ~/.config/fish/config.fish:       raftflow completion fish | source
    """
    made = get_completion_class(shell)
    assert made is not None
    script = made(context.find_root().command, {}, PROGRAM, VARIABLE).source()
    if printer.format == "json":
        printer.document({"shell": shell, "script": script})
    else:
        click.echo(script)
