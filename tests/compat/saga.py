"""The saga on the unmodified PyPI client, as a process. usage: saga.py ADDRESS..."""

import sys

from workflowd import ActivityFailure, RetryPolicy, Worker, WorkflowFailure

worker = Worker(addresses=sys.argv[1:])


@worker.workflow("CompatSaga")
def saga(ctx):
    reserved = ctx.activity("reserve", ctx.input)
    ctx.sleep("settle", 0.3)
    if ctx.wait_for_signal("gate", "approved") != "yes":
        raise WorkflowFailure("rejected")
    try:
        ctx.activity("charge", reserved, retry=RetryPolicy(max_attempts=3, initial_backoff=0.2))
    except ActivityFailure as err:
        ctx.activity("release", reserved)
        raise WorkflowFailure(f"charge failed: {err}") from err
    return ctx.activity("ship", reserved)


@worker.activity("reserve")
def reserve(value):
    return f"reserved({value})"


@worker.activity("charge")
def charge(value):
    if "declined" in value:
        raise RuntimeError("card declined")
    return f"charged({value})"


@worker.activity("release")
def release(value):
    return f"released({value})"


@worker.activity("ship")
def ship(value):
    return f"shipped({value})"


if __name__ == "__main__":
    worker.run()
