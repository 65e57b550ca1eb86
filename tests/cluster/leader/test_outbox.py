"""Every message is delivered, whoever leads: against the real engine, replica and store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from populate import apply, child, decide, populate, view
from replica_rig import Rig

from raftflow.cluster.leader import outbox as module
from raftflow.cluster.leader.outbox import Outbox
from raftflow.cluster.store import MessagePage
from raftflow.engine.apply import Applied
from raftflow.engine.commands import (
    Batch,
    Command,
    CompleteWorkflow,
    DeliverMessage,
)
from raftflow.engine.effects import SendMessage
from raftflow.engine.ids import RunKey
from raftflow.engine.rejections import Answer, Done, Reason, Rejection
from raftflow.engine.state import RunStatus, StepStatus
from raftflow.raftlog.journal import LogEntry


class Leader:
    """A leader's outbox on a rig, whose log is written when the test says so."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.waiting: list[tuple[Command, Callable[[Answer | None], None]]] = []
        self.answers: list[Answer] = []
        self.outbox = Outbox(proposer=self, store=rig.store)  # type: ignore[arg-type]
        rig.replica.subscribe(self._on_applied)

    def propose_duty(self, command: Command, done: Callable[[Answer | None], None]) -> None:
        self.waiting.append((command, done))

    def _on_applied(self, applied: Applied, _batch: Batch) -> None:
        self.answers = [reply.answer for reply in applied.replies]
        for effect in applied.effects:
            if isinstance(effect, SendMessage):
                self.outbox.send(effect)

    async def commit(self) -> list[Answer]:
        """What was proposed becomes one entry."""
        calls, self.waiting = self.waiting, []
        await apply(self.rig, *[command for command, _ in calls])
        answers = self.answers
        for (_, done), answer in zip(calls, answers, strict=True):
            done(answer)
        return answers

    async def deliver_all(self) -> int:
        count = 0
        while self.waiting:
            count += len(await self.commit())
        return count


async def parent_of(rig: Rig, count: int) -> None:
    await populate(rig, ["parent"])
    await decide(rig, "parent", *[child(n) for n in range(1, count + 1)])


async def test_a_child_starts_and_its_outcome_comes_back(rig: Rig) -> None:
    leader = Leader(rig)
    await parent_of(rig, 1)
    assert leader.outbox.pending == 1
    assert await leader.commit() == [Done()]
    assert leader.outbox.pending == 0
    await decide(rig, "run-parent.1", CompleteWorkflow(output=b"out"))
    assert await leader.deliver_all() == 1
    parent = await view(rig, "parent")
    assert (parent.steps[0].status, parent.steps[0].output) == (StepStatus.COMPLETED, b"out")
    assert (await rig.store.outbox(after=0, limit=9)).messages == []


async def test_the_next_leader_reads_what_the_last_one_left(tmp_path: Path) -> None:
    """The outbox across a leader kill: rows on one node, delivered by another that has the log."""
    log: list[LogEntry] = []
    first = await Rig(tmp_path / "a").start()
    feed = first.feed

    async def recording(entries: Sequence[LogEntry]) -> None:
        log.extend(entries)
        await feed(entries)

    first.feed = recording  # type: ignore[method-assign]
    dead = Leader(first)
    await parent_of(first, 3)
    assert len(dead.waiting) == 3  # proposed, and never committed
    await first.crash()

    second = await Rig(tmp_path / "b").start()
    await second.feed(log)
    leader = Leader(second)
    assert leader.waiting == []
    await leader.outbox.refill(0)
    assert await leader.commit() == [Done()] * 3
    # A proposal of the dead leader that came through after all finds no row.
    assert (await refusals(second, dead))[0] == "the message is not waiting"
    parent = await view(second, "parent")
    assert all(step.run_id for step in parent.steps)
    children = [await view(second, f"run-parent.{n}") for n in (1, 2, 3)]
    assert [run.status for run in children] == [RunStatus.WAITING] * 3
    assert await second.replica.run_view("default", "run-parent.4") is None
    await second.stop()


