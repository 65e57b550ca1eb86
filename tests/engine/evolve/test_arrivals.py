"""Scripts tell what waits and when it joins; here: that waiting changes nothing else."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import engine_harness as make
import pytest
from engine_harness import EngineHarness, Rows
from engine_script import play, scripts

from raftflow.engine.commands import (
    AwaitSignal,
    CancelRun,
    Command,
    CompleteWorkflow,
    ExpireLease,
    PauseRun,
    ReturnTask,
    StartChildWorkflow,
    StartTimer,
    TimerKind,
)
from raftflow.engine.ids import RunKey
from raftflow.engine.rejections import Rejection
from raftflow.engine.state import ReportChild, Run

KEY = RunKey("default", "w", "r1")


@pytest.mark.parametrize("script", scripts("arrivals"), ids=lambda path: path.stem)
def test_script(script: Path, rewrite: bool) -> None:
    play(script, rewrite=rewrite)


class Pressed:
    """A run whose decision was stale twice, with a third one out; and the facts that may come."""

    def __init__(self) -> None:
        self.harness = harness = EngineHarness()
        harness.register("Order")
        harness.start("w")
        harness.decide(
            "w",
            make.activity(1, "a"),
            make.activity(2, "b"),
            StartTimer(step_name="t", sequence=3, delay_ms=1),
            AwaitSignal(step_name="s", sequence=4, signal_name="go"),
            AwaitSignal(step_name="s", sequence=5, signal_name="go"),
            StartChildWorkflow(
                step_name="c",
                sequence=6,
                workflow_type="Order",
                workflow_id="kid",
                input=b"",
                task_queue="",
            ),
        )
        (message,) = harness.run("w").outbox.values()
        harness.do(make.deliver(KEY, 1, message, new_run_id="k1"))
        harness.decide("kid", CompleteWorkflow(output=b"child"))
        first, second = harness.grant_activity("w", 1), harness.grant_activity("w", 2)
        harness.do(make.signal("w", "go"))
        for _ in range(2):
            token = harness.grant_decision("w")
            harness.do(make.signal("w", "x"))
            assert isinstance(harness.do(make.complete_decision("w", token)), Rejection)
        self.token = harness.grant_decision("w")
        harness.time_ms += 10_000
        report = ReportChild("w", "r1", 6)
        self.facts: tuple[Command, ...] = (
            make.complete_activity("w", first, b"done"),
            make.fail_activity("w", second, "no"),
            make.fire_timer(harness.rows.timers[KEY, TimerKind.STEP, 3]),
            make.signal("w", "go", b"1"),
            make.signal("w", "go", b"2"),
            make.deliver(RunKey("default", "kid", "k1"), 1, report),
            CancelRun(
                namespace="default",
                workflow_id="w",
                run_id="",
                reason="please",
                request_id="",
                graceful=True,
            ),
        )

    def run(self) -> Run:
        return self.harness.run("w")


def applied(pressed: Pressed) -> Command:
    wait = AwaitSignal(step_name="s", sequence=7, signal_name="go")
    return make.complete_decision("w", pressed.token, wait, make.activity(8))


def blocked(pressed: Pressed) -> Command:
    return make.complete_decision("w", pressed.token)


def refused(pressed: Pressed) -> Command:
    return make.complete_decision("w", pressed.token, make.activity(99))


def parked(pressed: Pressed) -> Command:
    return make.complete_decision("w", pressed.token, replay_error="new", nondeterminism=True)


def expired(pressed: Pressed) -> Command:
    return ExpireLease(namespace="default", workflow_id="w", token=pressed.token)


def returned(pressed: Pressed) -> Command:
    return ReturnTask(namespace="default", workflow_id="w", token=pressed.token)


def paused(_pressed: Pressed) -> Command:
    return PauseRun(namespace="default", workflow_id="w", run_id="", reason="", request_id="")


ENDINGS = (applied, blocked, refused, parked, expired, returned, paused)


def after(
    end: Callable[[Pressed], Command], order: tuple[int, ...], *, waiting: int, at_once: bool
) -> Rows:
    """The rows when so many of the facts came while the decision was out, the others after it."""
    pressed = Pressed()
    facts = [pressed.facts[position] for position in order]
    sequence = (*facts[:waiting], end(pressed), *facts[waiting:])
    length = pressed.run().history_length
    if at_once:
        pressed.harness.apply(*sequence)
    else:
        for position, command in enumerate(sequence):
            assert (len(pressed.run().arrivals), pressed.run().history_length) == (
                (position, length) if position <= waiting else (0, pressed.run().history_length)
            )
            pressed.harness.do(command)
    rows = pressed.harness.rows
    assert not any(rows.arrivals.values())
    rows.arrivals.clear()
    rows.runs[KEY].stale_decisions = 0  # the pressure goes on while facts had to wait
    return rows


@pytest.mark.parametrize("end", ENDINGS, ids=lambda end: end.__name__)
def test_what_waited_is_as_if_it_came_after_the_decision(end: Callable[[Pressed], Command]) -> None:
    for came in [tuple(range(7)), (3, 6, 5, 0, 4, 2, 1)]:
        expected = after(end, came, waiting=0, at_once=False)
        assert len(expected.events[KEY]) == 11 + 8 + (3 if end is applied else 0)
        for waiting in range(1, 8):
            assert after(end, came, waiting=waiting, at_once=waiting % 2 == 0) == expected


@pytest.mark.slow
def test_two_facts_in_any_order() -> None:
    for pair in itertools.permutations(range(7), 2):
        assert after(applied, pair, waiting=2, at_once=False) == after(
            applied, pair, waiting=0, at_once=False
        )
