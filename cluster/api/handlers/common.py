"""Steps that every handler takes."""

from __future__ import annotations

import uuid

from raftflow.cluster.api.services import NodeServices
from raftflow.cluster.api.status import ApiError, of_rejection
from raftflow.engine.commands import Command
from raftflow.engine.ids import DEFAULT_NAMESPACE
from raftflow.engine.rejections import Done, Granted, Rejection, Started


async def execute(node: NodeServices, command: Command) -> Started | Done | Granted:
    """Run a command through the log; a rejection becomes the caller's error."""
    answer = await node.forwarder.execute(command)
    if isinstance(answer, Rejection):
        raise of_rejection(answer)
    return answer


async def check_namespace(node: NodeServices, namespace: str) -> None:
    """404 for an unknown namespace, but never from a catalog that may be behind."""
    if namespace == DEFAULT_NAMESPACE or namespace in node.replica.catalog.namespaces:
        return
    await node.reads.linearizable()
    if namespace not in node.replica.catalog.namespaces:
        raise ApiError("NAMESPACE_NOT_FOUND", f"namespace {namespace} does not exist")


def new_request_id() -> str:
    """For callers that sent none: the command still takes effect once."""
    return uuid.uuid4().hex
