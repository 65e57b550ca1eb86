"""Sliced or not, the JSON text is the same."""

from __future__ import annotations

import asyncio
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


async def test_long_lists_leave_room_for_others_however_deep_they_stand() -> None:
    def task(number: int) -> dict[str, Any]:
        return {"steps": Rows(range(250), abs), "task": number}

    body = {"status": "completed", "workflow_task": task(0), "tasks": Rows(range(3), task)}
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    others = asyncio.create_task(count())
    said = json.loads(await encode_answer(body))
    others.cancel()
    expected = [{"steps": [*range(250)], "task": number} for number in range(3)]
    assert said == {"status": "completed", "workflow_task": expected[0], "tasks": expected}
    assert turns >= 4 * 2  # each of the lists is written in three pieces


async def test_many_tasks_of_middling_length_leave_room_too() -> None:
    body = {"tasks": Rows(range(20), lambda _: {"steps": Rows(["x" * 1_000] * 99, str)})}
    writing = asyncio.create_task(encode_answer(body))
    turns = 0
    while not writing.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns > 5  # 2 MB


@pytest.mark.parametrize("value", ["ä", "🙂", "\x7f", "\u2028"])
def test_answers_are_ascii(value: str) -> None:
    assert encode({"x": value}).isascii()


async def test_rows_within_rows_and_within_objects() -> None:
    def task(number: int) -> dict[str, Any]:
        return {"steps": Rows(range(number), abs), "n": number}

    body = {"tasks": Rows([1, 2], task), "workflow_task": task(3), "status": "completed"}
    assert json.loads(await encode_answer(body)) == {
        "tasks": [{"n": 1, "steps": [0]}, {"n": 2, "steps": [0, 1]}],
        "workflow_task": {"n": 3, "steps": [0, 1, 2]},
        "status": "completed",
    }


async def test_the_loop_has_its_turn_between_large_rows() -> None:
    """A few dozen rows of megabytes would hold up everything on the loop for seconds."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    rows = Rows(["x" * 300_000] * 20, lambda text: {"output": text})
    await encode_answer({"tasks": Rows([rows], lambda steps: {"steps": steps})})
    beside.cancel()
    assert turns >= 19
