"""What was kept long enough goes, in slices, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable

import engine_harness as make
import pytest
from populate import apply, populate, terminate
from replica_rig import Rig

from raftflow.cluster.leader import retention as module
from raftflow.cluster.leader.retention import Retention
from raftflow.cluster.store import AuditFilter, RunFilter
from raftflow.engine.apply import Applied
from raftflow.engine.commands import (
    FEATURE_LEVEL,
    Attributed,
    Command,
    DeleteRun,
    ForgetAudit,
    ForgetRequests,
    Origin,
    Role,
    UpdateNamespace,
)
from raftflow.engine.ids import WorkflowKey
from raftflow.engine.rejections import Answer
from raftflow.engine.state import AuditRecord

KEEP_MS = 1_000


class Leader:
    """Retention on a rig, whose log is written when the test says so."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.feature_level = FEATURE_LEVEL
        self.waiting: list[tuple[Command, Callable[[Answer | None], None] | None]] = []
        self.woken = 0
        self.answers: list[Answer] = []
        self.retention = Retention(
            proposer=self,  # type: ignore[arg-type]
            store=rig.store,
            replica=rig.replica,
            wake=self._wake,
            audit_retention_ms=KEEP_MS,
        )
        rig.replica.subscribe(self._on_applied)

    def _wake(self) -> None:
        self.woken += 1

    def _on_applied(self, applied: Applied, _batch: object) -> None:
        self.answers = [reply.answer for reply in applied.replies]

    def propose_duty(
        self, command: Command, done: Callable[[Answer | None], None] | None = None
    ) -> None:
        self.waiting.append((command, done))

    async def work(self, now_ms: int) -> list[str]:
        """The run ids that were proposed to go."""
        await self.retention.work(now_ms)
        return [command.run_id for command, _ in self.waiting if isinstance(command, DeleteRun)]

    async def commit(self, time_ms: int) -> None:
        calls, self.waiting = self.waiting, []
        await apply(self.rig, *[command for command, _ in calls], time_ms=time_ms)
        for (_, done), answer in zip(calls, self.answers, strict=True):
            if done is not None:
                done(answer)


async def closed(rig: Rig, *ids: str) -> int:
    """Runs that closed a millisecond apart; when the last one did."""
    keep = UpdateNamespace(namespace="default", retention_ms=KEEP_MS, request_id="")
    await apply(rig, keep)
    await populate(rig, ids)
    for workflow_id in ids:
        await apply(rig, terminate(workflow_id), time_ms=rig.replica.time_ms + 1)
    return rig.replica.time_ms


async def left(rig: Rig) -> int:
    return (await rig.store.counts(RunFilter(namespace="default"))).total


async def test_closed_runs_go_when_their_time_has_passed(rig: Rig) -> None:
    last_ms = await closed(rig, "a", "b", "c")
    await populate(rig, ["open"])
    leader = Leader(rig)
    assert await leader.work(last_ms + KEEP_MS - 1) == ["run-a"]
    await leader.commit(last_ms + KEEP_MS)
    assert await rig.replica.run_view("default", "a") is None
    assert await leader.work(last_ms + KEEP_MS + 1) == []  # the round is over
    later = last_ms + KEEP_MS + module.ROUND_EVERY_MS
    assert await leader.work(later) == ["run-b", "run-c"]
    await leader.commit(later)
    assert await left(rig) == 1
    assert await leader.work(later + module.ROUND_EVERY_MS) == []


async def test_nothing_is_deleted_that_a_member_cannot_delete(rig: Rig) -> None:
    last_ms = await closed(rig, "a")
    leader = Leader(rig)
    leader.feature_level = 1
    assert await leader.work(last_ms + KEEP_MS) == []
    leader.feature_level = 2
    assert await leader.work(last_ms + KEEP_MS + 1) == ["run-a"]


