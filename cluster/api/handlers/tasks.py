"""Tasks: what workers poll for and complete."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from raftflow.cluster.api.handlers.common import check_namespace, execute
from raftflow.cluster.api.limits import MAX_POLL_MS
from raftflow.cluster.api.services import NodeServices
from raftflow.engine.commands import CompleteActivity, CompleteDecision, RegisterTypes

# How long a poll for several tasks waits for more once it has one.
_GATHER_S = 0.005


@dataclass(frozen=True, slots=True)
class Poll:
    """Who asks for which work. Empty ``names`` means any."""

    namespace: str
    task_queue: str
    names: tuple[str, ...]
    worker_id: str
    timeout_ms: int = MAX_POLL_MS


async def register_types(node: NodeServices, command: RegisterTypes) -> None:
    """No entry is written for types that are known already."""
    await check_namespace(node, command.namespace)
    known = node.replica.catalog.types
    if all((command.namespace, name) in known for name in command.workflow_types):
        return
    await execute(node, command)


async def poll_decision(node: NodeServices, poll: Poll) -> Any | None:
    await check_namespace(node, poll.namespace)
    return await node.dispatch.poll_decision(
        poll.namespace, poll.task_queue, poll.names, poll.worker_id, timeout_ms=poll.timeout_ms
    )


async def poll_activity(node: NodeServices, poll: Poll) -> Any | None:
    await check_namespace(node, poll.namespace)
    return await node.dispatch.poll_activity(
        poll.namespace, poll.task_queue, poll.names, poll.worker_id, timeout_ms=poll.timeout_ms
    )


async def poll_activities(node: NodeServices, poll: Poll, most: int) -> list[Any]:
    """Up to ``most`` tasks: the first that comes, and what else is there at that moment."""
    polls = [asyncio.create_task(poll_activity(node, poll)) for _ in range(most)]
    try:
        await asyncio.wait(polls, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait(polls, timeout=_GATHER_S)
    except asyncio.CancelledError:
        for task in await _end(polls):
            if task is not None and not isinstance(task, BaseException):
                node.dispatch.return_task(task.namespace, task.workflow_id, task.token)
        raise
    outcomes = await _end(polls)
    tasks = [task for task in outcomes if task is not None and not isinstance(task, BaseException)]
    if not tasks:
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome
    return tasks


async def _end(polls: list[asyncio.Task[Any | None]]) -> list[Any]:
    """Stop what still waits; what each of them came to."""
    for poll in polls:
        poll.cancel()
    return await asyncio.gather(*polls, return_exceptions=True)


async def complete_decision(node: NodeServices, command: CompleteDecision) -> None:
    await execute(node, command)


async def complete_activity(node: NodeServices, command: CompleteActivity) -> None:
    await execute(node, command)


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
