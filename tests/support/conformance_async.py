"""The conformance workflows as `async def` functions; `conformance_code.TYPES` has their types."""

from __future__ import annotations

import json
import secrets

from raftflow_sdk import (
    DEFAULT_VERSION,
    ActivityFailure,
    AsyncContext,
    CancelledFailure,
    ChildFailure,
    RetryPolicy,
    WorkflowFailure,
)

QUICK = RetryPolicy(max_attempts=3, initial_backoff=0.1)


async def saga(ctx: AsyncContext) -> object:
    booked: list[tuple[str, str]] = []
    try:
        flight = await ctx.activity("book_flight", ctx.input)
        booked.append(("cancel_flight", flight))
        hotel = await ctx.activity("book_hotel", ctx.input, retry=QUICK)
        booked.append(("cancel_hotel", hotel))
        policy = RetryPolicy(
            max_attempts=3, initial_backoff=0.1, non_retryable_error_types=("SoldOut",)
        )
        car = await ctx.activity("book_car", ctx.input, retry=policy)
    except ActivityFailure as err:
        for undo, what in reversed(booked):
            await ctx.activity(undo, what)
        raise WorkflowFailure(f"booking failed: {err}", error_type=err.error_type) from err
    return f"{flight},{hotel},{car}"


async def fails(ctx: AsyncContext) -> object:
    raise WorkflowFailure(ctx.input, error_type="Chosen")


async def works(ctx: AsyncContext) -> object:
    return await ctx.activity("work", ctx.input)


async def retried(ctx: AsyncContext) -> object:
    return await ctx.activity(
        "work", ctx.input, retry=RetryPolicy(max_attempts=3, initial_backoff=3_600)
    )


async def fan_out(ctx: AsyncContext) -> object:
    numbers = range(1, int(ctx.input) + 1)
    squares = await ctx.gather(*[ctx.start_activity("square", str(n)) for n in numbers])
    return str(sum(map(int, squares)))


async def settled(ctx: AsyncContext) -> object:
    started = [ctx.start_activity("work", name) for name in "abc"]
    results = await ctx.gather(*started, return_exceptions=True)
    return ",".join(
        f"failed: {each.error_type}" if isinstance(each, ActivityFailure) else each
        for each in results
    )


async def waves(ctx: AsyncContext) -> object:
    first = await ctx.gather(*[ctx.start_activity("first", n) for n in "12"])
    return ",".join(await ctx.gather(*[ctx.start_activity("second", text) for text in first]))


async def activity_or_timer(ctx: AsyncContext) -> object:
    work = ctx.start_activity("work", ctx.input)
    winner = await ctx.race(work, ctx.start_timer("limit", 10), cancel_rest=True)
    return f"work: {await work}" if winner is work else "timeout"


async def three_ways(ctx: AsyncContext) -> object:
    winner = await ctx.race(
        *[ctx.start_activity(name, ctx.input) for name in "abc"], cancel_rest=True
    )
    return await winner


async def approval(ctx: AsyncContext) -> object:
    gate = ctx.start_signal_wait("gate", "approved")
    winner = await ctx.race(gate, ctx.start_timer("limit", 10), cancel_rest=True)
    said: str = await gate if winner is gate else "timeout"
    await ctx.activity("note", said)
    if said == "timeout":
        said += "," + await ctx.wait_for_signal("again", "approved")
    return said


async def change_1(ctx: AsyncContext) -> object:
    await ctx.activity("first", ctx.input)
    await ctx.wait_for_signal("gate", "go")
    said = await ctx.activity("old", ctx.input)
    await ctx.wait_for_signal("end", "go")
    return said


async def change_2(ctx: AsyncContext) -> object:
    await ctx.activity("first", ctx.input)
    await ctx.wait_for_signal("gate", "go")
    new = ctx.version("use-new", DEFAULT_VERSION, 1) == 1
    said = await ctx.activity("new" if new else "old", ctx.input)
    await ctx.wait_for_signal("end", "go")
    return said


async def change_3(ctx: AsyncContext) -> object:
    await ctx.activity("renamed", ctx.input)
    await ctx.wait_for_signal("gate", "go")
    return "never"


async def side_effect(ctx: AsyncContext) -> object:
    drawn = ctx.side_effect("draw", lambda: secrets.token_hex(16))
    heard = await ctx.activity("echo", drawn)
    again = await ctx.activity("echo", drawn)
    return "same" if drawn == heard == again else "different"


async def clockwork(ctx: AsyncContext) -> object:
    def say() -> str:
        return f"{ctx.now().isoformat()}|{ctx.random().random()}|{ctx.uuid()}"

    said = say()
    heard = await ctx.activity("echo", said)
    before = ctx.now()
    await ctx.sleep("nap", 0.3)
    moved = (ctx.now() - before).total_seconds() >= 0.3
    more = say()
    also = await ctx.activity("echo", more)
    same = heard == said and also == more and said != more and moved
    return "same" if same else "different"