async def test_a_slice_follows_the_one_before(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLICE_RUNS", 2)
    last_ms = await closed(rig, "a", "b", "c", "d", "e")
    now_ms = last_ms + KEEP_MS + 1
    leader = Leader(rig)
    for number, expected in enumerate((["run-a", "run-b"], ["run-c", "run-d"], ["run-e"]), start=1):
        assert await leader.work(now_ms) == expected
        assert await leader.work(now_ms) == expected  # one at a time
        await leader.commit(now_ms)
        assert leader.woken == number
    assert await left(rig) == 0


async def test_long_histories_make_small_slices(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLICE_EVENTS", 3)  # each of these has 2
    last_ms = await closed(rig, "a", "b")
    leader = Leader(rig)
    for expected in ("run-a", "run-b"):
        assert await leader.work(last_ms + KEEP_MS + 1) == [expected]
        await leader.commit(last_ms + KEEP_MS + 1)


async def test_the_runs_of_an_id_go_oldest_first(rig: Rig) -> None:
    await closed(rig, "again")
    for run_id in ("second", "third"):
        again = make.start("again", run_id=run_id, reuse=make.IdReusePolicy.ALLOW_DUPLICATE)
        await apply(rig, again)
        await apply(rig, terminate("again"))
    now_ms = rig.replica.time_ms + KEEP_MS + 1
    leader = Leader(rig)
    assert await leader.work(now_ms) == ["run-again", "second", "third"]
    await leader.commit(now_ms)
    assert await rig.store.run_ids_of(WorkflowKey("default", "again")) == []


async def test_a_retention_that_grew_meanwhile_keeps_them(rig: Rig) -> None:
    last_ms = await closed(rig, "a")
    leader = Leader(rig)
    assert await leader.work(last_ms + KEEP_MS + 1) == ["run-a"]
    for_ever = UpdateNamespace(namespace="default", retention_ms=0, request_id="")
    await apply(rig, for_ever)
    await leader.commit(last_ms + KEEP_MS + 1)
    assert await left(rig) == 1
    assert await leader.work(last_ms + 10 * module.ROUND_EVERY_MS) == []


async def test_a_new_office_begins_anew(rig: Rig) -> None:
    last_ms = await closed(rig, "a")
    leader = Leader(rig)
    assert await leader.work(last_ms + KEEP_MS + 1) == ["run-a"]
    lost, leader.waiting = leader.waiting, []
    leader.retention.clear()
    assert await leader.work(last_ms + KEEP_MS + 1) == ["run-a"]
    for _, done in lost:
        assert done is not None
        done(None)
    assert leader.woken == 0


async def test_expired_request_ids_go_in_slices(rig: Rig) -> None:
    await populate(rig, ["a"], request_id="q")
    leader = Leader(rig)
    expires_ms = await rig.store.oldest_request_ms()
    assert expires_ms is not None
    await leader.work(expires_ms - 1)
    assert leader.waiting == []
    await leader.work(expires_ms + module.FORGET_EVERY_MS)
    ((command, _),) = leader.waiting
    assert isinstance(command, ForgetRequests)
    await leader.commit(expires_ms + module.FORGET_EVERY_MS)
    assert await rig.store.oldest_request_ms() is None


async def test_the_audit_log_goes_in_slices(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    leader = Leader(rig)
    monkeypatch.setattr(module, "FORGET_AT_ONCE", 2)
    origin = Origin(actor="ann", role=Role.ADMIN, node="n1", address="")
    for number in range(1, 6):
        command = UpdateNamespace(namespace="default", retention_ms=number, request_id="")
        noted = Attributed(origin=origin, command=command)
        await apply(rig, noted, time_ms=rig.replica.time_ms + 10)
    times = [row.time_ms for row in await noted_rows(rig)]
    now_ms, left = times[3] + KEEP_MS, []
    for _ in range(3):
        leader.waiting.clear()
        await leader.retention.work(now_ms)
        wishes = [each for each, _ in leader.waiting if isinstance(each, ForgetAudit)]
        for wish in wishes:
            await apply(rig, wish, time_ms=now_ms)
        left.append(len(await noted_rows(rig)))
        now_ms += module.FORGET_EVERY_MS
        if not wishes:
            break
    assert left == [3, 1, 0]


async def noted_rows(rig: Rig) -> list[AuditRecord]:
    return list((await rig.store.audit_log(AuditFilter(oldest_first=True))).records)
