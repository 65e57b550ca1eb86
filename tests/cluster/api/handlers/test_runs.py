"""Starts; what else runs.py does is tested through the routes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from single_node import SingleNode, config_for, services

from raftflow.cluster.api.handlers import runs
from raftflow.cluster.api.status import ApiError
from raftflow.engine.commands import IdConflictPolicy, IdReusePolicy, RegisterTypes, StartRun

START = StartRun(
    namespace="default",
    workflow_id="order-1",
    run_id="",
    workflow_type="OrderSaga",
    task_queue="default",
    input=b"",
    execution_timeout_ms=0,
    id_reuse_policy=IdReusePolicy.REJECT_DUPLICATE,
    id_conflict_policy=IdConflictPolicy.FAIL,
    request_id="r1",
)


async def test_a_hosted_type_that_is_still_being_loaded_is_waited_for(tmp_path: Path) -> None:
    single = SingleNode()
    node = services(single, config_for((1, 2, 3), tmp_path))
    node.hosted_known.clear()
    start = asyncio.create_task(runs.start(node, START))
    while not single.executed:
        await asyncio.sleep(0)
    await single.execute(RegisterTypes(namespace="default", workflow_types=("OrderSaga",)))
    node.hosted_known.set()
    assert (await start).started


async def test_the_wait_ends(tmp_path: Path) -> None:
    node = services(SingleNode(), config_for((1, 2, 3), tmp_path, leader_wait_ms=1))
    node.hosted_known.clear()
    with pytest.raises(ApiError, match="not registered"):
        await runs.start(node, START)
