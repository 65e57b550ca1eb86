"""The rows of CONSENSUS, one script each; what they promise is in their names."""

import logging
from collections.abc import Iterator

import pytest
import structlog

from tests.sim.scenarios import SCENARIOS, Scenario
from tests.sim.world import real_time_afterwards

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _simulated() -> Iterator[None]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    with real_time_afterwards():
        yield
    structlog.reset_defaults()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_scenario(scenario: Scenario) -> None:
    scenario()
