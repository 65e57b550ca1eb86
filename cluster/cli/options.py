"""Options that every client verb shares."""

import functools
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from raftflow.cluster.cli import offers
from raftflow.cluster.cli.client import DEFAULT_ADDRESS, Client, payload_field
from raftflow.cluster.cli.output import FORMATS, Printer
from raftflow.cluster.config_sources import milliseconds
from raftflow.cluster.printable import printable

_OUTPUT = click.option(
    "-o",
    "--output",
    type=click.Choice(FORMATS),
    help="Output format. Default: table on a terminal, plain otherwise.",
)
_CONNECTION = (
    click.option(
        "--address",
        "addresses",
        multiple=True,
        metavar="HOST:PORT",
        help="HTTP address of a node, or several with commas, for fail-over; https://HOST:PORT "
        f"where nodes speak TLS. Default: RAFTFLOW_ADDRESS, else {DEFAULT_ADDRESS}.",
    ),
    click.option(
        "--ca-file",
        type=click.Path(path_type=Path, dir_okay=False),
        envvar="RAFTFLOW_CA_FILE",
        show_envvar=True,
        help="PEM certificates to trust behind https:// instead of the system's.",
    ),
    click.option(
        "--cert-file",
        type=click.Path(path_type=Path, dir_okay=False),
        envvar="RAFTFLOW_CERT_FILE",
        show_envvar=True,
        help="Certificate to show, where nodes ask for one.",
    ),
    click.option(
        "--key-file",
        type=click.Path(path_type=Path, dir_okay=False),
        envvar="RAFTFLOW_KEY_FILE",
        show_envvar=True,
        help="Private key of --cert-file.",
    ),
    click.option(
        "--namespace",
        envvar="RAFTFLOW_NAMESPACE",
        show_envvar=True,
        default="",
        shell_complete=offers.namespaces,
    ),
    click.option(
        "--token", envvar="RAFTFLOW_TOKEN", show_envvar=True, default="", help="Bearer token."
    ),
)


def output_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds -o and hands the command a Printer."""

    @functools.wraps(command)
    def wrapped(*args: Any, output: str | None, **kwargs: Any) -> Any:
        return command(*args, printer=Printer(output), **kwargs)

    return _OUTPUT(wrapped)


def client_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the connection options and -o; hands the command a Client and a Printer."""

    @functools.wraps(command)
    def wrapped(
        *args: Any,
        addresses: tuple[str, ...],
        ca_file: Path | None,
        cert_file: Path | None,
        key_file: Path | None,
        namespace: str,
        token: str,
        **kwargs: Any,
    ) -> Any:
        client = _connect(
            addresses,
            ca_file=ca_file,
            cert_file=cert_file,
            key_file=key_file,
            namespace=namespace,
            token=token,
        )
        try:
            return command(*args, client=client, **kwargs)
        finally:
            client.close()

    decorated = output_option(wrapped)
    for option in reversed(_CONNECTION):
        decorated = option(decorated)
    return decorated


def _connect(
    addresses: tuple[str, ...],
    *,
    ca_file: Path | None,
    cert_file: Path | None,
    key_file: Path | None,
    namespace: str,
    token: str,
) -> Client:
    text = ",".join(addresses) or os.environ.get("RAFTFLOW_ADDRESS", "")
    given = text.replace(",", " ").split()
    try:
        return Client(
            given or [DEFAULT_ADDRESS],
            namespace=namespace,
            token=token,
            ca_file=ca_file,
            cert_file=cert_file,
            key_file=key_file,
            on_delay=_say if sys.stderr.isatty() else None,
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _say(text: str) -> None:
    click.secho(printable(text), err=True, dim=True)


class Duration(click.ParamType[int]):
    """A number with ms, s, m, h or d. Without a unit one would say seconds and get milliseconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if str(value).strip().isdigit():
            self.fail(f"{value!r} has no unit: write {value}s or {value}ms", param, ctx)
        try:
            return milliseconds(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


DURATION = Duration()


class Pair(click.ParamType[tuple[str, str]]):
    name = "NAME=VALUE"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        name, equals, text = str(value).partition("=")
        if not name or not equals:
            self.fail(f"{value!r} is not NAME=VALUE", param, ctx)
        return name, text


PAIR = Pair()


class Attribute(click.ParamType[tuple[str, Any]]):
    """`amount=12.5` is a number, `vip=true` a boolean, `city=Rome` and `zip="007"` are text."""

    name = "NAME=VALUE"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, Any]:
        name, text = PAIR.convert(value, param, ctx)
        try:
            parsed = json.loads(text)
        except ValueError:
            return name, text
        return name, parsed if isinstance(parsed, str | int | float | bool) else text


ATTRIBUTE = Attribute()


class Memo(click.ParamType[dict[str, Any]]):
    name = "JSON"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, Any]:
        try:
            parsed = json.loads(value)
        except ValueError as error:
            self.fail(f"{value!r} is not JSON: {error}", param, ctx)
        if not isinstance(parsed, dict):
            self.fail(f"{value!r} is not a JSON object", param, ctx)
        return parsed


MEMO = Memo()


workflow_id_argument = click.argument(
    "workflow_id", metavar="ID", shell_complete=offers.workflow_ids
)


def not_empty(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """A variable of a script that is not set must not mean the default."""
    given = ctx.get_parameter_source(str(param.name)) is not ParameterSource.DEFAULT
    if given and not value:
        raise click.BadParameter("is empty", ctx, param)
    return value


run_id_option = click.option(
    "--run-id", default="", help="One run of this id; default: the newest."
)


def payload_option(name: str, text: str | None, file: Path | None) -> dict[str, str]:
    """The payload that two options give, as text or as a file."""
    if text is not None and file is not None:
        raise click.UsageError(f"--{name} and --{name}-file exclude each other")
    if file is not None:
        try:
            content = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        except OSError as error:
            raise click.UsageError(f"--{name}-file: {file}: {error.strerror}") from None
        return payload_field(name, content)
    # An argument that is not UTF-8 comes with surrogates, which stand for its bytes.
    return {} if text is None else payload_field(name, text.encode("utf-8", "surrogateescape"))
