"""Run the simulator.

    python -m tests.sim.run                   what CI runs: regressions, fixed seeds, fresh seeds
    python -m tests.sim.run 0:2000            these seeds; one line of counts at the end
    python -m tests.sim.run --fresh 500       so many that nobody has tried
    python -m tests.sim.run 17                one seed, told as it happens (-v: every message)
    python -m tests.sim.run 17 --shrink       a short schedule that fails as this seed does
    python -m tests.sim.run --engine 0:200    whole nodes that run workflows
    python -m tests.sim.run --mutants         each bug put in on purpose, and who catches it
    python -m tests.sim.run --stock 0:1000    stock PySyncObj must fail

Exit status 1 when a promise was broken, a run was vacuous, a mutant survived, or stock passed.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any

from tests.sim.cases import Case, Result, quiet
from tests.sim.catching import table
from tests.sim.checkers import Violation
from tests.sim.options import (
    WHOLE,
    add_flags,
    add_schedule_flags,
    said_in,
    schedule_in,
)
from tests.sim.regressions import REGRESSIONS
from tests.sim.shrink import shrink
from tests.sim.stock import run_stock

WORKERS = 2
CI_SEEDS, CI_FRESH = 200, 50
CI_FLOW_SEEDS, CI_FLOW_FRESH = 45, 15
SHRINK_IN_CI_S = 60.0
FLOW_TOLD = {
    "activities": "StepCompleted",
    "timers": "TimerFired",
    "signals taken": "SignalConsumed",
    "children": "ChildStarted",
    "steps cancelled": "StepCancelled",
    "facts that waited": "held",
    "leases missed": "expired",
    "runs deleted": "deleted",
    "reads checked": "reads checked",
    "tasks on streams": "tasks on streams",
    "stale decisions of leaders": "haunted",
    "snapshots installed": "snapshots installed",
}


def run_case(case: Case) -> Result:
    return case.run()


def pooled(
    work: Callable[[Any], Result], cases: Sequence[Any], *, workers: int = WORKERS
) -> Iterator[Result]:
    """In order, as they come. Whoever interrupts gets what there is."""
    pool = ProcessPoolExecutor(workers, initializer=quiet)
    try:
        yield from pool.map(work, cases, chunksize=2)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    finally:
        pool.shutdown(cancel_futures=True)


def run_cases(cases: Sequence[Case], *, budget_s: float, workers: int = WORKERS) -> int:
    """Run them, shrink the first that fails, count. Returns the exit status."""
    began = time.monotonic()
    results: list[Result] = []
    failed: list[Case] = []
    for result in pooled(run_case, cases, workers=workers):
        case = cases[len(results)]
        results.append(result)
        if result.failure:
            failed.append(case)
            print(f"seed {case.seed}: {result.failure}\n    {result.options}\n    {case.command()}")
            print(result.trace, end="", flush=True)
    if failed and budget_s:
        print_shrunk(failed[0], budget_s=budget_s)
    print(_counts(results, len(failed), engine=cases[0].engine, seconds=time.monotonic() - began))
    return 1 if failed or len(results) < len(cases) else 0


def _counts(results: list[Result], failed: int, *, engine: bool, seconds: float) -> str:
    faults = sum((result.faults for result in results), Counter())
    stats = sum((result.stats for result in results), Counter())
    reads = sum(result.reads for result in results)
    least = (
        min((result.acked for result in results), default=0),
        min((result.faults.total() for result in results), default=0),
    )
    told = [
        f"{len(results)} {'whole-node' if engine else 'consensus'} seeds",
        f"{failed} failed",
        f"{sum(result.acked for result in results)} commits",
        f"{reads} {'runs ended' if engine else 'reads'}",
        f"{faults.total()} faults "
        f"({', '.join(f'{name} {count}' for name, count in sorted(faults.items()))})",
        f"no seed below {least[0]} commits and {least[1]} faults",
    ]
    names = FLOW_TOLD if engine else {"snapshots installed": "snapshots installed"}
    told += [f"{stats[name]} {what}" for what, name in names.items()]
    return ", ".join([*told, f"{seconds:.0f} s"])


def print_shrunk(case: Case, *, budget_s: float) -> None:
    smallest, result, tried = shrink(case, print, budget_s=budget_s)
    schedule = smallest.schedule
    if schedule.whole:
        print(f"    nothing could be left out ({tried} runs tried)")
        return
    print(f"shrunk in {tried} runs: {result.failure}")
    print(
        f"    {len(schedule.strikes or ())} faults, {len(schedule.slots or ())} slots with clients"
    )
    print(f"    {smallest.command()}")


def run_one(case: Case, *, verbose: bool) -> int:
    def tell(line: str) -> None:
        if verbose or " > " not in line:
            print(line)

    print(f"seed {case.seed}: {case.options.flags()}")
    result = case.run(tell)
    outcome = result.failure or "ok"
    print(f"seed {case.seed}: {outcome}; {result.acked} commits, {result.faults.total()} faults")
    return 1 if result.failure else 0


def fresh(count: int) -> range:
    """Seeds that nobody has tried, told so that they can be tried again."""
    first = random.SystemRandom().randrange(1_000_000, 1_000_000_000)
    print(f"fresh seeds {first}:{first + count}", flush=True)
    return range(first, first + count)


def run_ci() -> int:
    """What was wrong once, seeds that are always the same, and some that nobody has seen."""
    status = 0
    for engine, fixed, new in (
        (False, CI_SEEDS, CI_FRESH),
        (True, CI_FLOW_SEEDS, CI_FLOW_FRESH),
    ):
        known = [case for case in REGRESSIONS if case.engine is engine]
        seeds = [*range(fixed), *fresh(new)]
        cases = [*known, *(Case(seed=seed, engine=engine) for seed in seeds)]
        status |= run_cases(cases, budget_s=SHRINK_IN_CI_S)
    return status


def run_stock_seed(seed: int) -> Result:
    try:
        world = run_stock(seed)
    except Violation as error:
        return Result(seed, f"Violation: {error}")
    return Result(seed, None, acked=world.checks.acked)


def run_stock_seeds(seeds: range, *, workers: int = WORKERS) -> int:
    results = list(pooled(run_stock_seed, seeds, workers=workers))
    failed = [result for result in results if result.failure]
    for result in failed[:10]:
        print(f"seed {result.seed}: {result.failure}")
    print(f"stock PySyncObj: {len(results)} seeds, {len(failed)} break a promise")
    return 0 if failed else 1


def seeds_in(text: str) -> range:
    first, colon, stop = text.partition(":")
    return range(int(first), int(stop) if colon else int(first) + 1)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.run", epilog=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("seeds", nargs="?", help="FROM:TO, or one seed; none: what CI runs")
    parser.add_argument("--engine", action="store_true", help="whole nodes that run workflows")
    parser.add_argument("--fresh", type=int, metavar="COUNT")
    parser.add_argument("--shrink", action="store_true")
    parser.add_argument("--mutant", default="", metavar="NAME", help="with this bug in")
    parser.add_argument("--mutants", action="store_true", help="with --engine: those of workflows")
    parser.add_argument("--stock", action="store_true")
    parser.add_argument("--workers", type=int, default=WORKERS, metavar="PROCESSES")
    parser.add_argument("-v", "--verbose", action="store_true")
    add_flags(parser)
    add_schedule_flags(parser)
    return parser.parse_args()


def main() -> int:
    options = arguments()
    quiet()
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, signal.default_int_handler)
    if options.mutants:
        return 1 if table(options.workers, print, engine=options.engine or None) else 0
    if options.seeds is None and options.fresh is None:
        return run_ci()
    seeds = seeds_in(options.seeds) if options.seeds else fresh(options.fresh)
    if options.stock:
        return run_stock_seeds(seeds, workers=options.workers)
    said: Mapping[str, Any] = said_in(options)
    case = Case(
        seed=seeds[0],
        engine=options.engine,
        said=said,
        schedule=schedule_in(options),
        mutant=options.mutant,
    )
    if len(seeds) > 1:
        cases = [replace(case, seed=seed, schedule=WHOLE) for seed in seeds]
        budget_s = SHRINK_IN_CI_S if options.shrink else 0.0
        return run_cases(cases, budget_s=budget_s, workers=options.workers)
    if options.shrink:
        print_shrunk(case, budget_s=4 * SHRINK_IN_CI_S)
        return 1
    return run_one(case, verbose=options.verbose)


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        # Stock iterates over sets of nodes: one seed is one run only with one hash seed.
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.sim.run", *sys.argv[1:]])
    sys.exit(main())
