"""One run: a seed, what was said beside it, and what became of it."""

from __future__ import annotations

import gc
import logging
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import structlog

from tests.sim.checkers import Violation
from tests.sim.clock import BEGAN
from tests.sim.flow.mutants import FLOW_MUTANTS
from tests.sim.flow.world import FlowWorld
from tests.sim.mutants import MUTANTS, Mutant
from tests.sim.node import FailStop
from tests.sim.options import SLOT_S, WHOLE, Options, Schedule
from tests.sim.world import World

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Result:
    """``failure`` names the promise that was broken; the strife had ``strife_s`` until then."""

    seed: int
    failure: str | None
    strife_s: float = 0.0
    strikes: int = 0
    acked: int = 0
    reads: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    stats: Counter[str] = field(default_factory=Counter)
    options: str = ""
    trace: str = ""  # of what was no broken promise, but a bug

    @property
    def slots(self) -> int:
        return int(self.strife_s / SLOT_S) + 1

    @property
    def vacuous(self) -> bool:
        return self.failure is not None and self.failure.startswith("vacuous")

    @property
    def promise(self) -> str | None:
        """The failure without its facts."""
        return self.failure and ": ".join(self.failure.split(": ")[:2])


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    seed: int
    engine: bool = False
    said: Mapping[str, Any] = field(default_factory=dict)  # options that are not the seed's own
    schedule: Schedule = WHOLE
    mutant: str = ""

    @property
    def options(self) -> Options:
        return Options.drawn(self.seed, self.said, engine=self.engine)

    def flags(self) -> str:
        """What tells the case to the command line, beside its seed."""
        parts = [
            "--engine" if self.engine else "",
            f"--mutant {self.mutant}" if self.mutant else "",
        ]
        parts += [f"--{name} {_text(value)}" for name, value in self.said.items()]
        return " ".join(filter(None, [*parts, self.schedule.flags()]))

    def command(self) -> str:
        flags = self.flags()
        return f"make sim SEED={self.seed}" + (f' SIMFLAGS="{flags}"' if flags else "")

    def run(self, tell: Tell | None = None) -> Result:
        with mutant_named(self.mutant).applied() if self.mutant else nullcontext():
            return self._run(tell)

    def _run(self, tell: Tell | None) -> Result:
        kind = FlowWorld if self.engine else World
        world = kind(self.seed, options=self.options, schedule=self.schedule, tell=tell)
        failure, trace = None, ""
        try:
            with without_garbage_collection():
                world.run()
        except Exception as error:  # noqa: BLE001  # whatever a node meets fails the seed
            failure = f"{type(error).__name__}: {error}"
            if not isinstance(error, Violation | FailStop):
                trace = "".join(traceback.format_exception(error)[-3:])
        acked, faults = world.checks.acked, world.nemesis.effective
        if failure is None and self.schedule.whole and world.vacuous:
            failure = f"vacuous: {acked} commits, {faults.total()} effective faults"
        return Result(
            self.seed,
            failure,
            strife_s=(world.peace_from or world.clock.now) - BEGAN,
            strikes=world.nemesis.strikes,
            acked=acked,
            reads=world.ended if isinstance(world, FlowWorld) else world.checks.reads,
            faults=faults,
            stats=world.flow_checks.stats + world.stats
            if isinstance(world, FlowWorld)
            else world.stats,
            options=self.options.flags(),
            trace=trace,
        )


def run_seed(seed: int) -> Result:
    return Case(seed=seed).run()


def run_flow_seed(seed: int) -> Result:
    return Case(seed=seed, engine=True).run()


def mutant_named(name: str) -> Mutant:
    for mutant in (*MUTANTS, *FLOW_MUTANTS):
        if mutant.name == name:
            return mutant
    raise SystemExit(f"no mutant is called {name}; --mutants lists them")


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """A world dies as a whole: to look for garbage in it while it lives costs and finds nothing."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def quiet() -> None:
    """Nodes log what simulated faults do to them."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    logging.disable(logging.CRITICAL)


def _text(value: Any) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value)
