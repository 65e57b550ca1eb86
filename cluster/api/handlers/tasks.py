"""Tasks: what workers poll for and complete."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from raftflow.cluster.api.handlers.common import check_namespace, execute
from raftflow.cluster.api.limits import MAX_POLL_MS
from raftflow.cluster.api.services import NodeServices
from raftflow.cluster.api.status import ApiError
from raftflow.cluster.dispatch import Poll
from raftflow.cluster.errors import FeatureUnavailable
from raftflow.cluster.features import EAGER
from raftflow.engine.commands import CompleteActivity, CompleteDecision, EagerPoll
from raftflow.engine.rejections import Done


async def poll_decision(
    node: NodeServices, poll: Poll, *, timeout_ms: int = MAX_POLL_MS
) -> Sequence[Any]:
    """Up to ``poll.most`` workflow tasks; none when none came."""
    await check_namespace(node, poll.namespace)
    return await node.dispatch.poll_decision(poll, timeout_ms=timeout_ms)


async def poll_activity(
    node: NodeServices, poll: Poll, *, timeout_ms: int = MAX_POLL_MS
) -> Sequence[Any]:
    """Up to ``poll.most`` activity tasks; none when none came."""
    await check_namespace(node, poll.namespace)
    return await node.dispatch.poll_activity(poll, timeout_ms=timeout_ms)


async def complete_decision(
    node: NodeServices,
    task: CompleteDecision,
    read: Callable[[CompleteDecision], tuple[CompleteDecision, Poll | None]],
) -> Sequence[Any]:
    """``read`` adds the answer to the task, and says what takes activities that the decision
    schedules. When that fails the task is offered again, with a growing pause, instead of sitting
    out its deadline; and the worker is told what is wrong."""
    try:
        command, eager = read(task)
        node.levels.check(command)
    except (ApiError, FeatureUnavailable) as problem:
        with contextlib.suppress(ApiError):  # it was not this worker's task any more
            await execute(node, replace(task, unreadable=str(problem)))
        raise
    if eager is None or not node.levels.allows(EAGER):
        await execute(node, command)
        return ()
    return await node.dispatch.eager_activity(eager, lambda poll: _complete(node, command, poll))


async def complete_activity(
    node: NodeServices, command: CompleteActivity, eager: Poll | None = None
) -> Sequence[Any]:
    """``eager`` takes the run's next workflow task."""
    if command.failed:
        await node.dispatch.settle(command.lease_token)
    if eager is None or not node.levels.allows(EAGER):  # what is done is never refused for it
        await execute(node, command)
        return ()
    return await node.dispatch.eager_decision(eager, lambda poll: _complete(node, command, poll))


async def _complete(
    node: NodeServices, command: CompleteDecision | CompleteActivity, eager: EagerPoll
) -> tuple[str, ...]:
    answer = await execute(node, replace(command, eager=eager))
    return answer.handed if isinstance(answer, Done) else ()


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
