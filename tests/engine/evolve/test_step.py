from __future__ import annotations

import engine_harness as make
from engine_harness import EngineHarness

from raftflow.engine.commands import RecordHeartbeat


def test_what_only_open_steps_need_is_dropped() -> None:
    harness = EngineHarness()
    harness.register("Order")
    harness.start("w")
    harness.decide("w", make.activity(1, input=b"in"))
    token = harness.grant_activity("w", 1)
    harness.do(
        RecordHeartbeat(namespace="default", workflow_id="w", lease_token=token, details=b"half")
    )
    step = harness.run("w").steps[0]
    assert (step.input, step.heartbeat_details) == (b"in", b"half")
    harness.do(make.complete_activity("w", token, b"out"))
    step = harness.run("w").steps[0]
    assert (step.input, step.heartbeat_details, step.output) == (b"", b"", b"out")
