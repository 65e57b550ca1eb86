"""Futures: what composes, and what is refused."""

import warnings
from typing import Any

import pytest
from run_model import RunModel

from raftflow_sdk import AsyncContext, CancelledFailure, Context
from raftflow_sdk.replay import decide


def ended(code: Any, *outputs: tuple[int, str]) -> Any:
    """The last event of a run whose steps are resolved in this order."""
    model = RunModel(code)
    model.decide()
    for sequence, output in outputs:
        model.resolve(sequence, output)
        model.decide()
    return model.events[-1]


def test_gathers_and_races_nest() -> None:
    async def code(ctx: AsyncContext) -> object:
        first = await ctx.race(
            ctx.gather(ctx.activity("a"), ctx.activity("b")),
            ctx.race(ctx.activity("c"), ctx.activity("d")),
            cancel_rest=True,
        )
        inner = await first
        return inner if isinstance(inner, list) else await inner

    assert ended(code, (1, "A"), (2, "B"))["output"] == '["A","B"]'
    assert ended(code, (1, "A"), (4, "D"))["output"] == "D"


@pytest.mark.parametrize(
    "use",
    [
        lambda step, _: step,
        lambda step, _: {"nested": [step]},
        lambda step, ctx: ctx.activity("next", step),
        lambda step, _: step.upper(),
        lambda step, _: step["key"],
        lambda step, _: list(step),
        lambda step, ctx: ctx.gather(step)[0],
    ],
)
def test_a_forgotten_await_is_told_with_its_step(use: Any) -> None:
    async def code(ctx: AsyncContext) -> object:
        return use(ctx.activity("reserve"), ctx)

    error = ended(code)["error"]
    assert "step 'reserve' (sequence 1) is not its result: `await` is missing" in error


def test_a_coroutine_that_was_not_awaited_is_named() -> None:
    async def reserve() -> str:
        return "reserved"

    async def code(ctx: AsyncContext) -> object:
        return reserve()

    with pytest.warns(RuntimeWarning, match="never awaited"):
        error = ended(code)["error"]
    assert "reserve is not its result: `await` is missing" in error


def test_a_run_that_ends_before_what_it_began_says_so() -> None:
    async def forgets(ctx: AsyncContext) -> object:
        ctx.activity("charge")
        return "done"

    async def knows(ctx: AsyncContext) -> object:
        ctx.child("Outlives")
        await ctx.race(ctx.activity("work"), ctx.sleep("patience", 60))
        ctx.activity("not wanted").cancel()
        return "done"

    told = r"a T run ended before step 'charge' \(sequence 1\), which it never awaited: is an"
    with pytest.warns(RuntimeWarning, match=told):
        assert ended(forgets)["output"] == "done"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ended(knows, (2, "worked"))["output"] == "done"


def test_nothing_to_wait_for_is_done() -> None:
    assert ended(lambda ctx: ctx.gather())["output"] == "[]"
    assert "no winner" in ended(lambda ctx: ctx.race())["error"]


def test_only_futures_of_the_run_are_taken() -> None:
    kept: list[Any] = []

    def code(ctx: Context) -> object:
        kept.append(ctx.start_activity("a"))
        return ctx.gather(kept[0])

    first = decide(code, RunModel(code).task())
    assert first["commands"][0]["type"] == "schedule_activity"
    again = decide(code, RunModel(code).task())
    assert "futures of this run" in again["commands"][-1]["error"]
    assert "futures of this run" in ended(lambda ctx: ctx.gather("a"))["error"]


def test_a_failure_among_results() -> None:
    def code(ctx: Context) -> object:
        steps = [ctx.start_activity("a"), ctx.start_activity("b")]
        steps[0].cancel("why not")
        results = ctx.gather(*steps, return_exceptions=True)
        return [type(results[0]).__name__, str(results[0]), results[1]]

    assert ended(code, (2, "B"))["output"] == '["CancelledFailure","why not","B"]'


def test_a_race_whose_first_was_cancelled_is_cancelled() -> None:
    def code(ctx: Context) -> object:
        step = ctx.start_activity("a")
        step.cancel("no")
        try:
            ctx.race(step, ctx.start_timer("t", 1))
        except CancelledFailure as err:
            return err.reason
        return "won"

    assert ended(code)["output"] == "no"


def test_a_payload_that_cannot_be_read_fails_where_it_is_waited_for() -> None:
    def code(ctx: Context) -> object:
        step = ctx.start_activity("a", decode="json")
        ctx.activity("b")
        try:
            step.result()
        except ValueError as err:
            return str(err)
        return "read"

    assert "not JSON" in ended(code, (1, "{"), (2, ""))["output"]


def test_a_name_of_the_sdk_is_taken() -> None:
    event = ended(lambda ctx: ctx.side_effect("search_attributes", lambda: 1))
    assert "taken by a marker" in event["error"]
