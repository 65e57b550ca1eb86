"""All scripted runs. They are tests (tests/cluster/consensus/test_scenarios.py), and what the
mutants are tried on."""

from __future__ import annotations

from tests.sim import (  # noqa: F401  # they register themselves
    scenarios_elections,
    scenarios_failstop,
    scenarios_links,
    scenarios_members,
    scenarios_repair,
    scenarios_replication,
    scenarios_snapshots,
)
from tests.sim.staging import SCENARIOS, Scenario

__all__ = ["SCENARIOS", "Scenario"]
