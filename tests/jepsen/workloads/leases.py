"""Leases of workers that beat, work quietly, or freeze for longer than they may."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.jepsen.checker.chains import check_chains
from tests.jepsen.checker.leases import check_leases, check_no_mass_expiry
from tests.jepsen.checker.verdict import Verdict, substance
from tests.jepsen.context import Run
from tests.jepsen.history import Op
from tests.jepsen.workloads.activities import Activities, Hand
from tests.jepsen.workloads.base import Taken


@dataclass
class Leases(Activities):
    name: str = "leases"
    types: tuple[str, ...] = ("JepsenLeases",)
    workers: int = 5

    def work(self, run: Run, hand: Hand, polled: Taken) -> None:
        task = polled.task
        chance = hand.client.rng
        lease_s = task["lease_ms"] / 1_000
        mood = chance.choice(("quick", "beats", "beats", "frozen"))
        if mood == "quick":
            run.rest(chance.uniform(0.05, 0.5))
        elif mood == "beats":
            for _ in range(chance.randrange(1, 8)):
                run.rest(lease_s / 4)
                if hand.beat(task).error == "LEASE_LOST":
                    break
        else:
            run.rest(lease_s * chance.uniform(1.1, 1.8))
            hand.beat(task)
        hand.finish(task, output=hand.output())

    def check(self, history: Sequence[Op]) -> Verdict:
        made = self.mine(history)
        return self.with_manners(
            history,
            check_leases(made),
            check_no_mass_expiry(made),
            check_chains(made),
            substance(made, {"take": 10, "beat": 10, "complete": 8, "history": 3}),
        )
