"""JSON on the way out. Long lists are rendered and written in slices, so that one run with
thousands of steps, or with payloads of megabytes, does not hold up everything else on the loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from typing import Any

# The loop has its turn after so many rows, or so many bytes of them.
_SLICE = 100
_SLICE_BYTES = 256 << 10


class Rows:
    """A list of an answer whose entries are rendered one after another while it is written."""

    __slots__ = ("_items", "_render")

    def __init__(self, items: Iterable[Any], render: Callable[[Any], Any]) -> None:
        self._items = items
        self._render = render

    def __iter__(self) -> Any:
        return map(self._render, self._items)

    def then(self, change: Callable[[Any], Any]) -> Rows:
        """The same list, each entry changed once it is rendered."""
        render = self._render
        return Rows(self._items, lambda item: change(render(item)))


# Made once: json.dumps makes one for each call that sets anything.
_ENCODER = json.JSONEncoder(separators=(",", ":"))


def encode(body: Any) -> bytes:
    return _ENCODER.encode(body).encode("ascii")


async def encode_answer(body: dict[str, Any]) -> bytes:
    """The JSON text of an answer; the `Rows` of each object come last."""
    pieces: list[bytes] = []
    await _add_object(pieces, body)
    return b"".join(pieces)


async def _add_object(pieces: list[bytes], body: dict[str, Any]) -> None:
    long = {name: value for name, value in body.items() if _is_long(value)}
    if not long:
        pieces.append(encode(body))
        return
    plain = {name: value for name, value in body.items() if name not in long}
    pieces.append(encode(plain)[:-1])
    separator = b"," if plain else b""
    for name, value in long.items():
        pieces.append(separator + encode(name) + b":")
        separator = b","
        await (_add_rows if isinstance(value, Rows) else _add_object)(pieces, value)
    pieces.append(b"}")


async def _add_rows(pieces: list[bytes], rows: Rows) -> None:
    pieces.append(b"[")
    count = size = 0
    for row in rows:
        if count:
            pieces.append(b",")
        if count == _SLICE or size >= _SLICE_BYTES:
            await asyncio.sleep(0)
            count = size = 0
        before = len(pieces)
        if isinstance(row, dict):
            await _add_object(pieces, row)  # rows within rows: those of a task in a list of tasks
        else:
            pieces.append(encode(row))
        count += 1
        size += sum(map(len, pieces[before:]))
    pieces.append(b"]")


def _is_long(value: Any) -> bool:
    """Rows, or an object that has some, however deep."""
    if isinstance(value, dict):
        return any(_is_long(each) for each in value.values())
    return isinstance(value, Rows)
