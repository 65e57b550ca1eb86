"""The conformance scenarios on the engine in this process, for both kinds of Python workflow."""

from __future__ import annotations

import conformance
import pytest
from conformance_code import IMPLEMENTATIONS

from raftflow.engine.invariants import problems


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("scenario", conformance.scenarios(), ids=lambda each: each.name)
def test_scenario(scenario: conformance.Scenario, implementation: str) -> None:
    stage = conformance.InProcess(scenario, implementation)
    conformance.play(scenario, stage)
    node = stage.env.node
    for key, run in node.state.runs.items():
        timers = {(kind, n): t.fire_at_ms for (k, kind, n), t in node.timers.items() if k == key}
        assert problems(run, timers) == []
