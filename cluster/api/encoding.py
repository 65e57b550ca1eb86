"""JSON on the way out. Long lists are rendered and written in slices, so that one run with
thousands of steps does not hold up everything else on the loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

_SLICE = 100


class Rows:
    """A list of an answer whose entries are rendered one after another while it is written."""

    __slots__ = ("_items", "_render")

    def __init__(self, items: Iterable[Any], render: Callable[[Any], Any]) -> None:
        self._items = items
        self._render = render

    def __iter__(self) -> Any:
        return map(self._render, self._items)


def _listed(value: Any) -> list[Any]:
    """Rows within rows: those of a task in a list of tasks."""
    assert isinstance(value, Rows), type(value)
    return list(value)


# Made once: json.dumps makes one for each call that sets anything.
_ENCODER = json.JSONEncoder(separators=(",", ":"), default=_listed)


def encode(body: Any) -> bytes:
    return _ENCODER.encode(body).encode("ascii")


async def encode_answer(body: dict[str, Any]) -> bytes:
    """The JSON text of an answer; its `Rows` come last."""
    rows = {name: value for name, value in body.items() if isinstance(value, Rows)}
    if not rows:
        return encode(body)
    plain = {name: value for name, value in body.items() if name not in rows}
    pieces = [encode(plain)[:-1]]
    separator = b"," if plain else b""
    for name, values in rows.items():
        pieces.append(separator + encode(name) + b":[")
        separator = b","
        await _add(pieces, iter(values))
        pieces.append(b"]")
    pieces.append(b"}")
    return b"".join(pieces)


async def _add(pieces: list[bytes], values: Any) -> None:
    slice_ = list(islice(values, _SLICE))
    while slice_:
        pieces.append(encode(slice_)[1:-1])
        full = len(slice_) == _SLICE
        if full:
            await asyncio.sleep(0)
        slice_ = list(islice(values, _SLICE)) if full else []
        if slice_:
            pieces.append(b",")
