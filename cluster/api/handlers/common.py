"""Steps that every handler takes."""

from __future__ import annotations

import uuid

from raftflow.cluster.api.services import NodeServices
from raftflow.cluster.api.status import ApiError, of_rejection, of_unavailable
from raftflow.cluster.errors import Unavailable
from raftflow.engine.commands import Command, RegisterTypes
from raftflow.engine.ids import DEFAULT_NAMESPACE
from raftflow.engine.rejections import Done, Granted, Minted, Rejection, Started


async def execute(node: NodeServices, command: Command) -> Started | Done | Granted | Minted:
    """Run a command through the log; a rejection becomes the caller's error. One that may have
    been applied names the request id, which the caller needs to ask again."""
    try:
        answer = await node.forwarder.execute(command)
    except Unavailable as error:
        request_id = getattr(command, "request_id", "")
        if not error.maybe_applied or not request_id:
            raise
        raise of_unavailable(error, request_id=request_id) from None
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


async def register_types(node: NodeServices, command: RegisterTypes) -> None:
    """No entry is written for types that are known already."""
    await check_namespace(node, command.namespace)
    known = node.replica.catalog.types
    if all((command.namespace, name) in known for name in command.workflow_types):
        return
    await execute(node, command)


def new_request_id() -> str:
    """For callers that sent none: the command still takes effect once."""
    return uuid.uuid4().hex


def new_run_id() -> str:
    return uuid.uuid4().hex
