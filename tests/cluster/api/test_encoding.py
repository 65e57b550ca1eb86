"""Sliced or not, the JSON text is the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from raftflow.cluster.api.encoding import Rows, encode, encode_answer


@pytest.mark.parametrize("count", [0, 1, 99, 100, 101, 250])
async def test_rows_are_a_list(count: int) -> None:
    body: dict[str, Any] = {"b": Rows(range(count), str), "a": 1, "c": Rows((), str)}
    said = json.loads(await encode_answer(body))
    assert said == {"a": 1, "b": [str(number) for number in range(count)], "c": []}


async def test_rows_alone() -> None:
    assert await encode_answer({"runs": Rows([1, 2], abs)}) == b'{"runs":[1,2]}'


@pytest.mark.parametrize("value", ["ä", "🙂", "\x7f", "\u2028"])
def test_answers_are_ascii(value: str) -> None:
    assert encode({"x": value}).isascii()
