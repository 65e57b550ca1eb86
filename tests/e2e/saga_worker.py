"""A worker for the tests: the saga, and a five-step workflow. Each activity call leaves a line in
a file, so that a test can count how often a step really ran.

usage: saga_worker.py CALLS_FILE ADDRESS...
"""

import os
import sys
import threading
from pathlib import Path
from typing import Any

from raftflow_sdk import ActivityFailure, RetryPolicy, Worker, WorkflowFailure

calls = Path(sys.argv[1])
gate = calls.with_suffix(".gate")  # activities named `hold` wait while this file exists
worker = Worker(addresses=sys.argv[2:], activity_slots=8, workflow_slots=4)
lock = threading.Lock()


def note(line: str) -> None:
    with lock, calls.open("a") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())


@worker.workflow("Saga")
def saga(ctx: Any) -> str:
    reserved = ctx.activity("reserve", ctx.input)
    ctx.sleep("settle", 0.2)
    if ctx.wait_for_signal("gate", "approved") != "yes":
        raise WorkflowFailure("rejected")
    try:
        ctx.activity("charge", reserved, retry=RetryPolicy(max_attempts=3, initial_backoff=0.2))
    except ActivityFailure as err:
        ctx.activity("release", reserved)
        raise WorkflowFailure(f"charge failed: {err}") from err
    return str(ctx.activity("ship", reserved))


@worker.workflow("PlainSaga")
def plain_saga(ctx: Any) -> str:
    """The saga with the default policy of one attempt everywhere."""
    reserved = ctx.activity("reserve", ctx.input)
    ctx.sleep("settle", 0.2)
    if ctx.wait_for_signal("gate", "approved") != "yes":
        raise WorkflowFailure("rejected")
    ctx.activity("charge", reserved)
    return str(ctx.activity("ship", reserved))


@worker.workflow("FiveSteps")
def five_steps(ctx: Any) -> str:
    value = ctx.input
    for name in ("one", "two", "hold", "four", "five"):
        value = ctx.activity(name, value)
    return str(value)


@worker.workflow("Sleeper")
def sleeper(ctx: Any) -> str:
    ctx.activity("one", ctx.input)
    ctx.sleep("nap", 3.0)
    return str(ctx.activity("two", ctx.input))


@worker.workflow("Waiter")
def waiter(ctx: Any) -> str:
    first = ctx.activity("hold", ctx.input)
    return f"{first}:{ctx.wait_for_signal('gate', 'go')}"


@worker.workflow("Retrier")
def retrier(ctx: Any) -> str:
    return str(
        ctx.activity("flaky", ctx.input, retry=RetryPolicy(max_attempts=5, initial_backoff=3.0))
    )


@worker.workflow("Quick")
def quick(ctx: Any) -> str:
    return str(ctx.activity("one", ctx.input))


def simple(name: str) -> None:
    @worker.activity(name)
    def run(value: str) -> str:
        note(f"{name} {value}")
        return value


for step in ("reserve", "charge", "release", "ship", "one", "two", "four", "five"):
    simple(step)


@worker.activity("hold")
def hold(value: str, info: Any) -> str:
    note(f"hold {value}")
    while gate.exists() and not info.lease_lost.wait(0.05):
        pass
    return value


@worker.activity("flaky")
def flaky(value: str) -> str:
    note(f"flaky {value}")
    if calls.read_text().count(f"flaky {value}\n") < 2:
        raise RuntimeError("not yet")
    return value


if __name__ == "__main__":
    worker.run()
