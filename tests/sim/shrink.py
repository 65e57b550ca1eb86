"""From a seed that fails to a short schedule that fails in the same way.

Delta debugging (Zeller): leave out half of the strikes of the nemesis, of the slots with clients;
what still breaks the same promise is kept, and cut further. A strike and a client have a chance of
their own, so that what is left does what it did. Then the options are tried in their plain form.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.sim.cases import Case, Result
from tests.sim.options import Schedule

BUDGET_S = 240.0
PLAIN: tuple[tuple[str, Any], ...] = (
    ("clocks", "exact"),
    ("payloads", "small"),
    ("bandwidth", 0),
    ("nodes", 3),
)
STEP_S = 0.25


class Shrinker:
    def __init__(self, case: Case, tell: Callable[[str], None], *, budget_s: float) -> None:
        self.case = case
        self._tell = tell
        self._give_up_at = time.monotonic() + budget_s
        self.tried = 0
        self.result = self._result(case)
        self._promise = self.result.promise

    def run(self) -> Case:
        result = self.result
        if result.failure is None or result.vacuous:
            return self.case
        told = Schedule(
            strikes=frozenset(range(result.strikes)),
            slots=frozenset(range(result.slots)),
            until_s=math.ceil(result.strife_s * 100) / 100,
        )
        self._take(replace(self.case, schedule=told))
        before = None
        while before != self.case and not self._late:
            before = self.case
            self._fewer("strikes")
            self._fewer("slots")
            self._sooner()
            self._plainer()
        return self.case

    @property
    def _late(self) -> bool:
        return time.monotonic() > self._give_up_at

    def _result(self, case: Case) -> Result:
        self.tried += 1
        try:
            return case.run()
        except Exception as error:  # noqa: BLE001  # a bug may show in any way
            return Result(case.seed, f"{type(error).__name__}: {error}")

    def _take(self, case: Case) -> bool:
        """Go on from this one, if it fails as the first did."""
        if self._late:
            return False
        result = self._result(case)
        if result.promise != self._promise:
            return False
        self.case, self.result = case, result
        return True

    def _fewer(self, what: str) -> None:
        """ddmin: leave out pieces, ever smaller ones."""
        kept: list[int] = sorted(getattr(self.case.schedule, what) or ())
        pieces = 2
        while kept and not self._late:
            size = -(-len(kept) // pieces)
            for start in range(0, len(kept), size):
                fewer = kept[:start] + kept[start + size :]
                if self._take(self._with(**{what: frozenset(fewer)})):
                    kept, pieces = fewer, max(2, pieces - 1)
                    self._tell(f"{self.tried} runs: {self.case.schedule.flags()}")
                    break
            else:
                if size == 1:
                    return
                pieces = min(len(kept), pieces * 2)

    def _sooner(self) -> None:
        """End the strife sooner."""
        until_s = self.case.schedule.until_s
        cut_s = (until_s or 0.0) / 2
        while until_s is not None and cut_s >= STEP_S and not self._late:
            if self._take(self._with(until_s=round(until_s - cut_s, 2))):
                until_s = round(until_s - cut_s, 2)
            else:
                cut_s /= 2

    def _plainer(self) -> None:
        for name, value in PLAIN:
            if getattr(self.case.options, name) not in (value, 1):
                self._take(replace(self.case, said={**self.case.said, name: value}))

    def _with(self, **parts: Any) -> Case:
        return replace(self.case, schedule=replace(self.case.schedule, **parts))


def shrink(
    case: Case, tell: Callable[[str], None] = lambda _line: None, *, budget_s: float = BUDGET_S
) -> tuple[Case, Result, int]:
    """The smallest case that was found, what it comes to, and how many were tried."""
    shrinker = Shrinker(case, tell, budget_s=budget_s)
    smallest = shrinker.run()
    return smallest, shrinker.result, shrinker.tried
