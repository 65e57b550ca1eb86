"""The node's own hosted workflows take their tasks like any worker, without a socket between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import structlog

from raftflow.cluster.api import views
from raftflow.cluster.api.decisions import COMPLETION_FIELDS, parse_answer, parse_token
from raftflow.cluster.api.encoding import Rows
from raftflow.cluster.api.handlers import tasks
from raftflow.cluster.api.handlers.common import register_types
from raftflow.cluster.api.services import NodeServices
from raftflow.cluster.api.status import ApiError
from raftflow.cluster.api.validation import Fields
from raftflow.cluster.dispatch import Poll
from raftflow.engine.commands import RegisterTypes
from raftflow.engine.ids import DEFAULT_NAMESPACE, DEFAULT_TASK_QUEUE

log = structlog.get_logger("raftflow.hosted")

# Answers that another try may change; all others are settled.
_PASSING = frozenset({"UNAVAILABLE", "MAYBE_APPLIED", "OVERLOADED"})


class HostedTasks:
    """A `TaskSource` over the handlers, in the default namespace."""

    def __init__(self, node: NodeServices) -> None:
        self._node = node

    async def poll(self, types: Sequence[str], worker_id: str) -> dict[str, Any] | None:
        """A workflow task as JSON, or None. Registers the types first."""
        names = tuple(types)
        await register_types(
            self._node, RegisterTypes(namespace=DEFAULT_NAMESPACE, workflow_types=names)
        )
        poll = Poll(
            namespace=DEFAULT_NAMESPACE,
            task_queue=DEFAULT_TASK_QUEUE,
            names=names,
            worker_id=worker_id,
        )
        found = await tasks.poll_decision(self._node, poll)
        if not found:
            return None
        body = views.decision_task(found[0])
        return {name: list(it) if isinstance(it, Rows) else it for name, it in body.items()}

    async def complete(self, body: dict[str, Any]) -> None:
        """Apply a decision; one that came too late or is refused is logged and settled."""
        try:
            fields = Fields(body, COMPLETION_FIELDS)
            await tasks.complete_decision(
                self._node,
                parse_token(fields, DEFAULT_NAMESPACE),
                lambda task: (parse_answer(fields, task, self._node.config), None),
            )
        except ApiError as error:
            if error.reason in _PASSING:
                raise
            log.info("hosted_decision_refused", reason=error.reason, error=str(error))
