"""Forgetting closed runs, one or all of an id."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from raftflow.cluster.api.handlers.common import check_namespace, execute
from raftflow.cluster.api.services import NodeServices
from raftflow.cluster.api.status import ApiError
from raftflow.engine.commands import DeleteRun
from raftflow.engine.ids import WorkflowKey
from raftflow.engine.rejections import Done

_PAUSE_S = 0.02


async def delete(
    node: NodeServices, namespace: str, workflow_id: str, *, run_id: str, request_id: str
) -> int:
    """How many runs were forgotten. Without ``run_id`` all of the id, the newest last: it alone
    carries the request id as the caller gave it, so that a repeated call finds its answer.

    The log is asked for that answer before any older run goes, and the older runs were listed
    before it was asked. So whatever goes was there before the call was first carried out: a repeat
    touches no run of an id that began again since."""
    command = DeleteRun(
        namespace=namespace, workflow_id=workflow_id, run_id=run_id, request_id=request_id
    )
    if run_id:
        return await _forget(node, command)
    older = await _older(node, WorkflowKey(namespace, workflow_id))
    try:
        return await _forget(node, command)
    except ApiError as error:
        if error.reason != "OLDER_RUNS_KEPT" or not older:
            raise
    for each in older:
        await _forget_older(node, namespace, workflow_id, each)
    return await _forget(node, replace(command, older=len(older)))


async def _older(node: NodeServices, workflow: WorkflowKey) -> list[str]:
    """All runs but the newest, oldest first. None of them goes while the newest is open."""
    index = await node.reads.linearizable()
    newest = await node.replica.run_view(workflow.namespace, workflow.workflow_id)
    if newest is None:
        await check_namespace(node, workflow.namespace)
    if newest is None or newest.open:
        return []  # the engine refuses, unless it knows that this very call was answered before
    await node.replica.written(index)
    found = await node.store.run_ids_of(workflow)
    return [run_id for run_id in found if run_id != newest.key.run_id]


async def _forget_older(node: NodeServices, namespace: str, workflow_id: str, run_id: str) -> None:
    command = DeleteRun(
        namespace=namespace, workflow_id=workflow_id, run_id=run_id, request_id=f"delete.{run_id}"
    )
    try:
        await _forget(node, command)
    except ApiError as error:
        if error.reason != "WORKFLOW_NOT_FOUND":  # somebody else was faster
            raise


async def _forget(node: NodeServices, command: DeleteRun) -> int:
    """How many runs went with the call, as the log remembers it. What a closed run owes to others
    is on its way and worth a moment's patience."""
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + node.config.leader_wait_ms / 1_000
    while True:
        try:
            answer = await execute(node, command)
            assert isinstance(answer, Done)
            return answer.forgotten
        except ApiError as error:
            if error.reason != "MESSAGES_PENDING" or loop.time() > give_up_at:
                raise
        await asyncio.sleep(_PAUSE_S)
