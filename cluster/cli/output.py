"""What commands print: json for programs, tables on a terminal, plain columns otherwise.

A view is made of blocks: a sentence, fields with their names, rows with their columns. It is
printed once, or shown again and again (`live`).
"""

import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from raftflow.cluster.printable import json_text, printable, printable_lines

if TYPE_CHECKING:
    from rich.console import RenderableType

FORMATS = ("json", "table", "plain")


@dataclass(frozen=True, slots=True)
class Rows:
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    title: str = ""


Block = str | Mapping[str, Any] | Rows


class Printer:
    """Prints to stdout in the format asked for; `table` needs a terminal to be the default."""

    def __init__(self, output_format: str | None) -> None:
        self.format = output_format or ("table" if sys.stdout.isatty() else "plain")

    def document(self, document: Any) -> None:
        click.echo(json_text(document, indent=2, ascii_only=_narrow()))

    def line(self, document: Any) -> None:
        """One of many documents: programs that follow read one a line, as it comes."""
        click.echo(json_text(document, ascii_only=_narrow()))

    def view(self, blocks: Iterable[Block]) -> None:
        for block in blocks:
            if isinstance(block, str):
                self.note(block)
            elif isinstance(block, Rows):
                self.rows(block.columns, block.rows, block.title)
            else:
                self.fields(block)

    def rows(self, columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str = "") -> None:
        if self.format == "table":
            # rich takes a tenth of a second to import: only who looks at a table pays for it.
            from rich.console import Console

            Console().print(rendered(Rows(columns, rows, title)))
            return
        cells = _cells(rows)
        if title:
            click.echo(f"# {title}")
        # Columns are aligned like kubectl's; the last is never padded.
        widths = [max(map(room, each)) for each in zip(columns, *cells, strict=True)]
        for row in ([name.upper().replace(" ", "_") for name in columns], *cells):
            padded = [
                cell + " " * (width - room(cell)) for cell, width in zip(row, widths, strict=True)
            ]
            click.echo("  ".join(padded).rstrip())

    def fields(self, fields: Mapping[str, Any]) -> None:
        for label, value in _labelled(fields):
            click.echo((click.style(label, dim=True) if self.format == "table" else label) + value)

    def moment(self, time: str) -> str:
        """To the second on a terminal, exact otherwise."""
        return time[:19].replace("T", " ") if self.format == "table" else time

    def note(self, text: str) -> None:
        """For people only: programs that asked for json do not get it."""
        if self.format != "json":
            click.echo(printable(text))

    def said(self, sentence: str, /, **document: Any) -> None:
        """What was done: the sentence for people, the document for programs."""
        if self.format == "json":
            self.document(document)
        else:
            self.note(sentence)


def _narrow() -> bool:
    """Standard output has no room for all of Unicode; JSON can say it all the same."""
    return not (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")


def room(text: str) -> int:
    """How many columns a terminal needs for it."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(each) else 1 + (unicodedata.east_asian_width(each) in "WF")
        for each in text
    )


def shortened(value: Any, length: int = 60) -> str:
    text = printable(value)
    return text if len(text) <= length else text[: length - 1] + "…"


def write_exactly(content: bytes) -> None:
    """The bytes and nothing else. A terminal would obey them: there they are shown as text, line
    by line, and a last newline keeps the prompt readable."""
    if sys.stdout.isatty():
        if content:
            text = content.decode("utf-8", "backslashreplace").removesuffix("\n")
            click.echo(printable_lines(text))
        return
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


FOLDED = frozenset(
    {
        *("workflow id", "type", "step", "signal", "result", "payload", "details", "error"),
        *("queue", "worker", "namespace", "pollers", "queues"),
    }
)
STATUS_STYLES = {
    "COMPLETED": "green",
    "RUNNING": "cyan",
    "WAITING": "blue",
    "FAILED": "red",
    "TIMED_OUT": "red",
    "TERMINATED": "magenta",
    "CANCELLED": "yellow",
    "PAUSED": "yellow",
    "UNKNOWN": "bold red",
    "LEADER": "bold green",
    "CANDIDATE": "yellow",
    "LOST": "bold red",
}


def rendered(block: Block) -> "RenderableType":
    """A block as rich draws it, each text as it stands: none of it is markup."""
    from rich.table import Table
    from rich.text import Text

    if isinstance(block, str):
        return Text(printable(block))
    if not isinstance(block, Rows):
        return Text("\n").join(
            Text.assemble((label, "dim"), value) for label, value in _labelled(block)
        )
    table = Table(box=None, padding=(0, 2, 0, 0), title=block.title or None, title_justify="left")
    for name in block.columns:
        # What people chose folds; what we chose is short and stays whole.
        table.add_column(name, header_style="dim", overflow="fold", no_wrap=name not in FOLDED)
    for row in _cells(block.rows):
        table.add_row(*(Text(cell, style=STATUS_STYLES.get(cell.upper(), "")) for cell in row))
    return table


def _cells(rows: Sequence[Sequence[Any]]) -> list[list[str]]:
    return [[printable(cell) for cell in row] for row in rows]


def _labelled(fields: Mapping[str, Any]) -> list[tuple[str, str]]:
    given = {name: printable(value) for name, value in fields.items() if value not in (None, "")}
    width = max(map(len, given), default=0)
    return [(f"{name}:".ljust(width + 2), value) for name, value in given.items()]
