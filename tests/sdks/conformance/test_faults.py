"""The conformance scenarios while everything that can die does, and every activity runs twice."""

from __future__ import annotations

import conformance
import pytest
from conformance_code import IMPLEMENTATIONS

from raftflow.testing.plan import Harm, Plan


@pytest.mark.parametrize("harm", [Harm.CRASH, Harm.TWICE], ids=lambda each: each.name.lower())
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("scenario", conformance.scenarios(), ids=lambda each: each.name)
def test_scenario(scenario: conformance.Scenario, implementation: str, harm: Harm) -> None:
    stage = conformance.InProcess(scenario, implementation, Plan(harm))
    conformance.play(scenario, stage, at_least_once=harm is Harm.TWICE)
