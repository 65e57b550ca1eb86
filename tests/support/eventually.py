"""Wait for a condition with a deadline; never sleep for luck."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def eventually(
    condition: Callable[[], T], what: str = "", *, within_s: float = 60.0, every_s: float = 0.005
) -> T:
    """The first true value of `condition`."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while True:
        value = condition()
        if value:
            return value
        if loop.time() > deadline:
            raise AssertionError(f"not within {within_s} s: {what or condition}")
        await asyncio.sleep(every_s)
