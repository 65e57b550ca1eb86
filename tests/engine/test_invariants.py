"""The checker is checked: each way to break a run must be told."""

from __future__ import annotations

from collections.abc import Callable

import engine_harness as make
import pytest
from engine_harness import EngineHarness

from raftflow.engine.commands import AwaitSignal, StartTimer, TimerKind
from raftflow.engine.events import Event, SignalReceived
from raftflow.engine.invariants import problems, wakeup_problem
from raftflow.engine.retry import RetryPolicy
from raftflow.engine.state import Run, RunStatus, Signal, StepStatus, TaskState

Timers = dict[tuple[TimerKind, int], int]


def healthy() -> tuple[Run, Timers]:
    """One leased activity, one in backoff, a timer, a wait; the decision is queued."""
    harness = EngineHarness()
    harness.register("Order")
    harness.start("w")
    retry = RetryPolicy(max_attempts=3, initial_backoff_ms=50)
    harness.decide(
        "w",
        make.activity(1, "a"),
        make.activity(2, "b", retry=retry),
        StartTimer(step_name="t", sequence=3, delay_ms=10),
        AwaitSignal(step_name="s", sequence=4, signal_name="go"),
        make.activity(5, "c"),
    )
    harness.grant_activity("w", 1)
    harness.do(make.fail_activity("w", harness.grant_activity("w", 2)))
    harness.do(make.complete_activity("w", harness.grant_activity("w", 5)))
    run = harness.run("w")
    return run, harness.rows.timers_of(run.key)


def lose_a_timer(_run: Run, timers: Timers) -> None:
    del timers[TimerKind.RETRY, 2]


def keep_a_timer(_run: Run, timers: Timers) -> None:
    timers[TimerKind.DECISION_BACKOFF, 0] = 5


def miscount_steps(run: Run, _timers: Timers) -> None:
    run.open_steps += 1


def miscount_leases(run: Run, _timers: Timers) -> None:
    run.leased_tasks = 0


def wrong_status(run: Run, _timers: Timers) -> None:
    run.status = RunStatus.WAITING


def lose_a_task(run: Run, timers: Timers) -> None:
    run.steps[1].task.state = TaskState.NONE
    run.steps[1].task.backoff_until_ms = 0
    del timers[TimerKind.RETRY, 2]


def lose_a_token(run: Run, _timers: Timers) -> None:
    run.steps[0].task.token = ""


def close_half(run: Run, _timers: Timers) -> None:
    run.status = RunStatus.COMPLETED


def result_without_event(run: Run, _timers: Timers) -> None:
    run.steps[4].resolved_event_id = 0


def overlook_a_signal(run: Run, _timers: Timers) -> None:
    run.signals[9] = Signal(9, 1, "go", b"")


def skip_a_sequence(run: Run, _timers: Timers) -> None:
    run.steps[3].sequence = 9


def count_an_attempt_twice(run: Run, _timers: Timers) -> None:
    run.steps[0].attempts += 1


def hold_without_a_decision(run: Run, _timers: Timers) -> None:
    run.arrivals[1] = Event(1, 1, SignalReceived(name="x", payload=b"", request_id=""))


def forget_what_arrived(run: Run, timers: Timers) -> None:
    run.steps[2].arrived = True
    del timers[TimerKind.STEP, 3]


def mark_a_cancel_that_nobody_asked_for(run: Run, _timers: Timers) -> None:
    run.steps[4].marker = "cancel"


def ask_in_the_future(run: Run, _timers: Timers) -> None:
    run.cancel_requested_event_id, run.cancel_requested_ms = run.history_length + 1, 1


def continue_while_open(run: Run, _timers: Timers) -> None:
    run.continued_to_run_id = "r2"


def cancel_without_event(run: Run, _timers: Timers) -> None:
    run.steps[4].status, run.steps[4].resolved_event_id = StepStatus.CANCELLED, 0


@pytest.mark.parametrize(
    "break_it",
    [
        hold_without_a_decision,
        forget_what_arrived,
        mark_a_cancel_that_nobody_asked_for,
        ask_in_the_future,
        continue_while_open,
        cancel_without_event,
        lose_a_timer,
        keep_a_timer,
        miscount_steps,
        miscount_leases,
        wrong_status,
        lose_a_task,
        lose_a_token,
        close_half,
        result_without_event,
        overlook_a_signal,
        skip_a_sequence,
        count_an_attempt_twice,
    ],
)
def test_each_break_is_told(break_it: Callable[[Run, Timers], None]) -> None:
    run, timers = healthy()
    assert problems(run, timers) == []
    break_it(run, timers)
    assert problems(run, timers)


def test_a_run_that_nothing_wakes() -> None:
    run, _ = healthy()
    run.decision.state = TaskState.NONE
    assert wakeup_problem(run) is None
    for step in run.steps:
        step.status = StepStatus.COMPLETED
    run.open_steps = 0
    assert wakeup_problem(run) == "open, and nothing will ever wake it"
    run.status = RunStatus.PAUSED
    assert wakeup_problem(run) == "paused without a reason"
    run.suspended_reason = "too long"
    assert wakeup_problem(run) is None
    run.status = RunStatus.FAILED
    assert wakeup_problem(run) is None
