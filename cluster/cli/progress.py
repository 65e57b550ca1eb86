"""What a person sees while a command waits: the steps of a run as they end, bytes as they pass."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from raftflow.cluster.printable import printable

Steps = Callable[[dict[str, Any]], None]


@contextmanager
def watching(workflow_id: str) -> Iterator[Steps | None]:
    """A live line on stderr when that is a terminal; nothing otherwise."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True)
    done: set[tuple[str, int]] = set()
    with console.status(Text(printable(workflow_id)), spinner="dots") as live:

        def on_progress(run: dict[str, Any]) -> None:
            for step in run["steps"]:
                key = (run["run_id"], step["sequence"])
                if step["status"] != "SCHEDULED" and key not in done:
                    done.add(key)
                    mark = "✓" if step["status"] == "COMPLETED" else "✗"
                    style = "green" if mark == "✓" else "red"
                    name = printable(step["step_name"])
                    console.print(Text.assemble((mark, style), f" {name}"))
            # Why a run stands still (UNKNOWN), which no step shows.
            reason = f": {printable(run['error'])}" if run.get("error") else ""
            live.update(Text(f"{printable(workflow_id)} {run['status'].lower()}{reason}"))

        yield on_progress


# Told what is being done, and how much of it was done just now.
Measure = Callable[[str, int], None]


@contextmanager
def measuring(total: int) -> Iterator[Measure]:
    """A bar on stderr when that is a terminal; nothing otherwise."""
    if not sys.stderr.isatty():
        yield lambda _what, _size: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        *(BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()),
    )
    with Progress(*columns, console=Console(stderr=True)) as bars:
        task = bars.add_task("", total=total)

        def on_measure(what: str, size: int) -> None:
            bars.update(task, description=what, advance=size)

        yield on_measure
        bars.update(task, completed=total)
