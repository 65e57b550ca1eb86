"""How sentences say times, counts, names and commands."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from raftflow.engine.ids import DEFAULT_NAMESPACE

_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000
_FEW = 5
_SHOWN_CHARACTERS = 200
_BACKQUOTE = r"\x60"


def span(ms: int) -> str:
    """A duration in the unit that people would use: `850 ms`, `12 s`, `4 min`, `3 h`, `2 days`."""
    if ms < _SECOND:
        return f"{max(0, ms)} ms"
    if ms < 2 * _MINUTE:
        return f"{ms / _SECOND:.0f} s"
    if ms < 2 * _HOUR:
        return f"{ms / _MINUTE:.0f} min"
    if ms < 2 * _DAY:
        return f"{ms / _HOUR:.0f} h"
    return f"{ms / _DAY:.0f} days"


def moment(ms: int) -> str:
    """To the second, in UTC: `2026-03-01 12:00:05 UTC`."""
    return datetime.fromtimestamp(ms // _SECOND, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def at(ms: int, now_ms: int) -> str:
    """`2026-03-01 12:00:05 UTC (in 12 s)` or `... (3 s ago)`."""
    away = f"in {span(ms - now_ms)}" if ms >= now_ms else f"{span(now_ms - ms)} ago"
    return f"{moment(ms)} ({away})"


def count(number: int, one: str, many: str = "") -> str:
    """`1 task`, `1,204 tasks`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def names(given: Iterable[str], most: int = _FEW) -> str:
    """`a, b and c`; of many the first ones, and how many more."""
    known = list(given)
    if len(known) > most:
        return f"{', '.join(known[:most])} and {len(known) - most} more"
    return " and ".join([", ".join(known[:-1]), known[-1]] if len(known) > 1 else known)


def quoted(text: str) -> str:
    """What people chose, so that a sentence cannot be mistaken for it, and no part of it for a
    command: those stand in backquotes."""
    return f"'{_on_one_line(text).replace('`', _BACKQUOTE)}'"


def shortened(text: str) -> str:
    """A sentence of somebody else's on one line, in which nothing steers how it is shown."""
    return _on_one_line(text).rstrip(".")


def _on_one_line(text: str) -> str:
    shown = text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in shown
    )


def command(
    verb: str,
    *given: str,
    options: Sequence[str] = (),
    namespace: str = DEFAULT_NAMESPACE,
    run_id: str = "",
) -> str:
    """A command line that can be pasted into a shell. ``given`` are names that people chose, which
    may look like options."""
    more = [*options]
    if namespace != DEFAULT_NAMESPACE:
        more += ["--namespace", namespace]
    if run_id:
        more += ["--run-id", run_id]
    like_options = any(each.startswith("-") for each in given)
    words = [*more, "--", *given] if like_options else [*given, *more]
    return f"`{' '.join(map(_pasted, ['raftflow', *verb.split(), *words]))}`"


def _pasted(word: str) -> str:
    """A backquote would end the command for whoever reads it out of a sentence: bash, zsh and fish
    know another way to write it."""
    if "`" not in word:
        return shlex.quote(word)
    parts = [shlex.quote(part) if part else "" for part in word.split("`")]
    return "\"$(printf '\\140')\"".join(parts)
