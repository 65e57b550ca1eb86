"""The workflows and activities of these tests, in the words of the client that we did not write."""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from datetime import timedelta
from typing import Any

from workflowd import (
    DEFAULT_VERSION,
    ActivityFailure,
    CancelledFailure,
    Context,
    NonRetryableError,
    RetryPolicy,
    Worker,
    WorkflowFailure,
)

# What code of a workflow or an activity saw, by workflow id. It lives in the tests' own process.
seen: dict[str, list[Any]] = defaultdict(list)
# Which release of a workflow's code runs, by workflow id.
release: dict[str, int] = defaultdict(int)
TOO_LONG = 20.0


class Declined(Exception):
    pass


def define(worker: Worker) -> Worker:
    """Register everything with the worker."""
    for part in (_saga, _parallel, _races, _changes, _clock, _chains, _cancels, _timeouts, _rest):
        part(worker)
    return worker


def _saga(worker: Worker) -> None:
    @worker.workflow("Saga")
    def saga(ctx: Context) -> dict:
        order = ctx.input_as("json")
        booked = ctx.activity("book", order, decode="json")
        ctx.sleep("settle", 0.05)
        policy = RetryPolicy(
            max_attempts=3,
            initial_backoff=0.05,
            max_backoff=0.1,
            non_retryable_error_types=("Declined",),
        )
        try:
            paid = ctx.activity("pay", booked, retry=policy)
        except ActivityFailure as failure:
            ctx.activity("refund", booked)
            said = [failure.step_name, failure.type, str(failure), failure.non_retryable]
            raise WorkflowFailure(json.dumps(said)) from failure
        return {"paid": paid, "sent": ctx.activity("send", booked)}

    @worker.activity("book", decode="json")
    def book(order: dict) -> dict:
        return {**order, "held": True}

    @worker.activity("pay", decode="json")
    def pay(order: dict, info: dict) -> str:
        seen[info["workflow_id"]].append(("pay", info["attempt"]))
        if order["card"] == "declined":
            raise Declined("no money")
        if order["card"] == "stolen":
            raise NonRetryableError("call the police", error_type="Stolen")
        if order["card"] == "broken" or info["attempt"] < order.get("good_at", 1):
            raise ConnectionError(f"attempt {info['attempt']}")
        return f"paid at {info['attempt']}"

    @worker.activity("refund", decode="json")
    def refund(order: dict, info: dict) -> None:
        seen[info["workflow_id"]].append(("refund", order["held"]))

    @worker.activity("send", decode="json")
    def send(order: dict) -> str:
        return f"sent {order['id']}"


def _parallel(worker: Worker) -> None:
    @worker.workflow("FanOut")
    def fan_out(ctx: Context) -> list:
        count = int(ctx.input)
        parts = [ctx.activity_async("square", str(n), decode="json") for n in range(count)]
        return ctx.wait_all(*parts)

    @worker.activity("square", decode="json")
    def square(number: int) -> int:
        return number * number


def _races(worker: Worker) -> None:
    @worker.workflow("Race")
    def race(ctx: Context) -> dict:
        slow = ctx.activity_async("hold", "slow")
        deadline = ctx.sleep_async("deadline", 0.2)
        reply = ctx.wait_for_signal_async("reply", "answer", decode="json")
        won = ctx.wait_any(slow, deadline, reply, cancel_rest=True)
        lost = []
        for future in (slow, deadline, reply):
            try:
                lost.append(future.result())
            except CancelledFailure as failure:
                lost.append([failure.step_name, str(failure)])
        return {"won": won, "lost": lost}

    @worker.workflow("LateSignal")
    def late_signal(ctx: Context) -> list:
        first = ctx.wait_for_signal("first", "go", timeout=0.1)
        second = ctx.wait_for_signal("second", "go", decode="json")
        third = ctx.wait_for_signal("third", "go", timeout=TOO_LONG)
        return [first, second, third]

    @worker.workflow("Withdrawn")
    def withdrawn(ctx: Context) -> list:
        never = ctx.wait_for_signal_async("never", "go")
        never.cancel("nobody cares")
        never.cancel("again")
        try:
            never.result()
        except CancelledFailure as failure:
            return [failure.step_name, str(failure), ctx.wait_for_signal("then", "go")]
        raise AssertionError("a cancelled wait has no result")


def _changes(worker: Worker) -> None:
    @worker.workflow("Versioned")
    def versioned(ctx: Context) -> list:
        marks: list[Any] = []
        current = release[ctx.workflow_id]
        if current == 1:
            marks.append(ctx.get_version("fraud-check", DEFAULT_VERSION, 1))
        if current == 2:
            marks.append(ctx.get_version("fraud-check", 2, 3))
        marks.append(ctx.wait_for_signal("gate", "go"))
        return marks

    @worker.workflow("Diverging")
    def diverging(ctx: Context) -> str:
        name = "then" if release[ctx.workflow_id] else "now"
        return ctx.wait_for_signal(name, "go")

    @worker.workflow("SideEffect")
    def side_effect(ctx: Context) -> list:
        def draw() -> dict:
            seen[ctx.workflow_id].append("drawn")
            return {"at": time.time_ns()}

        drawn = ctx.side_effect("draw", draw, decode="json")
        ctx.sleep("nap", 0.05)
        seen[f"{ctx.workflow_id}/values"].append(drawn)
        return [drawn, ctx.side_effect("text", lambda: b"plain")]


