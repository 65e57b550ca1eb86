"""What a new leader derives its duties from."""

from __future__ import annotations

import engine_harness as make
from populate import apply, populate
from replica_rig import Rig

from raftflow.cluster.store import OpenTask
from raftflow.engine.commands import ForgetRequests, StartTimer, TimerKind
from raftflow.engine.ids import RunKey
from raftflow.engine.state import TimerRow


async def all_tasks(rig: Rig, limit: int) -> list[OpenTask]:
    tasks: list[OpenTask] = []
    cursor = None
    while True:
        page = await rig.store.open_tasks(after=cursor, limit=limit)
        assert len(page.tasks) <= limit
        tasks += page.tasks
        cursor = page.cursor
        if cursor is None:
            return tasks


async def decide(rig: Rig, workflow_id: str, *commands: make.WorkflowCommand) -> None:
    run = await rig.replica.run_view("default", workflow_id)
    assert run is not None
    await apply(rig, make.grant_decision(run, nonce="d"))
    token = run.decision.token
    await apply(rig, make.complete_decision(workflow_id, token, *commands))


async def test_open_tasks_page_by_page(rig: Rig) -> None:
    await populate(rig, ["a", "b", "c"])
    await decide(rig, "b", make.activity(1, "reserve"), make.activity(2, "charge"))
    run = await rig.replica.run_view("default", "b")
    assert run is not None
    await apply(rig, make.grant_activity(run, 2, nonce="x", duration_ms=5_000))
    other = await rig.replica.run_view("default", "c")
    assert other is not None
    await apply(rig, make.grant_decision(other, nonce="y", timeout_ms=9_000))
    await rig.settle()
    lease, decision = run.steps[1].task, other.decision
    expected = [
        OpenTask(RunKey("default", "a", "run-a"), 0, 0, "Order", "default", False, "", 0),
        OpenTask(other.key, 0, 0, "Order", "default", True, decision.token, 9_000),
        OpenTask(run.key, 1, 1, "reserve", "default", False, "", 0),
        OpenTask(run.key, 2, 1, "charge", "default", True, lease.token, 5_000),
    ]
    for limit in (1, 2, 3, 100):
        assert await all_tasks(rig, limit) == expected


async def test_timers_by_time_page_by_page(rig: Rig) -> None:
    await populate(rig, ["a", "b"], execution_timeout_ms=500)
    sleep = [StartTimer(step_name="t", sequence=n, delay_ms=10 * (3 - n)) for n in (1, 2)]
    await decide(rig, "b", *sleep)
    await rig.settle()
    due = await rig.store.timers_due(2**62, limit=10)
    a, b = RunKey("default", "a", "run-a"), RunKey("default", "b", "run-b")
    armed = 1_000_002
    assert due == [
        TimerRow(b, TimerKind.STEP, 2, armed + 10),
        TimerRow(b, TimerKind.STEP, 1, armed + 20),
        TimerRow(a, TimerKind.EXECUTION_TIMEOUT, 0, 1_000_501),
        TimerRow(b, TimerKind.EXECUTION_TIMEOUT, 0, 1_000_502),
    ]
    paged: list[TimerRow] = []
    while page := await rig.store.timers_due(2**62, after=paged[-1] if paged else None, limit=1):
        paged += page
    assert paged == due
    assert await rig.store.timers_due(armed + 10, limit=10) == due[:1]


async def test_requests_are_forgotten_oldest_first_and_bounded(rig: Rig) -> None:
    await populate(rig, ["a"])
    for number in range(4):
        signal = make.signal("a", "go", request_id=f"q{number}")
        await apply(rig, signal, time_ms=rig.replica.time_ms + 1_000)
    first = await rig.store.oldest_request_ms()
    assert first == rig.replica.time_ms - 3_000 + 600_000
    later = rig.replica.time_ms + 10_000_000
    await apply(rig, ForgetRequests(before_ms=first - 1, limit=9), time_ms=later)
    assert await rig.store.oldest_request_ms() == first
    await apply(rig, ForgetRequests(before_ms=later, limit=3))
    assert await rig.store.oldest_request_ms() == first + 3_000
    await apply(rig, ForgetRequests(before_ms=later, limit=9))
    assert await rig.store.oldest_request_ms() is None
