"""Calls that wait for a history to grow. One subscription to the replica wakes them all."""

from __future__ import annotations

import asyncio
from typing import Any

from raftflow.cluster.api.services import NodeServices
from raftflow.engine.commands import Batch
from raftflow.engine.effects import HistoryGrew
from raftflow.engine.ids import RunKey


class Watch:
    """Waiting calls by run. A call that hangs up is cancelled and leaves nothing behind."""

    def __init__(self) -> None:
        self._waiting: dict[RunKey, set[asyncio.Future[None]]] = {}

    def on_applied(self, applied: Any, batch: Batch) -> None:
        if not self._waiting:
            return
        for effect in applied.effects:
            if isinstance(effect, HistoryGrew):
                for future in self._waiting.get(effect.run, ()):
                    if not future.done():
                        future.set_result(None)

    async def grown(self, node: NodeServices, run: RunKey, *, beyond: int, timeout_ms: int) -> bool:
        """Wait until the run's history is longer than ``beyond`` or the run has closed."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1_000
        while True:
            future = loop.create_future()
            waiting = self._waiting.setdefault(run, set())
            waiting.add(future)
            try:
                seen = await node.replica.run_view(run.namespace, run.workflow_id, run.run_id)
                if seen is None or not seen.open or seen.history_length > beyond:
                    return True
                async with asyncio.timeout_at(deadline):
                    await future
            except TimeoutError:
                return False
            finally:
                waiting.discard(future)
                if not waiting and self._waiting.get(run) is waiting:
                    del self._waiting[run]