def _clock(worker: Worker) -> None:
    @worker.workflow("Clock")
    def clock(ctx: Context) -> list:
        told: list[Any] = [ctx.now().isoformat(), ctx.random()]
        ctx.activity("square", "3")
        told += [ctx.now().isoformat(), ctx.random()]
        ctx.sleep_until("soon", ctx.now() + timedelta(milliseconds=60))
        ctx.sleep_until("past", ctx.now().timestamp() - 5)
        told += [ctx.now().isoformat(), ctx.random()]
        seen[ctx.workflow_id].append(told)
        return told


def _chains(worker: Worker) -> None:
    @worker.workflow("Countdown")
    def countdown(ctx: Context) -> Any:
        left = ctx.input_as("json")
        ctx.sleep("tick", 0.01)
        return ctx.continue_as_new(left - 1) if left else f"done in {ctx.run_id}"

    @worker.workflow("UntilSuggested")
    def until_suggested(ctx: Context) -> Any:
        done = ctx.input_as("json") or 0
        if done:
            return {"carried": done}
        while not ctx.continue_as_new_suggested():
            done = ctx.activity("square", str(done + 1), decode="json") and done + 1
        return ctx.continue_as_new(done)

    @worker.workflow("Handover")
    def handover(ctx: Context) -> Any:
        ctx.activity("square", "2")
        return ctx.continue_as_new(
            b"\xff\x00", workflow_type="Successor", execution_timeout=30, task_queue="gpu"
        )


def successor(ctx: Context) -> bytes:
    """Registered on the queue gpu alone."""
    return ctx.input_as("bytes") + b"!"


def _cancels(worker: Worker) -> None:
    @worker.workflow("Compensating")
    def compensating(ctx: Context) -> str:
        ctx.activity("square", "1")
        try:
            ctx.activity("hold", "until told")
        except CancelledFailure as failure:
            assert ctx.cancel_requested
            seen[ctx.workflow_id].append([failure.step_name, str(failure)])
            ctx.activity("square", "2")  # compensation runs like anything else
            raise
        return "never"

    @worker.workflow("Stubborn")
    def stubborn(ctx: Context) -> str:
        gate = ctx.wait_for_signal_async("gate", "go")
        nap = ctx.sleep_async("nap", TOO_LONG)
        try:
            ctx.wait_any(gate, nap)
        except CancelledFailure as failure:
            return f"went on: {failure}"
        return "never"

    @worker.workflow("Holding")
    def holding(ctx: Context) -> str:
        return ctx.activity("hold", "until told")

    @worker.activity("hold")
    def hold(_: str, info: dict) -> str:
        note = seen[f"{info['workflow_id']}/hold"]
        note.append("begun")
        cancelled: threading.Event = info["cancelled"]
        if cancelled.wait(TOO_LONG):
            note.append(("cancelled", info["lease_lost"].wait(1)))
        return "held"


def _timeouts(worker: Worker) -> None:
    @worker.workflow("Timeouts")
    def timeouts(ctx: Context) -> list:
        twice = RetryPolicy(max_attempts=2, initial_backoff=0.01)
        # Attempts after 0, 50, 150, 350, 750, 1,550 ms; the next would come after 3,150.
        forever = RetryPolicy(max_attempts=1_000, initial_backoff=0.05)
        hopeless = ctx.activity_async("failing", schedule_to_close_timeout=3, retry=forever)
        slow = ctx.activity_async("overrun", start_to_close_timeout=0.3, retry=twice)
        calls = (
            hopeless.result,
            slow.result,
            lambda: ctx.activity("overrun", start_to_close_timeout=0.1),
            lambda: ctx.activity("overrun", schedule_to_close_timeout=2),
        )
        kinds = []
        for call in calls:
            try:
                kinds.append(call())
            except ActivityFailure as failure:
                kinds.append(failure.type)
        return kinds

    @worker.activity("overrun")
    def overrun(_: str, info: dict) -> str:
        if info["lease_lost"].wait(TOO_LONG):
            seen[info["workflow_id"]].append((info["sequence"], info["attempt"]))
        return "too late"

    @worker.activity("failing")
    def failing(_: str) -> str:
        raise OSError("not yet")

    @worker.workflow("Abandoned")
    def abandoned(ctx: Context) -> str:
        try:
            return ctx.activity("abandoned", "x")  # polled for by the test alone
        except ActivityFailure as failure:
            return failure.type

    @worker.workflow("Idle")
    def idle(ctx: Context) -> str:
        return ctx.wait_for_signal("gate", "go")


def _rest(worker: Worker) -> None:
    @worker.workflow("Echo")
    def echo(ctx: Context) -> Any:
        """The input, through an activity and a signal, in the kind that the run's id tells."""
        kind = ctx.workflow_id.partition(":")[0]
        payload = ctx.activity(f"echo-{kind}", ctx.input_as(kind), decode=kind)
        answer = ctx.wait_for_signal("gate", "go", decode=kind)
        assert answer == payload, "the same bytes on every way"
        return answer

    for kind in ("text", "json", "bytes"):
        worker.activity(f"echo-{kind}", decode=kind)(lambda payload: payload)

    @worker.workflow("Traced")
    def traced(ctx: Context) -> dict:
        told = {"traceparent": ctx.traceparent, "tracestate": ctx.tracestate}
        told["activity"] = ctx.activity("trace-of", decode="json")
        seen[ctx.workflow_id].append(ctx.traceparent)
        return told

    @worker.activity("trace-of")
    def trace_of(_: str, info: dict) -> dict:
        return {name: info.get(name, "") for name in ("traceparent", "tracestate")}

    @worker.workflow("ByQueue")
    def by_queue(ctx: Context) -> list:
        return [ctx.activity("where", task_queue="gpu"), ctx.activity("where")]

    @worker.activity("where")
    def where(_: str) -> str:
        return worker.task_queue or "default"
