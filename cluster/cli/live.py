"""What goes on being shown: drawn again and again on a terminal, one look after another elsewhere.

Whoever watches a cluster does so when nodes fail: that none answers is shown, and it goes on.
"""

import math
import os
import select
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from raftflow.cluster.cli.errors import Unreachable
from raftflow.cluster.cli.options import DURATION
from raftflow.cluster.cli.output import Block, rendered

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
Show = Callable[[Iterable[Block]], None]

QUIT = "q"


def every_options(default: str) -> Callable[[F], F]:
    """--every and --count of a command that looks again and again."""

    def decorate(command: F) -> F:
        command = click.option(
            "--count", type=click.IntRange(1), help="End after so many looks. Default: Ctrl-C ends."
        )(command)
        return click.option(
            "--every",
            type=DURATION,
            default=default,
            show_default=True,
            help="Pause between looks.",
        )(command)

    return decorate


@contextmanager
def screen(*, whole: bool = False, stays: bool = True) -> Iterator[Show]:
    """Draws on the terminal, each time in the place of the last. `whole`: it has the terminal for
    itself, and leaves it as it was. `stays`: the last view does, when it is over."""
    from rich.console import Group
    from rich.live import Live

    whole = whole and sys.stdout.isatty()
    with Live(screen=whole, transient=not stays, auto_refresh=False) as live:

        def show(blocks: Iterable[Block]) -> None:
            live.update(Group(*map(rendered, blocks)), refresh=True)

        yield show


@contextmanager
def looking(every_ms: int, count: int | None) -> Iterator[Iterator[int]]:
    """One number a look, with a pause between two; `q` at a terminal ends it. However it ends, the
    terminal is as it was."""
    with _keys() as pressed:
        yield _looks(every_ms / 1_000, count or math.inf, pressed)


def _looks(every_s: float, most: float, pressed: Callable[[float], str]) -> Iterator[int]:
    number = 0
    while True:
        yield number
        number += 1
        if number >= most or pressed(every_s) == QUIT:
            return


def unless_silent(ask: Callable[[], T]) -> T | str:
    """The answer; or why there is none for now."""
    try:
        return ask()
    except Unreachable as error:
        return str(error)


@contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """Waits so long for a key, where there is somebody who could press one."""
    try:
        import termios
        import tty

        descriptor = sys.stdin.fileno()
        if not (os.isatty(descriptor) and sys.stdout.isatty()):
            raise OSError
        before = termios.tcgetattr(descriptor)
    except (ImportError, OSError, ValueError):
        yield _sleep
        return

    def pressed(seconds: float) -> str:
        readable, _, _ = select.select([descriptor], [], [], seconds)
        return os.read(descriptor, 1).decode("latin-1") if readable else ""

    try:
        tty.setcbreak(descriptor)
        yield pressed
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _sleep(seconds: float) -> str:
    time.sleep(seconds)
    return ""
