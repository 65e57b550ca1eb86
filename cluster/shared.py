"""An answer that many ask for at once is made once, and serves whoever asks soon after."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

_MOST = 64  # keys: who asks for ever other things is answered, and nothing is kept


class Shared(Generic[K, T]):
    """Of each key the answer that is being made, or that was made less than ``fresh_s`` ago. A
    caller that hangs up takes nothing from the others."""

    def __init__(self, make: Callable[[K], Awaitable[T]], *, fresh_s: float) -> None:
        self._make = make
        self._fresh_s = fresh_s
        self._made: dict[K, tuple[float, asyncio.Task[T]]] = {}

    async def get(self, key: K) -> T:
        now = asyncio.get_running_loop().time()
        until, task = self._made.get(key, (0.0, None))
        if task is None or (task.done() and (now >= until or _failed(task))):
            if len(self._made) >= _MOST:
                self._made.clear()
            task = asyncio.ensure_future(self._answer(key))
            self._made[key] = (now + self._fresh_s, task)
        return await asyncio.shield(task)

    async def _answer(self, key: K) -> T:
        return await self._make(key)


def _failed(task: asyncio.Task[T]) -> bool:
    return task.cancelled() or task.exception() is not None
