"""A slice of `make sim` with the real engine: faults, workers and clients that misbehave, and bugs
that must be found."""

import logging
from collections.abc import Iterator

import pytest
import structlog

from tests.sim.cases import Case, run_flow_seed
from tests.sim.catching import killers
from tests.sim.flow.mutants import CHECKERS
from tests.sim.world import real_time_afterwards

pytestmark = pytest.mark.slow

# The bugs that no checker is held to by name; `python -m tests.sim.run --mutants` tries all.
TRIED_HERE = ("held_facts_are_dropped", "timers_are_lost_on_takeover")


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


@pytest.mark.parametrize("checker", CHECKERS)
def test_checker_finds_its_bug(checker: str) -> None:
    mutant, words = CHECKERS[checker]
    failures = (Case(seed=seed, engine=True, mutant=mutant).run().failure for seed in range(12))
    assert any(words in (failure or "") for failure in failures)
