"""Random programs, random lives: at every decision the code sees what it saw, and decides alike."""

import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_programs import Program, Trace, async_code, async_programs, programs, sync_code
from run_model import RunModel

from raftflow_sdk import Replayer
from raftflow_sdk.replay import decide
from raftflow_sdk.replay.events import task_at

# The random programs begin more than they wait for.
pytestmark = pytest.mark.filterwarnings("ignore:.*never awaited:RuntimeWarning")

Maker = Callable[[Program, list[Trace]], Callable[[Any], object]]


def live(code: Callable[[Any], object], seed: int, *, cancel: bool) -> RunModel:
    model = RunModel(code, limit=4 + seed % 9)
    model.play(random.Random(seed), cancel=cancel)
    return model


def check(make: Maker, program: Program, seed: int, *, cancel: bool) -> None:
    traces: list[Trace] = []
    model = live(make(program, traces), seed, cancel=cancel)
    # Each decision saw all that the one before it saw, in the same order, and then more.
    for before, after in pairwise(traces):
        assert after[: len(before)] == before
    # Every decision, made again on the history as it was.
    again: list[Trace] = []
    code = make(program, again)
    for length, commands in model.decisions:
        task = task_at(model.events, length)
        task["suggest_continue_as_new_at"] = model.limit
        shape = [(c["type"], c.get("step_name"), c.get("sequence")) for c in commands]
        body = decide(code, task)
        assert [(c["type"], c.get("step_name"), c.get("sequence")) for c in body["commands"]] == (
            shape
        )
    # Every decision, with the markers that it recorded, and what the history says beyond it.
    Replayer({"T": make(program, [])}).check({"events": model.events})


@pytest.mark.slow
@given(programs, st.integers(0, 2**32), st.booleans())
@settings(max_examples=60, deadline=None)
def test_def_programs(program: Program, seed: int, cancel: bool) -> None:
    check(sync_code, program, seed, cancel=cancel)


@pytest.mark.slow
@given(async_programs, st.integers(0, 2**32), st.booleans())
@settings(max_examples=60, deadline=None)
def test_async_programs(program: Program, seed: int, cancel: bool) -> None:
    check(async_code, program, seed, cancel=cancel)


@pytest.mark.slow
@given(programs, st.integers(0, 2**32), st.booleans())
@settings(max_examples=60, deadline=None)
def test_def_and_async_def_decide_alike(program: Program, seed: int, cancel: bool) -> None:
    sync_traces: list[Trace] = []
    async_traces: list[Trace] = []
    synchronous = live(sync_code(program, sync_traces), seed, cancel=cancel)
    asynchronous = live(async_code(program, async_traces), seed, cancel=cancel)
    assert [_comparable(e) for e in synchronous.events] == [
        _comparable(e) for e in asynchronous.events
    ]
    assert [_without_effects(t) for t in sync_traces] == [_without_effects(t) for t in async_traces]


def _comparable(event: dict[str, Any]) -> dict[str, Any]:
    """But for side effects, whose values are drawn anew in each life."""
    drawn = event.get("step_name") == "effect" or event["type"] == "WorkflowCompleted"
    return {k: v for k, v in event.items() if not (drawn and k in ("data", "output"))}


def _without_effects(trace: Trace) -> Trace:
    return [line for line in trace if "effect" not in line]
