"""A slice of `make sim` with the real engine: faults, workers and clients that misbehave, and bugs
that must be found."""

import logging
from collections.abc import Iterator

import pytest
import structlog

from tests.sim.cases import run_flow_seed
from tests.sim.catching import killers
from tests.sim.world import real_time_afterwards

pytestmark = pytest.mark.slow

# A few that need different checkers; `python -m tests.sim.run --engine --mutants` tries all.
TRIED_HERE = (
    "a_result_is_recorded_twice",
    "held_facts_are_dropped",
    "a_grant_is_not_fenced",
    "timers_are_lost_on_takeover",
)


@pytest.fixture(autouse=True)
def _simulated() -> Iterator[None]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    with real_time_afterwards():
        yield
    structlog.reset_defaults()


@pytest.mark.parametrize("seed", range(4))
def test_seed(seed: int) -> None:
    assert run_flow_seed(seed).failure is None


def test_a_seed_is_one_run() -> None:
    assert run_flow_seed(3) == run_flow_seed(3)


@pytest.mark.parametrize("name", TRIED_HERE)
def test_mutant_is_caught(name: str) -> None:
    assert next(killers(name, flow_seeds=6), None)
