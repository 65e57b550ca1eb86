"""A client we did not write, unmodified, against the API."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import workflowd
from eventually import eventually
from single_node import Served


def saga(ctx: Any) -> Any:
    reserved = ctx.activity("reserve", ctx.input)
    ctx.sleep("settle", 0.05)
    if ctx.wait_for_signal("gate", "approved") != "yes":
        raise workflowd.WorkflowFailure("rejected")
    try:
        retry = workflowd.RetryPolicy(max_attempts=2, initial_backoff=0.01)
        ctx.activity("charge", reserved, retry=retry)
    except workflowd.ActivityFailure as error:
        ctx.activity("release", reserved)
        raise workflowd.WorkflowFailure(f"charge failed: {error}") from None
    return ctx.activity("ship", reserved)


@pytest.fixture
def worker(served: Served) -> Any:
    worker = workflowd.Worker(address=served.http)
    worker.workflow("Order")(saga)
    worker.activity("reserve")(lambda order: f"held {order}")
    worker.activity("release")(lambda order: "")
    worker.activity("ship")(lambda order: f"shipped {order}")
    return worker


async def run_to_end(served: Served, worker: Any) -> Any:
    """Work in the client's own threads while this loop serves and lets time pass."""
    await asyncio.to_thread(worker.run, block=False)
    workflow_id = await asyncio.to_thread(worker.start_workflow, "Order", "book 📖")
    await asyncio.to_thread(worker.signal, workflow_id, "approved", "yes")

    def closed() -> bool:
        served.node.tick(20)
        return not served.node.harness.run(workflow_id).open

    await eventually(closed, "the run is closed")
    worker.stop()
    shown = await asyncio.to_thread(worker.describe, workflow_id)
    runs = await asyncio.to_thread(worker.runs, workflow_id)
    assert [run["run_id"] for run in runs] == [shown["run_id"]]
    return shown


@pytest.mark.slow
async def test_a_saga_completes(served: Served, worker: Any, capsys: Any) -> None:
    attempts = []

    @worker.activity("charge")
    def charge(order: str) -> str:
        attempts.append(order)
        if len(attempts) == 1:
            raise RuntimeError("try again")
        return "paid"

    shown = await run_to_end(served, worker)
    assert (shown["status"], shown["output"]) == ("COMPLETED", "shipped held book 📖")
    assert [step["step_name"] for step in shown["steps"]] == [
        "reserve",
        "settle",
        "gate",
        "charge",
        "ship",
    ]
    assert shown["steps"][3]["attempts"] == len(attempts) == 2
    assert capsys.readouterr().out == ""  # the client prints what goes wrong


@pytest.mark.slow
async def test_a_saga_compensates(served: Served, worker: Any) -> None:
    @worker.activity("charge")
    def charge(order: str) -> str:
        raise workflowd.NonRetryableError("card declined", error_type="Declined")

    shown = await run_to_end(served, worker)
    assert (shown["status"], shown["error"]) == ("FAILED", "charge failed: card declined")
    assert shown["steps"][3]["error_type"] == "Declined"
    assert shown["steps"][3]["non_retryable"] is True
    assert shown["steps"][4]["step_name"] == "release"
