"""The environment: runs end without waiting, and what the API would show is there to assert on."""

from __future__ import annotations

import time
from typing import Any

import pytest
from shop_workflows import approval, order, worker

from raftflow.testing import HANGS, NOBODY, Environment, StillOpen, fails, in_turn, takes
from raftflow.testing.environment import Endless
from raftflow.testing.workers import BadDecision
from raftflow_sdk import AsyncContext, Context, NondeterminismError, RunFailed, Worker


@pytest.fixture
def env() -> Environment:
    return Environment(worker)


def test_a_function_alone_is_run_as_it_was_registered() -> None:
    elsewhere = Worker(["http://127.0.0.1:1"])

    @elsewhere.activity("double", decode="json")
    def double(number: int) -> int:
        return 2 * number

    @elsewhere.workflow("Chain", decode="json")
    def chain(ctx: Context) -> object:
        return ctx.activity("double", ctx.input["n"], decode="json")

    for env, workflow in (
        (Environment(), chain),
        (Environment({"Chain": chain}), "Chain"),
        (Environment(elsewhere), "Chain"),
    ):
        run = env.run(workflow, input={"n": 4}, activities={"double": double}, decode="json")
        assert run.result == 8


def test_time_is_skipped(env: Environment) -> None:
    started = time.monotonic()
    run = env.run(order, input="shoes", activities={"charge": "paid"})
    assert run.result == "shipped reserved shoes"
    assert env.now == 3_600
    assert time.monotonic() - started < 1
    assert [(step["step_name"], step["status"]) for step in run.steps] == [
        ("reserve", "COMPLETED"),
        ("charge", "COMPLETED"),
        ("settle", "COMPLETED"),
        ("ship", "COMPLETED"),
    ]
    assert [event["type"] for event in run.history][-3:] == [
        "StepScheduled",
        "StepCompleted",
        "WorkflowCompleted",
    ]


def test_an_activity_is_tried_again_after_its_backoff(env: Environment) -> None:
    env.run(order, activities={"charge": in_turn(fails("busy"), fails("busy"), "paid")})
    assert [call.attempt for call in env.calls("charge")] == [1, 2, 3]
    assert env.now == 2 + 4 + 3_600


def test_a_failure_takes_the_other_way(env: Environment) -> None:
    run = env.run(
        order,
        input="shoes",
        activities={
            "charge": fails("no money", error_type="Declined", non_retryable=True),
            "release": "released",
        },
    )
    assert (run.status, run.error_type) == ("FAILED", "Declined")
    assert [call.input for call in env.calls("release")] == ["reserved shoes"]
    with pytest.raises(RunFailed, match="charge failed: no money"):
        _ = run.result


def test_a_run_that_waits_says_for_what(env: Environment) -> None:
    run = env.run(approval)
    assert run.status == "WAITING"
    with pytest.raises(StillOpen, match="gate: signal approved"):
        _ = run.result
    env.signal(run, "approved", "yes")
    assert run.result == "yes"


def test_a_signal_comes_when_the_test_says(env: Environment) -> None:
    run = env.start(approval)
    env.at(5, lambda: env.signal(run, "approved", "later"))
    assert run.result == "later"
    assert env.now == 5


def test_a_repeated_signal_counts_once(env: Environment) -> None:
    run = env.start(approval)
    env.signal(run, "approved", "yes", request_id="same")
    env.signal(run, "approved", "yes", request_id="same")
    assert sum(event["type"] == "SignalReceived" for event in run.history) == 1


def timed(ctx: Context) -> Any:
    return ctx.activity("work", start_to_close_timeout=5, schedule_to_start_timeout=7)


@pytest.mark.parametrize(
    ("work", "error_type", "now"),
    [(HANGS, "StartToCloseTimeout", 5), (NOBODY, "ScheduleToStartTimeout", 7)],
)
def test_timeouts(env: Environment, work: object, error_type: str, now: int) -> None:
    run = env.run(timed, activities={"work": work})
    assert (run.status, run.error_type, env.now) == ("FAILED", error_type, now)


def test_activities_take_the_time_they_are_said_to_take(env: Environment) -> None:
    run = env.run(timed, activities={"work": takes(4, "done")})
    assert (run.result, env.now) == ("done", 4)
    env.start(timed, activities={"work": takes(6, "too late")})
    env.advance(10)
    assert env.find("timed-2").error_type == "StartToCloseTimeout"


