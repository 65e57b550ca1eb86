"""Histories of growing runs, read from every node all the time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.jepsen import api
from tests.jepsen.checker.chains import check_chains
from tests.jepsen.checker.events import final_events, shape_problems
from tests.jepsen.checker.verdict import Verdict, substance, verdict
from tests.jepsen.context import Run
from tests.jepsen.history import Op
from tests.jepsen.workloads.base import kept_history, loop, read_everywhere
from tests.jepsen.workloads.runs import Runs
from tests.jepsen.workloads.signals import Signals

TYPE = "JepsenHistories"
PER_SECOND = 2.0


@dataclass
class Histories(Signals):
    """Runs as those of the signals; here their histories are read."""

    name: str = "histories"
    types: tuple[str, ...] = (TYPE,)
    appenders: int = 1
    readers: int = 2
    uses: int = 60

    def reader(self, run: Run, runs: Runs, number: int) -> Callable[[], None]:
        client = self.client(run, f"reader{number}")

        def turn() -> None:
            key = runs.pick(run, client)
            if key is not None:
                key = client.rng.choice([key, *runs.all_keys[-3:]])
                client.call("history", api.history(key), key=key, keep=kept_history)
            self.pace(run, client, PER_SECOND)

        return loop(run, turn)

    def final(self, run: Run) -> None:
        read_everywhere(run, self.client(run, "final"), self.keys)

    def check(self, history: Sequence[Op]) -> Verdict:
        made = self.mine(history)
        shapes = [
            problem
            for key, events in final_events(made).items()
            for problem in shape_problems(key, events)
        ]
        return self.with_manners(
            history,
            check_chains(made),
            verdict(shapes),
            substance(made, {"history": 20, "append": 10, "events": 1}),
        )