async def refusals(rig: Rig, leader: Leader) -> list[str]:
    told: list[Applied] = []
    rig.replica.subscribe(lambda applied, _batch: told.append(applied))
    await apply(rig, *[command for command, _ in leader.waiting])
    answers = [reply.answer for reply in told[-1].replies]
    return [answer.message for answer in answers if isinstance(answer, Rejection)]


# ---- bounds and retries, with the test as store and proposer ------------------------------------


class Scripted:
    """Rows and answers are the test's."""

    def __init__(self, rows: int = 0) -> None:
        self.rows = [message(number) for number in range(1, rows + 1)]
        self.reads = 0
        self.calls: list[tuple[DeliverMessage, Callable[[Answer | None], None]]] = []

    def propose_duty(self, command: DeliverMessage, done: Callable[[Answer | None], None]) -> None:
        self.calls.append((command, done))

    async def outbox(self, *, after: int, limit: int) -> MessagePage:
        self.reads += 1
        page = [row for row in self.rows if row.number > after][:limit]
        return MessagePage(page, page[-1].number if len(page) == limit else None)

    def answer(self, answer: Answer | None) -> None:
        calls, self.calls = self.calls, []
        for _, done in calls:
            done(answer)


def message(number: int) -> SendMessage:
    return SendMessage(RunKey("default", "p", "p1"), number, "c", "", starts=True)


def office(script: Scripted) -> Outbox:
    return Outbox(proposer=script, store=script)  # type: ignore[arg-type]


async def test_proposals_under_way_are_bounded_and_rows_read_page_by_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in (("AT_ONCE", 3), ("PAGE", 4), ("WAITING", 8)):
        monkeypatch.setattr(module, name, value)
    script = Scripted(rows=20)
    outbox = office(script)
    done: list[int] = []
    while len(done) < 20:
        await outbox.refill(0)
        assert len(script.calls) <= 3
        assert outbox.pending <= 11
        done += [command.number for command, _ in script.calls]
        script.rows = [row for row in script.rows if row.number not in done]
        script.answer(Done())
    assert sorted(done) == list(range(1, 21))
    await outbox.refill(60_000)
    assert (outbox.pending, script.calls) == (0, [])


async def test_what_is_too_much_to_hold_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("AT_ONCE", 1), ("PAGE", 1), ("WAITING", 2)):
        monkeypatch.setattr(module, name, value)
    script = Scripted()
    outbox = office(script)
    await outbox.refill(0)
    for number in range(1, 6):
        outbox.send(message(number))
    assert outbox.pending == 3
    script.rows = [message(4), message(5)]
    for _ in range(3):
        script.answer(Done())
    assert outbox.pending == 0
    await outbox.refill(0)
    assert script.calls == []  # not at once again
    await outbox.refill(module.REREAD_MS)
    assert [command.number for command, _ in script.calls] == [4]


@pytest.mark.parametrize(
    "answer", [None, Rejection(reason=Reason.UNREADABLE, message="it broke the run")]
)
async def test_a_proposal_that_came_to_nothing_is_made_again(answer: Answer | None) -> None:
    script = Scripted(rows=1)
    outbox = office(script)
    await outbox.refill(0)
    script.answer(answer)
    await outbox.refill(1)
    assert script.calls == []
    await outbox.refill(module.REREAD_MS)
    assert [command.number for command, _ in script.calls] == [1]


async def test_an_overtaken_one_is_not() -> None:
    script = Scripted(rows=1)
    outbox = office(script)
    await outbox.refill(0)
    script.answer(Rejection(reason=Reason.GRANT_DROPPED, message="the message is not waiting"))
    await outbox.refill(module.REREAD_MS)
    assert (script.calls, script.reads) == ([], 1)


async def test_who_leaves_office_forgets_and_hears_no_more_of_it() -> None:
    script = Scripted(rows=1)
    outbox = office(script)
    await outbox.refill(0)
    late, script.calls = script.calls, []
    outbox.clear()
    await outbox.refill(0)  # in office again
    for _, done in late:
        done(None)
    assert outbox.pending == 1
    script.answer(Done())
    assert outbox.pending == 0
