"""Waiting for a history to grow."""

from __future__ import annotations

import asyncio

import pytest
from engine_harness import signal, start
from single_node import SingleNode, config_for, services

from raftflow.cluster.api.services import NodeServices
from raftflow.cluster.api.watch import Watch
from raftflow.engine.commands import RegisterTypes, TerminateRun
from raftflow.engine.ids import RunKey

KEY = RunKey("default", "order-1", "r1")


@pytest.fixture
def node(tmp_path) -> NodeServices:  # type: ignore[no-untyped-def]
    single = SingleNode()
    single.apply(RegisterTypes(namespace="default", workflow_types=("Order",)))
    single.apply(start("order-1"))
    return services(single, config_for((1, 2, 3), tmp_path))


async def test_a_waiting_call_is_woken_and_leaves_nothing_behind(node: NodeServices) -> None:
    single = node.replica
    assert isinstance(single, SingleNode)
    watch = Watch()
    node.replica.subscribe(watch.on_applied)
    waits = [
        asyncio.create_task(watch.grown(node, KEY, beyond=1, timeout_ms=10_000)) for _ in range(3)
    ]
    await asyncio.sleep(0)
    single.apply(signal("order-1", "go"))
    assert await asyncio.gather(*waits) == [True] * 3
    assert not watch._waiting


async def test_time_runs_out(node: NodeServices) -> None:
    watch = Watch()
    assert await watch.grown(node, KEY, beyond=1, timeout_ms=5) is False
    assert not watch._waiting


async def test_a_closed_run_grows_no_more(node: NodeServices) -> None:
    single = node.replica
    assert isinstance(single, SingleNode)
    single.apply(
        TerminateRun(
            namespace="default", workflow_id="order-1", run_id="", reason="", request_id=""
        )
    )
    assert await Watch().grown(node, KEY, beyond=99, timeout_ms=10_000) is True