async def countdown(ctx: AsyncContext) -> object:
    number = int(ctx.input)
    if number == 0:
        return "done"
    await ctx.activity("tick", ctx.input)
    return ctx.continue_as_new(str(number - 1))


async def drops(ctx: AsyncContext) -> object:
    if ctx.input == "second":
        return await ctx.wait_for_signal("gate", "go")
    await ctx.activity("work", ctx.input)
    return ctx.continue_as_new("second")


async def cancellable(ctx: AsyncContext) -> object:
    await ctx.activity("prepare", ctx.input)
    try:
        return await ctx.wait_for_signal("gate", "go")
    except CancelledFailure:
        await ctx.activity("undo", ctx.input)
        raise


async def stubborn(ctx: AsyncContext) -> object:
    try:
        return await ctx.activity("work", ctx.input)
    except CancelledFailure:
        return await ctx.activity("undo", ctx.input)


async def start_to_close(ctx: AsyncContext) -> object:
    retry = RetryPolicy(max_attempts=2, initial_backoff=0.01)
    return await ctx.activity("work", ctx.input, start_to_close_timeout=5, retry=retry)


async def schedule_to_close(ctx: AsyncContext) -> object:
    retry = RetryPolicy(max_attempts=100, initial_backoff=0.1)
    return await ctx.activity("work", ctx.input, schedule_to_close_timeout=0.8, retry=retry)


async def schedule_to_start(ctx: AsyncContext) -> object:
    return await ctx.activity("idle", ctx.input, schedule_to_start_timeout=0.5)


async def leased(ctx: AsyncContext) -> object:
    retry = RetryPolicy(max_attempts=2, initial_backoff=0.01)
    return await ctx.activity("work", ctx.input, retry=retry)


async def patient(ctx: AsyncContext) -> object:
    return await ctx.wait_for_signal("gate", "go")


async def resumed(ctx: AsyncContext) -> object:
    retry = RetryPolicy(max_attempts=3, initial_backoff=0.01)
    return await ctx.activity("work", ctx.input, retry=retry)


async def parent(ctx: AsyncContext) -> object:
    said = await ctx.child(
        "Child", ctx.input, name="helper", workflow_id=f"{ctx.workflow_id}-child"
    )
    return f"child said {said}"


async def careful(ctx: AsyncContext) -> object:
    try:
        return await ctx.child(
            "Child", ctx.input, name="helper", workflow_id=f"{ctx.workflow_id}-child"
        )
    except ChildFailure as err:
        return f"failed: {err.error_type}"


async def leaving(ctx: AsyncContext) -> object:
    child_id = f"{ctx.workflow_id}-child"
    policy = ctx.input
    ctx.start_child(
        "Child", "wait", name="helper", workflow_id=child_id, parent_close_policy=policy
    )
    await ctx.activity("look", ctx.input)
    return "gone"


async def child(ctx: AsyncContext) -> object:
    if ctx.input == "fail":
        raise WorkflowFailure("no", error_type="Refused")
    if ctx.input == "wait":
        try:
            return await ctx.wait_for_signal("gate", "go")
        except CancelledFailure:
            await ctx.activity("undo", "x")
            raise
    if ctx.input == "chain":
        ctx.continue_as_new("hello")
    return await ctx.activity("work", ctx.input)


async def collects(ctx: AsyncContext) -> object:
    await ctx.activity("warm up", ctx.input)
    first = await ctx.wait_for_signal("first", "item")
    second = await ctx.wait_for_signal("second", "item")
    return f"{first},{second},{await ctx.wait_for_signal('third', 'other')}"


async def echo(ctx: AsyncContext) -> object:
    return await ctx.activity("echo", ctx.input, decode="bytes")


async def json_echo(ctx: AsyncContext) -> object:
    return await ctx.activity("echo", json.loads(ctx.input), decode="json")


async def tagged(ctx: AsyncContext) -> object:
    ctx.upsert_search_attributes({"stage": "packing", "weight": 3})
    await ctx.activity("work", ctx.input)
    ctx.upsert_search_attributes({"stage": "shipped", "weight": None})
    return "ok"


async def policy(ctx: AsyncContext) -> object:
    retry = RetryPolicy(
        max_attempts=4,
        initial_backoff=0.01,
        max_backoff=0.05,
        backoff_coefficient=1.5,
        jitter=0.5,
        non_retryable_error_types=("Fatal",),
    )
    return await ctx.activity(
        "work",
        ctx.input,
        retry=retry,
        start_to_close_timeout=60,
        schedule_to_close_timeout=120,
        schedule_to_start_timeout=90,
        priority=1,
    )


async def patience(ctx: AsyncContext) -> object:
    try:
        return await ctx.wait_for_signal("gate", "go", timeout=int(ctx.input) / 1_000)
    except TimeoutError:
        return "timeout"


async def impatient(ctx: AsyncContext) -> object:
    helper = ctx.start_child(
        "Child", ctx.input, name="helper", workflow_id=f"{ctx.workflow_id}-child"
    )
    winner = await ctx.race(helper, ctx.start_timer("limit", 0.3), cancel_rest=True)
    return await helper if winner is helper else "timeout"
