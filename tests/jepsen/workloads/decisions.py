"""Decisions that race with signals and with one another: made on what they saw, or not at all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tests.jepsen import api
from tests.jepsen.checker.chains import check_chains
from tests.jepsen.checker.decisions import check_decisions
from tests.jepsen.checker.verdict import Verdict, substance
from tests.jepsen.context import Run
from tests.jepsen.history import Op
from tests.jepsen.workloads.base import Base, loop, read_everywhere
from tests.jepsen.workloads.runs import COMPLETE, Decider, Runs, marker, open_steps, timer

TYPE = "JepsenDecisions"
PLACES, USES = 2, 40
PER_SECOND = 2.0


@dataclass
class Decisions(Base):
    name: str = "decisions"
    types: tuple[str, ...] = (TYPE,)
    _markers: Any = field(default_factory=lambda: count(1))
    _runs: Runs | None = None

    def threads(self, run: Run) -> list[Callable[[], None]]:
        self._runs = runs = Runs(self.name, TYPE, self.queue, places=PLACES, uses=USES)
        client = self.client(run, "signaller")

        def signal() -> None:
            key = runs.pick(run, client)
            if key is not None:
                value = f"s{next(self._markers)}"
                request = api.signal(key, "note", value, request_id=f"{key}/{value}")
                client.call("signal", request, key=key, value=value)
            self.pace(run, client, PER_SECOND)

        deciders = [self._worker(run, runs, number) for number in range(2)]
        return [loop(run, signal), *deciders]

    def _worker(self, run: Run, runs: Runs, number: int) -> Callable[[], None]:
        client = self.client(run, f"worker{number}")
        decider = Decider(run, client, TYPE, self.queue)
        rival = Decider(run, self.client(run, f"rival{number}"), TYPE, self.queue)

        def turn() -> None:
            polled = decider.poll()
            if polled is None:
                return
            task = polled.task
            run.rest(client.rng.choice((0.0, 0.0, 0.1, 0.4)))
            goes_on = runs.in_use(task["workflow_id"])
            if client.rng.random() < 0.3:
                other = threading.Thread(
                    target=self._answer, args=(rival, task), kwargs={"goes_on": goes_on}
                )
                other.start()
                self._answer(decider, task, goes_on=goes_on)
                other.join()
            else:
                self._answer(decider, task, goes_on=goes_on)

        return loop(run, turn)

    def _answer(self, by: Decider, task: dict[str, Any], *, goes_on: bool) -> None:
        sequence = len(task["steps"]) + 1
        name = f"m{next(self._markers)}"
        commands = [marker(sequence, name)]
        if not goes_on:
            commands.append(COMPLETE)
        elif not open_steps(task, "TIMER"):
            commands.append(timer(sequence + 1, by.client.rng.randrange(50, 600)))
        by.decide(task, commands, marker=name)

    def final(self, run: Run) -> None:
        read_everywhere(run, self.client(run, "final"), self._runs.all_keys if self._runs else ())

    def check(self, history: Sequence[Op]) -> Verdict:
        made = self.mine(history)
        return self.with_manners(
            history,
            check_decisions(made),
            check_chains(made),
            substance(made, {"decide": 10, "signal": 10, "events": 1}),
        )
