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
    """Rows of an answer that is written in one piece."""
    assert isinstance(value, Rows), type(value)
    return list(value)


# Made once: json.dumps makes one for each call that sets anything.
_ENCODER = json.JSONEncoder(separators=(",", ":"), default=_listed)


def encode(body: Any) -> bytes:
    return _ENCODER.encode(body).encode("ascii")


async def encode_answer(body: dict[str, Any]) -> bytes:
    """The JSON text of an answer; what is long comes last."""
    long = {name: value for name, value in body.items() if _is_long(value)}
    if not long:
        return encode(body)
    plain = {name: value for name, value in body.items() if name not in long}
    pieces = [encode(plain)[1:-1]] if plain else []
    for name, value in long.items():
        text = await (_encode_rows(value) if isinstance(value, Rows) else encode_answer(value))
        pieces.append(encode(name) + b":" + text)
    return b"{" + b",".join(pieces) + b"}"


async def _encode_rows(rows: Rows) -> bytes:
    pieces: list[bytes] = []
    values = iter(rows)
    while slice_ := list(islice(values, _SLICE)):
        if _is_long(slice_[0]):  # tasks in a list of tasks: each may have thousands of steps
            for each in slice_:
                pieces.append(await encode_answer(each))
                await asyncio.sleep(0)
            continue
        if pieces:
            await asyncio.sleep(0)
        pieces.append(encode(slice_)[1:-1])
    return b"[" + b",".join(pieces) + b"]"


def _is_long(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_is_long(each) for each in value.values())
    return isinstance(value, Rows)
