"""Activities that fail most of the time: the policy says how often and after which pause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.jepsen.checker.attempts import check_attempts
from tests.jepsen.checker.completions import check_completions
from tests.jepsen.checker.verdict import Verdict, substance
from tests.jepsen.context import Run
from tests.jepsen.history import Op
from tests.jepsen.workloads.activities import Activities, Hand
from tests.jepsen.workloads.base import Taken

MAX_ATTEMPTS = 4
BACKOFF_MS = 250


@dataclass
class Attempts(Activities):
    name: str = "attempts"
    types: tuple[str, ...] = ("JepsenAttempts",)
    policy: dict[str, Any] = field(
        default_factory=lambda: {
            "max_attempts": MAX_ATTEMPTS,
            "initial_backoff_ms": BACKOFF_MS,
            "max_backoff_ms": 0,
        }
    )

    def work(self, run: Run, hand: Hand, polled: Taken) -> None:
        run.rest(hand.client.rng.uniform(0.1, 0.6))
        output = hand.output()
        if hand.client.rng.random() < 0.75:
            hand.finish(polled.task, error=f"error {output}")
        else:
            hand.finish(polled.task, output=output)

    def check(self, history: Sequence[Op]) -> Verdict:
        made = self.mine(history)
        return self.with_manners(
            history,
            check_attempts(made, max_attempts=MAX_ATTEMPTS, first_backoff_ms=BACKOFF_MS),
            check_completions(made),
            substance(made, {"take": 10, "complete": 10, "events": 1}),
        )
