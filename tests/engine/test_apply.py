"""The way in: the ordinary life of a run, and what holds whatever is proposed."""

from __future__ import annotations

from typing import get_args

import engine_harness as make
import pytest
from engine_harness import EngineHarness, run_to_end

from raftflow.engine import apply as module
from raftflow.engine.apply import Touched, touched_keys
from raftflow.engine.commands import Attributed, Command, ForgetAudit, ForgetRequests, TimerKind
from raftflow.engine.decide.context import Verdict
from raftflow.engine.ids import RunKey, TokenParts, WorkflowKey, format_token
from raftflow.engine.rejections import Done, Reason, Rejection, Started
from raftflow.engine.state import RunStatus, TaskState


def test_three_steps_complete() -> None:
    harness = EngineHarness()
    harness.register("Order")
    assert harness.start("order-1") == Started("r1", True)
    run_to_end(harness, "order-1", ["reserve", "charge", "ship"])
    run = harness.run("order-1")
    assert run.status is RunStatus.COMPLETED
    assert run.output == b"done"
    assert [type(event.body).__name__ for event in harness.history("order-1")] == [
        "WorkflowStarted",
        *["StepScheduled", "StepCompleted"] * 3,
        "WorkflowCompleted",
    ]


def test_every_command_is_decided() -> None:
    apart = {ForgetRequests, ForgetAudit, Attributed}
    assert {*module._DECIDE} | apart == {*get_args(Command)}


def test_keys_that_commands_touch() -> None:
    key, workflow = RunKey("default", "w", "r1"), WorkflowKey("default", "w")
    token = format_token(TokenParts("default", "r1", 1, "n"))
    assert touched_keys(make.start("w", request_id="q")) == Touched(
        (workflow,), (key,), (("default", "q"),)
    )
    assert touched_keys(make.signal("w", "go")) == Touched((workflow,))
    assert touched_keys(make.signal("w", "go", run_id="r1")) == Touched((), (key,))
    assert touched_keys(make.complete_activity("w", token)) == Touched((), (key,))
    assert touched_keys(make.complete_decision("w", token)) == Touched((), (key,))
    assert touched_keys(make.complete_activity("w", "garbage")) == Touched()
    assert touched_keys(make.complete_activity("w", token, namespace="other")) == Touched()


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> EngineHarness:
    """An engine with a bug: a signal called `bug` makes it fail."""
    harness = EngineHarness()
    harness.register("Order")
    harness.start("w")
    decide = module._DECIDE[type(make.signal("w", "bug"))]

    def with_bug(ctx: object, command: object) -> Verdict:
        if getattr(command, "name", "") == "bug":
            raise ZeroDivisionError(object())
        return decide(ctx, command)

    monkeypatch.setitem(module._DECIDE, type(make.signal("w", "bug")), with_bug)
    return harness


def test_a_poisoned_run_is_parked_and_named_and_others_go_on(poisoned: EngineHarness) -> None:
    poisoned.start("other")
    applied = poisoned.apply(make.signal("w", "bug"), make.signal("other", "go"))
    broken, fine = [reply.answer for reply in applied.replies]
    reason = "SignalRun broke the run: ZeroDivisionError"
    assert broken == Rejection(reason=Reason.UNREADABLE, message=reason)
    assert fine == Done()
    run = poisoned.run("w")
    assert (run.status, run.suspended_reason) == (RunStatus.UNKNOWN, reason)
    assert run.decision.state is TaskState.BACKOFF


def test_a_parked_run_is_healed_by_a_decision_that_works(poisoned: EngineHarness) -> None:
    poisoned.do(make.signal("w", "bug"))
    poisoned.fire("w", TimerKind.DECISION_BACKOFF)
    assert poisoned.decide("w", make.activity(1)) == Done()
    run = poisoned.run("w")
    assert (run.status, run.suspended_reason) == (RunStatus.WAITING, "")


def test_poison_for_a_workflow_that_does_not_exist(poisoned: EngineHarness) -> None:
    answer = poisoned.do(make.signal("nowhere", "bug"))
    assert isinstance(answer, Rejection)
    assert answer.reason is Reason.UNREADABLE


def test_memory_is_of_the_machine_not_of_the_log(
    poisoned: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(_ctx: object, _command: object) -> Verdict:
        raise MemoryError

    monkeypatch.setitem(module._DECIDE, type(make.signal("w", "go")), exhausted)
    with pytest.raises(MemoryError):
        poisoned.do(make.signal("w", "go"))
