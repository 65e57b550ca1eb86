"""A slice of `make sim`: random schedules of faults, and bugs that must be found."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest
import structlog

from tests.sim.cases import Case, run_seed
from tests.sim.catching import killers
from tests.sim.mutants import MUTANTS
from tests.sim.options import Options, numbers, ranges
from tests.sim.shrink import shrink
from tests.sim.world import real_time_afterwards

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _simulated() -> Iterator[None]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    with real_time_afterwards():
        yield
    structlog.reset_defaults()


ROWS = set(range(1, 23))
# A few that need different checkers; `python -m tests.sim.run --mutants` tries all.
TRIED_HERE = (
    "leader_counts_itself_before_fsync",
    "acks_of_older_terms_count",
    "always_truncates_after_prev",
    "stale_leaders_hear_nothing",
    "reads_count_earlier_answers",
)


@pytest.mark.parametrize("seed", range(10))
def test_seed(seed: int) -> None:
    assert run_seed(seed).failure is None


def test_a_seed_is_one_run() -> None:
    assert run_seed(7) == run_seed(7)


@pytest.mark.parametrize("name", TRIED_HERE)
def test_mutant_is_caught(name: str) -> None:
    assert next(killers(name, seeds=24), None)


def test_every_row_has_a_mutant() -> None:
    assert {mutant.row for mutant in MUTANTS} == ROWS


def test_stock_still_fails() -> None:
    """In a process of its own: stock iterates over sets, so its schedule needs one hash seed."""
    command = [sys.executable, "-m", "tests.sim.run", "--stock", "91:92"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_failing_seed_is_shrunk() -> None:
    cases = (Case(seed=seed, mutant="leader_counts_itself_before_fsync") for seed in range(30))
    case, whole = next((case, result) for case in cases if (result := case.run()).failure)
    smallest, result, _tried = shrink(case, budget_s=60.0)
    assert result.promise == whole.promise == smallest.run().promise
    assert len(smallest.schedule.strikes or ()) < whole.strikes / 2


def test_an_option_leaves_the_others_as_they_were() -> None:
    drawn = Options.drawn(5, {})
    assert Options.drawn(5, {"pace": 0.3}) == replace(drawn, pace=0.3)


def test_flags_say_what_they_are_read_from() -> None:
    assert ranges(numbers("0-3,7,9-10")) == "0-3,7,9-10"
    assert numbers(ranges(())) == frozenset()
