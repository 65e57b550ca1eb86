"""Run the simulator.

    python -m tests.sim.run 0:2000            these seeds; one line of counts at the end
    python -m tests.sim.run 17                one seed, told as it happens (-v: every message)
    python -m tests.sim.run --engine 0:200    worlds that run workflows, with the real engine
    python -m tests.sim.run --mutants         each bug of mutants.py must be caught (--engine: of
                                              flow/mutants.py)
    python -m tests.sim.run --stock 0:1000    stock PySyncObj must fail

Exit status 1 when a promise was broken, a run was vacuous, a mutant survived, or stock passed.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

import structlog

from tests.sim.checkers import Violation
from tests.sim.flow.mutants import FLOW_MUTANTS
from tests.sim.flow.world import FlowWorld
from tests.sim.mutants import MUTANTS
from tests.sim.node import FailStop
from tests.sim.scenarios import SCENARIOS
from tests.sim.stock import run_stock
from tests.sim.world import World

MUTANT_SEEDS = 40
FLOW_MUTANT_SEEDS = 16
WORKERS = 2


@dataclass(frozen=True, slots=True)
class Result:
    seed: int
    failure: str | None
    acked: int = 0
    reads: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    stats: Counter[str] = field(default_factory=Counter)


def run_seed(seed: int, tell: Callable[[str], None] | None = None) -> Result:
    world = World(seed, tell=tell)
    failure = None
    try:
        world.run()
    except (Violation, FailStop) as error:
        failure = f"{type(error).__name__}: {error}"
    acked, faults = world.checks.acked, world.nemesis.effective
    if failure is None and world.vacuous:
        failure = f"vacuous: {acked} commits, {faults.total()} effective faults"
    return Result(seed, failure, acked, world.checks.reads, faults, world.stats)


def run_flow_seed(seed: int, tell: Callable[[str], None] | None = None) -> Result:
    world = FlowWorld(seed, tell=tell)
    failure = None
    try:
        world.run()
    except (Violation, FailStop) as error:
        failure = f"{type(error).__name__}: {error}"
    faults = world.nemesis.effective
    if failure is None and world.vacuous:
        failure = f"vacuous: {world.ended} runs ended, {faults.total()} effective faults"
    stats = world.flow_checks.stats + world.stats
    return Result(seed, failure, world.checks.acked, world.ended, faults, stats)


def run_stock_seed(seed: int) -> Result:
    try:
        world = run_stock(seed)
    except Violation as error:
        return Result(seed, f"Violation: {error}")
    return Result(seed, None, world.checks.acked)


def killers(name: str, *, seeds: int = MUTANT_SEEDS) -> Iterator[str]:
    """Who catches this mutant: the scenarios that do, and the first seed that does."""
    mutant = next(mutant for mutant in MUTANTS if mutant.name == name)
    for scenario in SCENARIOS:
        try:
            with mutant.applied():
                scenario()
        except Exception as error:  # noqa: BLE001  # a bug may show in any way
            yield f"{scenario.__name__}: {error}"
    for seed in range(seeds):
        try:
            with mutant.applied():
                failure = run_seed(seed).failure
        except Exception as error:  # noqa: BLE001
            failure = repr(error)
        if failure and not failure.startswith("vacuous"):
            yield f"seed {seed}: {failure}"
            return


def all_killers(name: str) -> list[str]:
    return list(killers(name))


def flow_killer(name: str, *, seeds: int = FLOW_MUTANT_SEEDS) -> list[str]:
    """The first seed that catches this bug of the engine or of a leader's duties."""
    mutant = next(mutant for mutant in FLOW_MUTANTS if mutant.name == name)
    for seed in range(seeds):
        try:
            with mutant.applied():
                failure = run_flow_seed(seed).failure
        except Exception as error:  # noqa: BLE001
            failure = repr(error)
        if failure and not failure.startswith("vacuous"):
            return [f"seed {seed}: {failure}"]
    return []


def pooled(work: Callable[[int], Result], seeds: Iterable[int]) -> list[Result]:
    with ProcessPoolExecutor(WORKERS, initializer=quiet) as pool:
        return list(pool.map(work, seeds, chunksize=4))


def quiet() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    logging.disable(logging.CRITICAL)


