"""The conformance workflows as `def` functions; `conformance_code.TYPES` has their types."""

from __future__ import annotations

import json
import secrets

from raftflow_sdk import (
    DEFAULT_VERSION,
    ActivityFailure,
    CancelledFailure,
    ChildFailure,
    Context,
    RetryPolicy,
    WorkflowFailure,
)

QUICK = RetryPolicy(max_attempts=3, initial_backoff=0.1)


def saga(ctx: Context) -> object:
    booked: list[tuple[str, str]] = []
    try:
        flight = ctx.activity("book_flight", ctx.input)
        booked.append(("cancel_flight", flight))
        hotel = ctx.activity("book_hotel", ctx.input, retry=QUICK)
        booked.append(("cancel_hotel", hotel))
        policy = RetryPolicy(
            max_attempts=3, initial_backoff=0.1, non_retryable_error_types=("SoldOut",)
        )
        car = ctx.activity("book_car", ctx.input, retry=policy)
    except ActivityFailure as err:
        for undo, what in reversed(booked):
            ctx.activity(undo, what)
        raise WorkflowFailure(f"booking failed: {err}", error_type=err.error_type) from err
    return f"{flight},{hotel},{car}"


def fails(ctx: Context) -> object:
    raise WorkflowFailure(ctx.input, error_type="Chosen")


def works(ctx: Context) -> object:
    return ctx.activity("work", ctx.input)


def retried(ctx: Context) -> object:
    return ctx.activity("work", ctx.input, retry=RetryPolicy(max_attempts=3, initial_backoff=3_600))


def fan_out(ctx: Context) -> object:
    numbers = range(1, int(ctx.input) + 1)
    squares = ctx.gather(*[ctx.start_activity("square", str(n)) for n in numbers])
    return str(sum(map(int, squares)))


def settled(ctx: Context) -> object:
    started = [ctx.start_activity("work", name) for name in "abc"]
    results = ctx.gather(*started, return_exceptions=True)
    return ",".join(
        f"failed: {each.error_type}" if isinstance(each, ActivityFailure) else each
        for each in results
    )


def waves(ctx: Context) -> object:
    first = ctx.gather(*[ctx.start_activity("first", n) for n in "12"])
    return ",".join(ctx.gather(*[ctx.start_activity("second", text) for text in first]))


def activity_or_timer(ctx: Context) -> object:
    work = ctx.start_activity("work", ctx.input)
    winner = ctx.race(work, ctx.start_timer("limit", 10), cancel_rest=True)
    return f"work: {work.result()}" if winner is work else "timeout"


def three_ways(ctx: Context) -> object:
    return ctx.race(
        *[ctx.start_activity(name, ctx.input) for name in "abc"], cancel_rest=True
    ).result()


def approval(ctx: Context) -> object:
    gate = ctx.start_signal_wait("gate", "approved")
    winner = ctx.race(gate, ctx.start_timer("limit", 10), cancel_rest=True)
    said: str = gate.result() if winner is gate else "timeout"
    ctx.activity("note", said)
    if said == "timeout":
        said += "," + ctx.wait_for_signal("again", "approved")
    return said


def change_1(ctx: Context) -> object:
    ctx.activity("first", ctx.input)
    ctx.wait_for_signal("gate", "go")
    said = ctx.activity("old", ctx.input)
    ctx.wait_for_signal("end", "go")
    return said


def change_2(ctx: Context) -> object:
    ctx.activity("first", ctx.input)
    ctx.wait_for_signal("gate", "go")
    new = ctx.version("use-new", DEFAULT_VERSION, 1) == 1
    said = ctx.activity("new" if new else "old", ctx.input)
    ctx.wait_for_signal("end", "go")
    return said


def change_3(ctx: Context) -> object:
    ctx.activity("renamed", ctx.input)
    ctx.wait_for_signal("gate", "go")
    return "never"


def side_effect(ctx: Context) -> object:
    drawn = ctx.side_effect("draw", lambda: secrets.token_hex(16))
    heard = ctx.activity("echo", drawn)
    again = ctx.activity("echo", drawn)
    return "same" if drawn == heard == again else "different"


def clockwork(ctx: Context) -> object:
    def say() -> str:
        return f"{ctx.now().isoformat()}|{ctx.random().random()}|{ctx.uuid()}"

    said = say()
    heard = ctx.activity("echo", said)
    before = ctx.now()
    ctx.sleep("nap", 0.3)
    moved = (ctx.now() - before).total_seconds() >= 0.3
    more = say()
    also = ctx.activity("echo", more)
    same = heard == said and also == more and said != more and moved
    return "same" if same else "different"


