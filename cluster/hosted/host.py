"""Runs the hosted workflow types of a node: takes their decisions like any worker, in-process."""

import asyncio
import uuid
from collections.abc import Sequence
from typing import Any, Protocol

import structlog

from raftflow.cluster.hosted.pool import ReplayFailed, ReplayPool

logger = structlog.get_logger()

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
# With these tries a completion outlives an election; later the task is handed out again anyway.
COMPLETION_TRIES = 5


class TaskSource(Protocol):
    """The node's own handlers of the workflow task API.

    Both raise for what may work when tried again (no leader). `complete` returns for what is
    settled: applied, stale, or refused for good.
    """

    async def poll(self, types: Sequence[str], worker_id: str) -> dict[str, Any] | None: ...

    async def complete(self, body: dict[str, Any]) -> None: ...


class HostedWorkflows:
    """As many loops as the pool has processes; each polls, replays and completes."""

    def __init__(
        self, pool: ReplayPool, tasks: TaskSource, *, loops: int = 1, worker_id: str | None = None
    ) -> None:
        self._pool = pool
        self._tasks = tasks
        self._loops = loops
        self._worker_id = worker_id or f"hosted-{uuid.uuid4().hex[:8]}"

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._loops):
                group.create_task(self._loop(), name=f"hosted-workflows-{number}")

    async def _loop(self) -> None:
        pause = FIRST_PAUSE_S
        while True:
            try:
                task = await self._tasks.poll(self._pool.types, self._worker_id)
                pause = FIRST_PAUSE_S
                if task is not None:
                    await self._complete(await self._decide(task))
            except Exception as err:  # noqa: BLE001 - the loop outlives what the node goes through
                logger.warning(
                    "hosted_workflows_paused", error=repr(err), pause_ms=int(pause * 1000)
                )
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE_S)

    async def _decide(self, task: dict[str, Any]) -> dict[str, Any]:
        try:
            return await self._pool.decide(task["workflow_type"], task)
        except ReplayFailed as err:
            # Parked as UNKNOWN, not failed: repaired code can still carry the run on.
            return {
                "workflow_id": task["workflow_id"],
                "task_token": task["task_token"],
                "commands": [],
                "replay_error": str(err),
                "replay_error_kind": "nondeterminism",
            }

    async def _complete(self, body: dict[str, Any]) -> None:
        pause = FIRST_PAUSE_S
        for tries_left in reversed(range(COMPLETION_TRIES)):
            try:
                await self._tasks.complete(body)
                return
            except Exception as err:
                if not tries_left:
                    raise
                logger.info("hosted_decision_retried", error=repr(err))
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE_S)
