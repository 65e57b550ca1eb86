"""The plugin: its fixtures are there for whoever has the package installed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from shop_workflows import approval

from raftflow.testing import Environment, Run


def test_the_environment_is_a_fixture(raftflow_env: Environment) -> None:
    run = raftflow_env.start(approval)
    raftflow_env.signal(run, "approved", "yes")
    assert run.result == "yes"


@pytest.mark.slow
def test_faults_are_fixtures(
    crash_everywhere: Callable[..., list[str]], duplicate_activities: Callable[..., list[str]]
) -> None:
    def scenario(env: Environment) -> Run:
        run = env.start(approval)
        env.signal(run, "approved", "yes")
        return run

    assert len(crash_everywhere(scenario)) == 2
    assert duplicate_activities(scenario) == []
