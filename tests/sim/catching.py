"""Who catches the bugs that are put in on purpose."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor

from tests.sim.cases import Case, mutant_named, quiet
from tests.sim.flow.mutants import FLOW_MUTANTS
from tests.sim.mutants import MUTANTS, Mutant
from tests.sim.scenarios import SCENARIOS
from tests.sim.staging import Scenario

SEEDS = 40
FLOW_SEEDS = 24


def killers(name: str, *, seeds: int = SEEDS, flow_seeds: int = FLOW_SEEDS) -> Iterator[str]:
    """Each layer that catches this mutant: scenarios, seeds, and the tests that it names."""
    mutant = mutant_named(name)
    flow = mutant in FLOW_MUTANTS
    if not flow:
        yield from _by_scenarios(mutant)
    if mutant.test:
        yield from _by_test(mutant)
    yield from _by_seeds(mutant, flow_seeds if flow else seeds, engine=flow)


def killer(name: str) -> str | None:
    """The first that does; the cheapest ask first."""
    return next(killers(name), None)


def _by_scenarios(mutant: Mutant) -> Iterator[str]:
    """Those about its row first."""
    for scenario in sorted(SCENARIOS, key=lambda each: mutant.row not in _rows(each)):
        try:
            with mutant.applied():
                scenario()
        except Exception as error:  # noqa: BLE001  # a bug may show in any way
            yield f"{scenario.__name__}: {error}"


def _rows(scenario: Scenario) -> set[int]:
    """As its docstring begins: "Rows 2, 6: ..."."""
    told = (scenario.__doc__ or "").partition(":")[0]
    return {int(number) for number in re.findall(r"\d+", told)}


def _by_seeds(mutant: Mutant, seeds: int, *, engine: bool) -> Iterator[str]:
    """The first seed that does."""
    for seed in range(seeds):
        try:
            result = Case(seed=seed, engine=engine, mutant=mutant.name).run()
            failure = None if result.vacuous else result.failure
        except Exception as error:  # noqa: BLE001
            failure = repr(error)
        if failure:
            yield f"seed {seed}: {failure}"
            return


def _by_test(mutant: Mutant) -> Iterator[str]:
    """A test of another layer, in a process that has the bug (tests/support/with_mutant.py)."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "with_mutant", mutant.test]
    environment = {**os.environ, "RAFTFLOW_MUTANT": mutant.name}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if ran.returncode == 1:
        yield mutant.test


def table(workers: int, tell: Callable[[str], None], *, engine: bool | None) -> int:
    """One line a mutant: its row, what it breaks, who caught it. Returns how many survived."""
    chosen = [*([] if engine else MUTANTS), *([] if engine is False else FLOW_MUTANTS)]
    tell(f"{'row':9} {'mutant':52} caught by")
    survivors = 0
    with ProcessPoolExecutor(workers, initializer=quiet) as pool:
        caught = pool.map(killer, [mutant.name for mutant in chosen])
        for mutant, by in zip(chosen, caught, strict=True):
            survivors += not by
            told = f"{by:.150}" if by else "NOBODY: it survives"
            row = mutant.row if mutant in MUTANTS else f"{mutant.layer}"
            tell(f"{row!s:9} {mutant.name:52} {told}")
    tell(f"{len(chosen)} mutants, {survivors} survived")
    return survivors
