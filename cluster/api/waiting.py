"""Calls that may wait for long: polls, streams, watched histories. They end when their node stops
or their caller's token does, and then say why."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raftflow.cluster.api.auth import Caller


@dataclass(slots=True, eq=False)
class _Held:
    caller: Caller
    task: asyncio.Task[Any]
    why: Exception | None = None


class WaitingCalls:
    def __init__(self) -> None:
        self._held: set[_Held] = set()

    def __len__(self) -> int:
        return len(self._held)

    @contextmanager
    def waits(self, caller: Caller) -> Iterator[None]:
        """Around what the running task awaits for this caller."""
        task = asyncio.current_task()
        assert task is not None
        held = _Held(caller, task)
        self._held.add(held)
        try:
            yield
        except asyncio.CancelledError:
            if held.why is None:
                raise
            task.uncancel()
            raise held.why from None
        finally:
            self._held.discard(held)

    def end(self, why: Callable[[Caller], Exception | None]) -> None:
        """End the calls for which there is a reason."""
        for held in list(self._held):
            if held.why is None and (reason := why(held.caller)) is not None:
                held.why = reason
                held.task.cancel()
