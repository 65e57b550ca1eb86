"""Tasks: what workers poll for and complete."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from raftflow.cluster.api.handlers.common import check_namespace, execute, execute_patiently
from raftflow.cluster.api.limits import MAX_POLL_MS
from raftflow.cluster.api.services import NodeServices
from raftflow.cluster.api.status import ApiError
from raftflow.engine.commands import CompleteActivity, CompleteDecision

# How long a poll for several tasks waits for more once it has one.
_GATHER_S = 0.005


@dataclass(frozen=True, slots=True)
class Poll:
    """Who asks for which work. Empty ``names`` means any."""

    namespace: str
    task_queue: str
    names: tuple[str, ...]
    worker_id: str
    request_id: str = ""
    timeout_ms: int = MAX_POLL_MS

    def waiting(self, timeout_ms: int) -> Poll:
        """The same question, asked for so long."""
        return replace(self, timeout_ms=timeout_ms)


async def poll_decision(node: NodeServices, poll: Poll) -> Any | None:
    await check_namespace(node, poll.namespace)
    return await node.dispatch.poll_decision(
        poll.namespace,
        poll.task_queue,
        poll.names,
        poll.worker_id,
        request_id=poll.request_id,
        timeout_ms=poll.timeout_ms,
    )


async def poll_activity(node: NodeServices, poll: Poll) -> Any | None:
    await check_namespace(node, poll.namespace)
    return await node.dispatch.poll_activity(
        poll.namespace,
        poll.task_queue,
        poll.names,
        poll.worker_id,
        request_id=poll.request_id,
        timeout_ms=poll.timeout_ms,
    )


async def poll_activities(node: NodeServices, poll: Poll, most: int) -> list[Any]:
    """Up to ``most`` tasks: the first that comes, and what else is there at that moment."""
    polls = [asyncio.create_task(poll_activity(node, poll)) for _ in range(most)]
    try:
        await asyncio.wait(polls, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait(polls, timeout=_GATHER_S)
    except asyncio.CancelledError:
        tasks, _ = await _end(polls)
        for task in tasks:
            node.dispatch.return_task(task.namespace, task.workflow_id, task.token)
        raise
    tasks, error = await _end(polls)
    if error is not None and not tasks:
        raise error
    return tasks


async def _end(
    polls: list[asyncio.Task[Any | None]],
) -> tuple[list[Any], BaseException | None]:
    """Stop what still waits: the tasks that came, and an error when there was one."""
    for poll in polls:
        poll.cancel()
    await asyncio.wait(polls)
    ended = [poll for poll in polls if not poll.cancelled()]
    errors = [poll.exception() for poll in ended if poll.exception() is not None]
    tasks = [poll.result() for poll in ended if poll.exception() is None]
    return [task for task in tasks if task is not None], errors[0] if errors else None


async def complete_decision(
    node: NodeServices, task: CompleteDecision, read: Callable[[CompleteDecision], CompleteDecision]
) -> None:
    """``read`` adds the answer to the task. When that fails the task is offered again, with a
    growing pause, instead of sitting out its deadline; and the worker is told what is wrong."""
    try:
        command = read(task)
    except ApiError as problem:
        with contextlib.suppress(ApiError):  # it was not this worker's task any more
            await execute(node, replace(task, unreadable=str(problem)))
        raise
    await execute_patiently(node, command)


async def complete_activity(node: NodeServices, command: CompleteActivity) -> None:
    await execute_patiently(node, command)


async def heartbeat(
    node: NodeServices,
    *,
    namespace: str,
    workflow_id: str,
    lease_token: str,
    worker_id: str,
    details: bytes | None,
) -> None:
    await node.dispatch.heartbeat(namespace, workflow_id, lease_token, worker_id, details)