def countdown(ctx: Context) -> object:
    number = int(ctx.input)
    if number == 0:
        return "done"
    ctx.activity("tick", ctx.input)
    return ctx.continue_as_new(str(number - 1))


def drops(ctx: Context) -> object:
    if ctx.input == "second":
        return ctx.wait_for_signal("gate", "go")
    ctx.activity("work", ctx.input)
    return ctx.continue_as_new("second")


def cancellable(ctx: Context) -> object:
    ctx.activity("prepare", ctx.input)
    try:
        return ctx.wait_for_signal("gate", "go")
    except CancelledFailure:
        ctx.activity("undo", ctx.input)
        raise


def stubborn(ctx: Context) -> object:
    try:
        return ctx.activity("work", ctx.input)
    except CancelledFailure:
        return ctx.activity("undo", ctx.input)


def start_to_close(ctx: Context) -> object:
    retry = RetryPolicy(max_attempts=2, initial_backoff=0.01)
    return ctx.activity("work", ctx.input, start_to_close_timeout=5, retry=retry)


def schedule_to_close(ctx: Context) -> object:
    retry = RetryPolicy(max_attempts=100, initial_backoff=0.1)
    return ctx.activity("work", ctx.input, schedule_to_close_timeout=0.8, retry=retry)


def schedule_to_start(ctx: Context) -> object:
    return ctx.activity("idle", ctx.input, schedule_to_start_timeout=0.5)


def leased(ctx: Context) -> object:
    retry = RetryPolicy(max_attempts=2, initial_backoff=0.01)
    return ctx.activity("work", ctx.input, retry=retry)


def patient(ctx: Context) -> object:
    return ctx.wait_for_signal("gate", "go")


def resumed(ctx: Context) -> object:
    retry = RetryPolicy(max_attempts=3, initial_backoff=0.01)
    return ctx.activity("work", ctx.input, retry=retry)


def parent(ctx: Context) -> object:
    said = ctx.child("Child", ctx.input, name="helper", workflow_id=f"{ctx.workflow_id}-child")
    return f"child said {said}"


def careful(ctx: Context) -> object:
    try:
        return ctx.child("Child", ctx.input, name="helper", workflow_id=f"{ctx.workflow_id}-child")
    except ChildFailure as err:
        return f"failed: {err.error_type}"


def leaving(ctx: Context) -> object:
    child_id = f"{ctx.workflow_id}-child"
    policy = ctx.input
    ctx.start_child(
        "Child", "wait", name="helper", workflow_id=child_id, parent_close_policy=policy
    )
    ctx.activity("look", ctx.input)
    return "gone"


def child(ctx: Context) -> object:
    if ctx.input == "fail":
        raise WorkflowFailure("no", error_type="Refused")
    if ctx.input == "wait":
        try:
            return ctx.wait_for_signal("gate", "go")
        except CancelledFailure:
            ctx.activity("undo", "x")
            raise
    if ctx.input == "chain":
        ctx.continue_as_new("hello")
    return ctx.activity("work", ctx.input)


def collects(ctx: Context) -> object:
    ctx.activity("warm up", ctx.input)
    first = ctx.wait_for_signal("first", "item")
    second = ctx.wait_for_signal("second", "item")
    return f"{first},{second},{ctx.wait_for_signal('third', 'other')}"


def echo(ctx: Context) -> object:
    return ctx.activity("echo", ctx.input, decode="bytes")


def json_echo(ctx: Context) -> object:
    return ctx.activity("echo", json.loads(ctx.input), decode="json")


def tagged(ctx: Context) -> object:
    ctx.upsert_search_attributes({"stage": "packing", "weight": 3})
    ctx.activity("work", ctx.input)
    ctx.upsert_search_attributes({"stage": "shipped", "weight": None})
    return "ok"


def policy(ctx: Context) -> object:
    retry = RetryPolicy(
        max_attempts=4,
        initial_backoff=0.01,
        max_backoff=0.05,
        backoff_coefficient=1.5,
        jitter=0.5,
        non_retryable_error_types=("Fatal",),
    )
    return ctx.activity(
        "work",
        ctx.input,
        retry=retry,
        start_to_close_timeout=60,
        schedule_to_close_timeout=120,
        schedule_to_start_timeout=90,
        priority=1,
    )


def patience(ctx: Context) -> object:
    try:
        return ctx.wait_for_signal("gate", "go", timeout=int(ctx.input) / 1_000)
    except TimeoutError:
        return "timeout"


def impatient(ctx: Context) -> object:
    helper = ctx.start_child(
        "Child", ctx.input, name="helper", workflow_id=f"{ctx.workflow_id}-child"
    )
    winner = ctx.race(helper, ctx.start_timer("limit", 0.3), cancel_rest=True)
    return helper.result() if winner is helper else "timeout"
