"""One answer for all who ask at once."""

from __future__ import annotations

import asyncio

import pytest

from raftflow.cluster import shared as module
from raftflow.cluster.shared import Shared


class Maker:
    def __init__(self) -> None:
        self.made = 0
        self.gate = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self, key: str) -> str:
        self.made += 1
        number = self.made
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return f"{key}{number}"


async def test_who_asks_meanwhile_gets_the_same() -> None:
    maker = Maker()
    shared = Shared(maker, fresh_s=60)
    asked = [asyncio.create_task(shared.get("a")) for _ in range(3)]
    other = asyncio.create_task(shared.get("b"))
    await asyncio.sleep(0)
    maker.gate.set()
    assert await asyncio.gather(*asked) == ["a1"] * 3
    assert await other == "b2"
    assert await shared.get("a") == "a1"


async def test_what_is_old_is_made_anew() -> None:
    maker = Maker()
    maker.gate.set()
    shared = Shared(maker, fresh_s=0)
    assert [await shared.get("a"), await shared.get("a")] == ["a1", "a2"]


async def test_a_caller_that_hangs_up_takes_nothing_from_the_others() -> None:
    maker = Maker()
    shared = Shared(maker, fresh_s=60)
    gone, stays = asyncio.create_task(shared.get("a")), asyncio.create_task(shared.get("a"))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.sleep(0)
    maker.gate.set()
    assert await stays == "a1"


async def test_a_failure_is_not_kept() -> None:
    maker = Maker()
    maker.gate.set()
    maker.error = ValueError("no")
    shared = Shared(maker, fresh_s=60)
    with pytest.raises(ValueError, match="no"):
        await shared.get("a")
    maker.error = None
    assert await shared.get("a") == "a2"


async def test_keys_without_end_do_not_fill_the_memory() -> None:
    maker = Maker()
    maker.gate.set()
    shared = Shared(maker, fresh_s=60)
    for number in range(3 * module._MOST):
        await shared.get(str(number))
    assert len(shared._made) <= module._MOST
