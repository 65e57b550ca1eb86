"""`python -m tests.sim.run SEED|FROM:TO`: run seeds; with one seed, tell what happens."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

import structlog

from tests.sim.world import MIN_ACKED, MIN_FAULTS, World


@dataclass(frozen=True, slots=True)
class Result:
    seed: int
    failure: str | None
    acked: int
    reads: int
    faults: Counter[str] = field(default_factory=Counter)
    stats: Counter[str] = field(default_factory=Counter)


def run_seed(seed: int, tell=None) -> Result:
    world = World(seed, tell=tell)
    failure = None
    faults: Counter[str] = Counter()
    try:
        faults = world.run().effective
        if world.checks.acked < MIN_ACKED or faults.total() < MIN_FAULTS:
            failure = f"vacuous: {world.checks.acked} commits, {faults.total()} faults"
    except Exception as error:  # noqa: BLE001
        failure = f"{type(error).__name__}: {error}"
        if tell:
            traceback.print_exc()
    return Result(seed, failure, world.checks.acked, world.checks.reads, faults, world.stats)


def main() -> int:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    a = sys.argv[1]
    if ":" in a:
        lo, hi = map(int, a.split(":"))
        with ProcessPoolExecutor(2) as pool:
            results = list(pool.map(run_seed, range(lo, hi), chunksize=4))
        for r in results:
            if r.failure:
                print(r.seed, r.failure, r.acked)
        print(
            len(results),
            sum(r.failure is not None for r in results),
            sum(r.acked for r in results) / len(results),
            sum(r.faults.total() for r in results) / len(results),
            sum((r.stats for r in results), Counter()),
        )
    else:
        t = time.process_time()
        r = run_seed(int(a), tell=print)
        print(r, time.process_time() - t)
    return 0


if __name__ == "__main__":
    sys.exit(main())
