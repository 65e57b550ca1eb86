"""Hosted workflows against a task source: polls, decisions, outages, code that cannot replay."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from raftflow.cluster.hosted import host
from raftflow.cluster.hosted.host import HostedWorkflows
from raftflow.cluster.hosted.pool import BUILTIN, ReplayPool

SUPPORT = str(Path(__file__).parents[2] / "support")
pytestmark = pytest.mark.slow


class Tasks:
    """A task source: hands out what it is given; fails as often as it is told to."""

    def __init__(self) -> None:
        self.waiting: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.completed: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.poll_failures = 0
        self.complete_failures = 0
        self.polls: list[tuple[Sequence[str], str]] = []

    async def poll(self, types: Sequence[str], worker_id: str) -> dict[str, Any] | None:
        self.polls.append((types, worker_id))
        if self.poll_failures:
            self.poll_failures -= 1
            raise ConnectionError("no leader")
        with suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                return await self.waiting.get()
        return None

    async def complete(self, body: dict[str, Any]) -> None:
        if self.complete_failures:
            self.complete_failures -= 1
            raise ConnectionError("no leader")
        self.completed.put_nowait(body)

    def offer(self, workflow_type: str) -> None:
        head = {"workflow_id": "w", "run_id": "r", "task_token": "t", "input": "order-1"}
        self.waiting.put_nowait({**head, "workflow_type": workflow_type, "steps": []})

    async def decision(self) -> dict[str, Any]:
        async with asyncio.timeout(20):
            return await self.completed.get()


@asynccontextmanager
async def hosting(tasks: Tasks, *modules: str) -> AsyncIterator[HostedWorkflows]:
    async with ReplayPool(modules, time_limit_ms=500) as pool:
        hosted = HostedWorkflows(pool, tasks)
        running = asyncio.create_task(hosted.run())
        try:
            yield hosted
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setenv("PYTHONPATH", SUPPORT)


async def test_it_decides_what_it_polls() -> None:
    tasks = Tasks()
    async with hosting(tasks, BUILTIN):
        tasks.offer("OrderSaga")
        decision = await tasks.decision()
    assert decision["commands"][0]["step_name"] == "reserve"
    assert tasks.polls[0][0] == ("OrderSaga",)


async def test_it_outlives_an_outage() -> None:
    tasks = Tasks()
    tasks.poll_failures, tasks.complete_failures = 3, 2
    async with hosting(tasks, BUILTIN):
        tasks.offer("OrderSaga")
        assert (await tasks.decision())["commands"]


async def test_a_decision_that_cannot_be_delivered_is_left_to_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(host, "COMPLETION_TRIES", 2)
    tasks = Tasks()
    tasks.complete_failures = 2
    async with hosting(tasks, BUILTIN):
        tasks.offer("OrderSaga")
        tasks.offer("OrderSaga")
        assert (await tasks.decision())["commands"]
        assert tasks.completed.empty()


async def test_code_that_cannot_be_replayed_parks_the_run() -> None:
    tasks = Tasks()
    async with hosting(tasks, BUILTIN, "hosted_workflows"):
        tasks.offer("Crashes")
        tasks.offer("OrderSaga")
        parked = await tasks.decision()
        decided = await tasks.decision()
    assert "exit status 7" in parked["replay_error"]
    assert parked["replay_error_kind"] == "nondeterminism"
    assert (parked["workflow_id"], parked["task_token"], parked["commands"]) == ("w", "t", [])
    assert decided["commands"]