def test_an_activity_may_let_time_pass(env: Environment) -> None:
    heard = []

    def work(_: str, info: Any) -> str:
        env.advance(3)
        env.cancel(info.workflow_id, "enough")
        heard.append(info.cancelled.is_set())
        return "done"

    run = env.run(timed, activities={"work": work})
    assert (run.status, heard, env.now) == ("CANCELLED", [True], 3)


def test_an_activity_without_code_is_named(env: Environment) -> None:
    with pytest.raises(LookupError, match="nobody runs activity 'charge'"):
        env.run(order)


def test_an_execution_timeout_ends_the_run(env: Environment) -> None:
    run = env.run(approval, execution_timeout=60)
    assert (run.status, env.now) == ("TIMED_OUT", 60)


async def greets(ctx: AsyncContext) -> Any:
    first, second = await ctx.gather(ctx.activity("hello", "a"), ctx.activity("hello", "b"))
    return f"{first} {second}"


def test_async_workflows_and_activities(env: Environment) -> None:
    async def hello(name: str) -> str:
        return f"hello {name}"

    assert env.run(greets, activities={"hello": hello}).result == "hello a hello b"


def parent(ctx: Context) -> Any:
    return ctx.child("approval", workflow_id="child", decode="json")


def test_children_are_runs_of_their_own() -> None:
    env = Environment({"parent": parent, "approval": approval})
    run = env.start("parent", decode="json")
    assert run.waiting_on == ["approval: the child workflow to end"]
    env.signal("child", "approved", {"by": "me"})
    assert env.find("child", decode="json").result == {"by": "me"}
    assert run.result == {"by": "me"}


def countdown(ctx: Context) -> Any:
    left = int(ctx.input)
    if left == 0:
        return "lift-off"
    ctx.sleep("tick", 1)
    return ctx.continue_as_new(str(left - 1))


def test_the_result_of_a_chain_is_that_of_its_last_run(env: Environment) -> None:
    run = env.start(countdown, input="3", workflow_id="rocket")
    assert (run.result, env.now) == ("lift-off", 3)
    assert [each.status for each in env.runs("rocket")] == ["COMPLETED"] + ["CONTINUED_AS_NEW"] * 3


def test_a_held_run_decides_nothing(env: Environment) -> None:
    run = env.start(approval)
    env.pause(run, "let me look")
    env.signal(run, "approved", "yes")
    assert (run.status, run.error) == ("PAUSED", "paused: let me look")
    env.unpause(run)
    assert run.result == "yes"


def test_a_start_may_bring_a_signal_memo_and_attributes(env: Environment) -> None:
    run = env.start(
        approval,
        signal=("approved", "at once"),
        memo={"who": "me"},
        search_attributes={"customer": 7},
    )
    assert run.result == "at once"
    shown = run.describe()
    assert (shown["memo"], shown["search_attributes"]) == ({"who": "me"}, {"customer": 7})


def changed(ctx: Context) -> Any:
    ctx.activity("reserve", ctx.input)
    return "never"


def test_nondeterminism_is_raised_and_repaired_code_heals(env: Environment) -> None:
    run = env.start("Approval")
    env.deploy({"Approval": changed})
    with pytest.raises(NondeterminismError, match="the history has SIGNAL 'gate'"):
        env.signal(run, "approved", "yes")
    assert run.status == "UNKNOWN"
    env.deploy({"Approval": approval})
    assert (run.result, env.now) == ("yes", 10)


def invalid(ctx: Context) -> Any:
    return ctx.activity("work" * 500)


def test_a_refused_decision_is_raised(env: Environment) -> None:
    with pytest.raises(BadDecision, match="step_name has 2000 bytes, the limit is 1000"):
        env.start(invalid)


def for_ever(ctx: Context) -> Any:
    ctx.sleep("nap", 1)
    return ctx.continue_as_new("")


def test_a_workflow_without_end_is_stopped(
    env: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raftflow.testing.environment.MAX_ENTRIES", 100)
    with pytest.raises(Endless):
        env.run(for_ever)


def test_until_waits_for_a_condition(env: Environment) -> None:
    run = env.start(order, activities={"charge": takes(5, "paid")})
    env.until(lambda: any(step["step_name"] == "settle" for step in run.steps))
    assert env.now == 5
    with pytest.raises(AssertionError, match="nothing more happens"):
        env.until(lambda: run.status == "FAILED")
