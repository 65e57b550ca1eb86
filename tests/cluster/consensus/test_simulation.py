"""A slice of `make sim`: random schedules of faults, and bugs that must be found."""

import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest
import structlog

from tests.sim.cases import run_seed
from tests.sim.catching import killers
from tests.sim.mutants import MUTANTS
from tests.sim.world import real_time_afterwards

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _simulated() -> Iterator[None]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    with real_time_afterwards():
        yield
    structlog.reset_defaults()


ROWS_NOW = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}
# A few that need different checkers; `python -m tests.sim.run --mutants` tries all.
TRIED_HERE = (
    "leader_counts_itself_before_fsync",
    "acks_of_older_terms_count",
    "always_truncates_after_prev",
    "stale_leaders_hear_nothing",
    "reads_count_earlier_answers",
)


@pytest.mark.parametrize("seed", range(30))
def test_seed(seed: int) -> None:
    assert run_seed(seed).failure is None


def test_a_seed_is_one_run() -> None:
    assert run_seed(7) == run_seed(7)


@pytest.mark.parametrize("name", TRIED_HERE)
def test_mutant_is_caught(name: str) -> None:
    assert next(killers(name, seeds=24), None)


def test_every_row_has_a_mutant() -> None:
    assert {mutant.row for mutant in MUTANTS} == ROWS_NOW


def test_stock_still_fails() -> None:
    """In a process of its own: stock iterates over sets, so its schedule needs one hash seed."""
    command = [sys.executable, "-m", "tests.sim.run", "--stock", "91:92"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
