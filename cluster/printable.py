"""Text from outside where people read it: it cannot steer a terminal, nor hide in what it shows.

Control characters, those that turn the direction of text round, and all that take no room stand as
their escapes: on a terminal, in what programs get as JSON, and in the log of a node.
"""

from __future__ import annotations

import json
import re
from typing import Any

# What needs a look: neither plain ASCII nor the end of a line.
_SUSPECT = re.compile(r"[^ -~]")
_SUSPECT_IN_JSON = re.compile(r"[^ -~\n]")
# Letters and marks to Unicode, so that `isprintable` lets them pass, and yet nothing is to be seen.
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U0001d159\U000e0100-\U000e01ef]"
)


def printable(value: Any) -> str:
    """One line of text that cannot steer the terminal it is printed on."""
    if value is None:
        return "-"
    if isinstance(value, dict | list):
        value = json.dumps(value, ensure_ascii=False)
    return _SUSPECT.sub(_escaped, str(value))


def printable_lines(text: str) -> str:
    """The same for text whose line breaks are meant, as ours are."""
    return "\n".join(map(printable, text.split("\n")))


def json_text(document: Any, *, indent: int | None = None, ascii_only: bool = False) -> str:
    """JSON that reads as what it is: the same value, with what cannot be seen as `\\uXXXX`."""
    return escaped_json(json.dumps(document, ensure_ascii=ascii_only, indent=indent))


def escaped_json(text: str) -> str:
    return _SUSPECT_IN_JSON.sub(_escaped_in_json, text)


def _seen(character: str) -> bool:
    return character.isprintable() and not _UNSEEN.match(character)


def _escaped(found: re.Match[str]) -> str:
    character = found[0]
    return character if _seen(character) else character.encode("unicode_escape").decode()


def _escaped_in_json(found: re.Match[str]) -> str:
    character = found[0]
    return character if _seen(character) else json.dumps(character)[1:-1]
