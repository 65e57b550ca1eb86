"""The way in: the ordinary life of a run, and what holds whatever is proposed."""

from __future__ import annotations

from engine_harness import EngineHarness, run_to_end

from raftflow.engine.rejections import Started
from raftflow.engine.state import RunStatus


def test_three_steps_complete() -> None:
    harness = EngineHarness()
    harness.register("Order")
    assert harness.start("order-1") == Started("r1", True)
    run_to_end(harness, "order-1", ["reserve", "charge", "ship"])
    run = harness.run("order-1")
    assert run.status is RunStatus.COMPLETED
    assert run.output == b"done"
    assert [type(event.body).__name__ for event in harness.history("order-1")] == [
        "WorkflowStarted",
        *["StepScheduled", "StepCompleted"] * 3,
        "WorkflowCompleted",
    ]
