"""What a new leader derives its duties from."""

from __future__ import annotations

import sqlite3

import engine_harness as make
from populate import apply, child, decide, populate, terminate
from replica_rig import Rig

from raftflow.cluster.store import OpenTask, duties
from raftflow.engine.commands import CreateNamespace, ForgetRequests, StartTimer, TimerKind
from raftflow.engine.effects import SendMessage
from raftflow.engine.ids import RunKey
from raftflow.engine.limits import USUAL_PRIORITY
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


async def test_open_tasks_page_by_page(rig: Rig) -> None:
    await populate(rig, ["a", "b", "c"])
    await decide(rig, "b", make.activity(1, "reserve"), make.activity(2, "charge"))
    run = await rig.replica.run_view("default", "b")
    assert run is not None
    await apply(rig, make.grant_activity(run, 2, nonce="x", duration_ms=5_000))
    first = await rig.replica.run_view("default", "a")
    other = await rig.replica.run_view("default", "c")
    assert first is not None
    assert other is not None
    await apply(rig, make.grant_decision(other, nonce="y", timeout_ms=9_000))
    await rig.settle()
    lease, decision = run.steps[1].task, other.decision
    queued, out = ("default", False, "", 0), ("default", True)
    scheduled_ms = run.steps[0].scheduled_ms
    decided = (
        decision.token,
        9_000,
        USUAL_PRIORITY,
        other.updated_ms,
        decision.worker_id,
        decision.node,
    )
    leased = (lease.token, 5_000, USUAL_PRIORITY, lease.leased_ms, lease.worker_id, lease.node)
    assert lease.worker_id
    assert lease.node
    expected = [
        OpenTask(first.key, 0, 0, "Order", *queued, since_ms=first.updated_ms),
        OpenTask(other.key, 0, 0, "Order", *out, *decided),
        OpenTask(run.key, 1, 1, "reserve", *queued, since_ms=scheduled_ms),
        OpenTask(run.key, 2, 1, "charge", *out, *leased),
    ]
    assert lease.leased_ms >= scheduled_ms > 0
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


async def test_timers_go_on_behind_a_run_that_was_deleted_between_two_pages(rig: Rig) -> None:
    await populate(rig, ["a", "b"], execution_timeout_ms=500)
    (first,) = await rig.store.timers_due(2**62, limit=1)
    await apply(rig, terminate("a"))
    await apply(rig, make.delete("a", "run-a"))
    (second,) = await rig.store.timers_due(2**62, after=first, limit=9)
    assert second.run.workflow_id == "b"


async def test_messages_page_by_page(rig: Rig) -> None:
    await populate(rig, ["a", "b"])
    children = [child(n, workflow_id=f"child-{n}") for n in (1, 2)]
    for workflow_id in ("a", "b"):
        await decide(rig, workflow_id, *children)
    keys = [RunKey("default", name, f"run-{name}") for name in ("a", "b")]
    expected = [SendMessage(key, n, f"child-{n}", "", starts=True) for key in keys for n in (1, 2)]
    found: list[SendMessage] = []
    after: int | None = 0
    while after is not None:
        page = await rig.store.outbox(after=after, limit=3)
        found += page.messages
        after = page.cursor
    assert found == expected


async def test_open_runs_are_counted_by_namespace(rig: Rig) -> None:
    """What quotas go by, after a start as before it."""
    await apply(rig, CreateNamespace(namespace="other", retention_ms=0, request_id=""))
    await populate(rig, ["x"], namespace="other")
    await populate(rig, ["a", "b", "c"])
    await decide(rig, "a", StartTimer(step_name="t", sequence=1, delay_ms=5))  # WAITING, RUNNING
    await apply(rig, terminate("b"))
    await apply(rig, terminate("x", namespace="other"))
    counted = dict(rig.replica.catalog.open_runs)
    assert counted == {"default": 2, "other": 0}
    await rig.stop()
    await rig.start()
    found = rig.replica.catalog.open_runs
    assert {name: count for name, count in found.items() if count} == {"default": 2}


async def test_closed_runs_by_namespace_and_time(rig: Rig) -> None:
    other = CreateNamespace(namespace="other", retention_ms=0, request_id="")
    await apply(rig, other)
    await populate(rig, ["x"], namespace="other")
    await populate(rig, ["a", "b", "c", "open"])
    for workflow_id in ("c", "a", "b"):
        await apply(rig, terminate(workflow_id), time_ms=rig.replica.time_ms + 1)
    end = rig.replica.time_ms
    await apply(rig, terminate("x", namespace="other"))
    bounds = {"default": end, "other": end + 1}
    found = await rig.store.closed_runs(bounds, after=None, limit=9)
    assert [run.key.workflow_id for run in found] == ["c", "a", "x"]
    assert [run.closed_ms for run in found] == [end - 2, end - 1, end]
    assert {run.history_length for run in found} == {2}
    one_by_one = []
    after = None
    while page := await rig.store.closed_runs(bounds, after=after, limit=1):
        one_by_one += page
        after = page[0]
    assert one_by_one == found


async def test_closed_runs_are_found_along_their_index(rig: Rig) -> None:
    db = sqlite3.connect(rig.store.path)
    plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {duties._CLOSED}", ("d", 9, 1, 1, 9))]
    db.close()
    assert plan == [
        "SEARCH runs USING INDEX runs_by_closing (namespace=? AND closed_ms>? AND closed_ms<?)"
    ]
