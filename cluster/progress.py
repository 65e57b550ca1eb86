"""Progress details of attempts that run, on their way into the log.

A worker may beat ten times a second. The first details of a task are written at once, later ones
when two seconds have passed since the last: always the newest, so that what the next attempt is
told is at most that old. The outcome of a failed attempt is written after them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from raftflow.cluster.errors import Overloaded, Unavailable
from raftflow.engine.commands import RecordHeartbeat

EVERY_S = 2.0

Write = Callable[[RecordHeartbeat], Awaitable[object]]


class Progress:
    """Owned by one event loop; a lease is known by its token."""

    def __init__(self, write: Write, *, every_s: float = EVERY_S) -> None:
        self._write = write
        self._every_s = every_s
        self._waiting: dict[str, RecordHeartbeat | None] = {}  # None: nothing since the last
        self._turns: set[asyncio.Task[None]] = set()

    async def report(self, details: RecordHeartbeat) -> None:
        """Raises Unavailable or Overloaded when these are the first and cannot be written."""
        token = details.lease_token
        if token in self._waiting:
            self._waiting[token] = details
            return
        self._waiting[token] = None
        try:
            await self._write(details)
        except BaseException:
            del self._waiting[token]
            raise
        turn = asyncio.create_task(self._take_turns(token), name="progress")
        self._turns.add(turn)
        turn.add_done_callback(self._turns.discard)

    async def settle(self, token: str) -> None:
        """Write now what waits for this lease: its attempt has ended."""
        details = self._waiting.get(token)
        if details is not None:
            self._waiting[token] = None
            await self._write(details)

    async def _take_turns(self, token: str) -> None:
        try:
            while True:
                await asyncio.sleep(self._every_s)
                details = self._waiting[token]
                if details is None:
                    return
                self._waiting[token] = None
                try:
                    await self._write(details)
                except (Unavailable, Overloaded):
                    if self._waiting[token] is None:
                        self._waiting[token] = details
        finally:
            del self._waiting[token]