def run_flow_seeds(first: int, stop: int) -> int:
    began = time.monotonic()
    results = pooled(run_flow_seed, range(first, stop))
    failed = report_failures(results, "--engine ")
    faults = sum((result.faults for result in results), Counter())
    stats = sum((result.stats for result in results), Counter())
    told = {
        "activities": "StepCompleted",
        "timers": "TimerFired",
        "signals taken": "SignalConsumed",
        "children": "ChildStarted",
        "steps cancelled": "StepCancelled",
        "facts that waited": "held",
        "leases missed": "expired",
        "runs deleted": "deleted",
        "stale decisions of leaders": "haunted",
        "snapshots installed": "snapshots installed",
    }
    print(
        f"{len(results)} engine seeds, {len(failed)} failed, "
        f"{sum(result.reads for result in results)} runs ended, "
        f"{sum(result.acked for result in results)} commits, {faults.total()} faults, "
        + ", ".join(f"{stats[name]} {what}" for what, name in told.items())
        + f", {time.monotonic() - began:.0f} s"
    )
    return 1 if failed else 0


def report_failures(results: list[Result], flags: str = "") -> list[Result]:
    failed = [result for result in results if result.failure]
    for result in failed:
        print(f"seed {result.seed}: {result.failure}\n    ", end="")
        print(f"make sim SEED={result.seed}" + (f' SIMFLAGS="{flags.strip()}"' if flags else ""))
    return failed


def run_seeds(first: int, stop: int) -> int:
    began = time.monotonic()
    results = pooled(run_seed, range(first, stop))
    failed = report_failures(results)
    faults = sum((result.faults for result in results), Counter())
    stats = sum((result.stats for result in results), Counter())
    print(
        f"{len(results)} seeds, {len(failed)} failed, "
        f"{sum(result.acked for result in results)} commits, "
        f"{sum(result.reads for result in results)} reads, {faults.total()} faults "
        f"({', '.join(f'{name} {count}' for name, count in sorted(faults.items()))}), "
        f"{stats['snapshots installed']} snapshots installed, {time.monotonic() - began:.0f} s"
    )
    return 1 if failed else 0


def run_one(seed: int, *, verbose: bool, engine: bool) -> int:
    def tell(line: str) -> None:
        if verbose or " > " not in line:
            print(line)

    result = run_flow_seed(seed, tell) if engine else run_seed(seed, tell)
    outcome = result.failure or "ok"
    print(f"seed {seed}: {outcome}; {result.acked} commits, {result.faults.total()} faults")
    return 1 if result.failure else 0


def run_mutants(*, engine: bool) -> int:
    mutants = FLOW_MUTANTS if engine else MUTANTS
    with ProcessPoolExecutor(WORKERS, initializer=quiet) as pool:
        who = flow_killer if engine else all_killers
        caught = list(pool.map(who, [mutant.name for mutant in mutants]))
    for mutant, by in zip(mutants, caught, strict=True):
        first = f"{len(by)} times, first by {by[0]:.110}" if by else "SURVIVES"
        print(f"row {mutant.row:2} {mutant.name}: {first}")
    survivors = sum(not by for by in caught)
    print(f"{len(mutants)} mutants, {survivors} survived")
    return 1 if survivors else 0


def run_stock_seeds(first: int, stop: int) -> int:
    results = pooled(run_stock_seed, range(first, stop))
    failed = [result for result in results if result.failure]
    for result in failed[:10]:
        print(f"seed {result.seed}: {result.failure}")
    print(f"stock PySyncObj: {len(results)} seeds, {len(failed)} break a promise")
    return 0 if failed else 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.run")
    parser.add_argument("seeds", nargs="?", default="0:100", help="FROM:TO, or one seed")
    parser.add_argument("--mutants", action="store_true")
    parser.add_argument("--stock", action="store_true")
    parser.add_argument("--engine", action="store_true")
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    quiet()
    if options.mutants:
        return run_mutants(engine=options.engine)
    first, colon, stop = options.seeds.partition(":")
    if options.stock:
        return run_stock_seeds(int(first), int(stop))
    if colon:
        return (run_flow_seeds if options.engine else run_seeds)(int(first), int(stop))
    return run_one(int(first), verbose=options.verbose, engine=options.engine)


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        # Stock iterates over sets of nodes: one seed is one run only with one hash seed.
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.sim.run", *sys.argv[1:]])
    sys.exit(main())
