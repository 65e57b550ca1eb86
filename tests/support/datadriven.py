"""Golden scripts: a directive and its input, `----`, and what came out, until an empty line.

    # Comments and empty lines stand between directives.
    start order-1 type=Order
    ----
    Started r1

A test runs a script with a function from directives to text. `pytest --rewrite` (or REWRITE=1 in
the environment) writes what comes out now into the script; read the difference before you commit.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

SEPARATOR = "----"


@dataclass(frozen=True, slots=True)
class Directive:
    """`verb word... key=value...`, with the lines that followed it as input."""

    verb: str
    words: tuple[str, ...]
    options: dict[str, str]
    input: tuple[str, ...]
    line: int


def parse_line(text: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """Words and options of a line. An underscore stands for a space in neither: use short words."""
    words, options = [], {}
    for piece in text.split():
        key, equals, value = piece.partition("=")
        if equals and key:
            options[key] = value
        else:
            words.append(piece)
    return tuple(words), options


def run_script(path: Path, execute: Callable[[Directive], str]) -> None:
    """Run every directive of the file in order and compare what comes out."""
    lines = path.read_text().splitlines()
    out: list[str] = []
    failures: list[str] = []
    at = 0
    while at < len(lines):
        if not lines[at].strip() or lines[at].startswith("#"):
            out.append(lines[at])
            at += 1
            continue
        start = at
        while lines[at] != SEPARATOR:
            at += 1
            assert at < len(lines), f"{path.name}:{start + 1}: no {SEPARATOR} follows"
        given, at = lines[start:at], at + 1
        expected_from = at
        while at < len(lines) and lines[at].strip():
            at += 1
        expected = lines[expected_from:at]
        words, options = parse_line(given[0])
        actual = execute(
            Directive(words[0], words[1:], options, tuple(given[1:]), start + 1)
        ).splitlines()
        out += [*given, SEPARATOR, *actual]
        if actual != expected:
            failures.append(
                f"{path.name}:{start + 1}: {given[0]}\n"
                + "\n".join(["  expected:", *expected, "  came out:", *actual])
            )
    if rewriting():
        path.write_text("\n".join(out) + "\n")
    elif failures:
        raise AssertionError("\n\n".join(failures) + "\n\n(pytest --rewrite accepts it)")


def rewriting() -> bool:
    return "--rewrite" in sys.argv or os.environ.get("REWRITE") == "1"
