"""Coroutines without an event loop: turns, cancelling, leaving."""

import asyncio
import gc
import warnings
from typing import Any

import pytest
from run_model import RunModel

from raftflow_sdk import AsyncContext, CancelledFailure, Future
from raftflow_sdk.replay import decide


def ended(code: Any, *outputs: tuple[int, str]) -> Any:
    model = RunModel(code)
    model.decide()
    for sequence, output in outputs:
        model.resolve(sequence, output)
        model.decide()
    return model.events[-1]


def test_a_spawned_coroutine_begins_when_the_spawning_one_waits() -> None:
    seen: list[str] = []

    async def code(ctx: AsyncContext) -> None:
        async def beside() -> None:
            seen.append("beside")

        task = ctx.spawn(beside())
        seen.append("main")
        await task

    ended(code)
    assert seen == ["main", "beside"]


def test_a_cancelled_coroutine_cleans_up_and_says_how_it_ended() -> None:
    async def code(ctx: AsyncContext) -> object:
        async def beside() -> str:
            try:
                await ctx.sleep("long", 60)
            except CancelledFailure as err:
                return f"stopped: {err.reason} {await ctx.activity('clean')}"
            return "slept"

        task = ctx.spawn(beside())
        await ctx.activity("work")
        task.cancel("enough")
        return await task

    assert ended(code, (1, ""), (3, "up"))["output"] == "stopped: enough up"


@pytest.mark.parametrize("when", ["before it began", "by itself", "when it is done"])
def test_cancelling_at_odd_moments(when: str) -> None:
    async def code(ctx: AsyncContext) -> object:
        tasks: list[Future[str]] = []

        async def beside() -> str:
            if when == "by itself":
                tasks[0].cancel("myself")
                await ctx.sleep("s", 1)
            return "done"

        tasks.append(ctx.spawn(beside()))
        if when == "before it began":
            tasks[0].cancel("early")
        try:
            result = await tasks[0]
        except CancelledFailure as err:
            return err.reason
        tasks[0].cancel("too late")
        return f"{result} {await tasks[0]}"

    expected = {
        "before it began": "early",
        "by itself": "myself",
        "when it is done": "done done",
    }
    assert ended(code)["output"] == expected[when]


def test_any_coroutine_may_end_the_run() -> None:
    async def code(ctx: AsyncContext) -> None:
        async def beside() -> None:
            await ctx.activity("work")
            ctx.continue_as_new("next")

        await ctx.gather(beside(), ctx.sleep("long", 60))

    assert ended(code, (2, ""))["type"] == "WorkflowContinuedAsNew"


def test_what_still_runs_when_the_main_coroutine_returns_is_left() -> None:
    async def code(ctx: AsyncContext) -> str:
        async def beside() -> None:
            await ctx.activity("never mind")

        ctx.spawn(beside())
        await ctx.activity("work")
        return "done"

    assert ended(code, (1, ""))["output"] == "done"


def test_only_coroutines_are_spawned() -> None:
    async def code(ctx: AsyncContext) -> None:
        ctx.spawn(ctx.activity("work"))  # type: ignore[arg-type]

    commands = decide(code, RunModel(code).task())["commands"]
    assert "spawn takes a coroutine" in commands[-1]["error"]


def test_nothing_is_left_behind_by_a_replay() -> None:
    """No coroutine lives on, and no code runs later, in a thread or moment of the collector's."""
    left: list[str] = []

    async def code(ctx: AsyncContext) -> None:
        async def beside() -> None:
            try:
                await ctx.sleep("s", 1)
            finally:
                left.append("beside")
                await ctx.activity("no step any more")

        async def never_begins() -> None:
            left.append("never")

        await ctx.race(beside(), ctx.spawn(beside()))
        ctx.spawn(never_begins())

    gc.collect()  # what other tests left is not this one's
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        body = decide(code, RunModel(code).task())
        assert left == ["beside", "beside"]
        gc.collect()
    assert left == ["beside", "beside"]
    assert [command["type"] for command in body["commands"]] == ["start_timer"] * 2


async def test_the_loop_of_the_caller_is_back_afterwards() -> None:
    async def code(ctx: AsyncContext) -> None:
        await asyncio.sleep(1)

    loop = asyncio.get_running_loop()
    assert "called asyncio" in decide(code, RunModel(code).task())["replay_error"]
    assert asyncio.get_running_loop() is loop


def test_an_object_whose_call_is_async_is_a_workflow() -> None:
    class Code:
        async def __call__(self, ctx: AsyncContext) -> str:
            return str(await ctx.activity("work"))

    assert ended(Code(), (1, "fine"))["output"] == "fine"
