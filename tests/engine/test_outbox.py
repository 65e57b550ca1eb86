from __future__ import annotations

import engine_harness as make
from engine_harness import EngineHarness

from raftflow.engine.commands import ParentClosePolicy, StartChildWorkflow
from raftflow.engine.effects import SendMessage
from raftflow.engine.ids import RunKey
from raftflow.engine.outbox import pending_start, sending
from raftflow.engine.state import EndChild, ReportChild, StartChild

SENDER = RunKey("default", "parent", "p1")


def test_what_a_row_asks_of_the_leader() -> None:
    start = StartChild(1, "kid", "Order", "q", b"", ParentClosePolicy.ABANDON, "", "")
    assert sending(SENDER, 1, start) == SendMessage(SENDER, 1, "kid", "", starts=True)
    report = ReportChild("other", "o1", 2)
    assert sending(SENDER, 2, report) == SendMessage(SENDER, 2, "other", "o1", starts=False)
    end = EndChild(1, "kid", True, "enough")
    assert sending(SENDER, 3, end) == SendMessage(SENDER, 3, "kid", "", starts=False)


def family() -> EngineHarness:
    harness = EngineHarness()
    harness.register("Order")
    harness.start("parent")
    harness.decide("parent", child(1), child(2))
    return harness


def child(sequence: int) -> StartChildWorkflow:
    return StartChildWorkflow(
        step_name="c",
        sequence=sequence,
        workflow_type="Order",
        workflow_id="",
        input=b"",
        task_queue="",
    )


def test_the_effect_is_what_the_row_says() -> None:
    """A new leader reads the rows, and knows what one that followed the effects does."""
    harness = family()
    run = harness.run("parent")
    assert [pending_start(run, sequence) for sequence in (1, 2, 3)] == [1, 2, 0]
    applied = harness.apply(make.deliver(run.key, 1, run.outbox[1], new_run_id="c1"))
    assert not any(isinstance(effect, SendMessage) for effect in applied.effects)
    run = harness.run("parent")
    assert [pending_start(run, sequence) for sequence in (1, 2)] == [0, 2]
    mistaken = make.deliver(run.key, 2, run.outbox[2], new_run_id="")
    again = [e for e in harness.apply(mistaken).effects if isinstance(e, SendMessage)]
    assert again == [sending(run.key, 2, run.outbox[2])]


def test_once_however_often_it_is_proposed_in_one_entry() -> None:
    harness = family()
    run = harness.run("parent")
    twice = [
        make.deliver(run.key, 1, run.outbox[1], new_run_id=run_id) for run_id in ("c1", "c2", "c1")
    ]
    applied = harness.apply(*twice)
    assert len([event for key, event in applied.changes.events if event.event_id == 1]) == 1
    assert harness.run("r1.1").key.run_id == "c1"
