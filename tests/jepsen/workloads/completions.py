"""Activities completed twice, late, with two outcomes, and by two workers at once."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from tests.jepsen.checker.chains import check_chains
from tests.jepsen.checker.completions import check_completions
from tests.jepsen.checker.verdict import Verdict, substance
from tests.jepsen.context import Run
from tests.jepsen.history import Op
from tests.jepsen.workloads.activities import Activities, Hand
from tests.jepsen.workloads.base import Taken


@dataclass
class Completions(Activities):
    name: str = "completions"
    types: tuple[str, ...] = ("JepsenCompletions",)

    def work(self, run: Run, hand: Hand, polled: Taken) -> None:
        task = polled.task
        chance = hand.client.rng
        output = hand.output()
        match chance.choice(("once", "twice", "twice", "rivals", "rivals", "changes", "late")):
            case "once":
                hand.finish(task, output=output)
            case "twice":
                hand.finish(task, output=output)
                hand.complete(task, output=output, by=hand.rival)
            case "rivals":
                other = threading.Thread(
                    target=hand.complete,
                    args=(task,),
                    kwargs={"output": hand.output(), "by": hand.rival},
                )
                other.start()
                hand.complete(task, output=output)
                other.join()
            case "changes":
                hand.complete(task, error=f"error {output}")
                hand.complete(task, output=output)
            case "late":
                run.rest(task["lease_ms"] / 1_000 * chance.uniform(0.9, 1.4))
                hand.complete(task, output=output)
        # A little work between, so that clients are not the load.
        run.rest(chance.uniform(0.1, 0.5))

    def check(self, history: Sequence[Op]) -> Verdict:
        made = self.mine(history)
        return self.with_manners(
            history,
            check_completions(made),
            check_chains(made),
            substance(made, {"take": 10, "complete": 10, "events": 1}),
        )
