"""Timers of 50 ms to 4 s, some cancelled, while leaders die and clocks go wrong."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.jepsen import api
from tests.jepsen.checker.timers import check_timers
from tests.jepsen.checker.verdict import Verdict, substance
from tests.jepsen.client import Client
from tests.jepsen.context import Run
from tests.jepsen.history import Op
from tests.jepsen.workloads.base import (
    Base,
    healed_ns,
    loop,
    read_everywhere,
)
from tests.jepsen.workloads.runs import COMPLETE, Decider, Runs, open_steps, timer

TYPE = "JepsenTimers"
DELAYS_MS = (50, 200, 1_000, 1_500, 4_000)
AT_ONCE = 3
BOUND_MS = 10_000  # from being due, or from the last heal, to having fired
PLACES, USES = 3, 25


@dataclass
class Timers(Base):
    name: str = "timers"
    types: tuple[str, ...] = (TYPE,)
    _runs: Runs | None = None

    def threads(self, run: Run) -> list[Callable[[], None]]:
        self._runs = runs = Runs(self.name, TYPE, self.queue, places=PLACES, uses=USES)
        starter = self.client(run, "starter")

        def start() -> None:
            runs.pick(run, starter)
            self.pace(run, starter, 1.0)

        return [loop(run, start), *(self._worker(run, runs, n) for n in range(2))]

    def _worker(self, run: Run, runs: Runs, number: int) -> Callable[[], None]:
        client = self.client(run, f"worker{number}")
        decider = Decider(run, client, TYPE, self.queue)

        def turn() -> None:
            polled = decider.poll()
            if polled is None:
                return
            task = polled.task
            waiting = open_steps(task, "TIMER")
            if not runs.in_use(task["workflow_id"]):
                decider.decide(task, [] if waiting else [COMPLETE])
                return
            commands, timers = self._next(client, task, waiting)
            decider.decide(task, commands, timers=timers)

        return loop(run, turn)

    def _next(
        self, client: Client, task: dict[str, Any], waiting: list[int]
    ) -> tuple[list[dict[str, Any]], list[list[int]]]:
        first = len(task["steps"]) + 1
        timers = [[first + n, client.rng.choice(DELAYS_MS)] for n in range(AT_ONCE - len(waiting))]
        commands = [timer(sequence, delay_ms) for sequence, delay_ms in timers]
        if waiting and client.rng.random() < 0.1:
            victim = client.rng.choice(waiting)
            commands.append({"type": "cancel_step", "step_name": "pause", "sequence": victim})
        return commands, timers

    def final(self, run: Run) -> None:
        client = self.client(run, "final")
        keys = self._runs.all_keys if self._runs else []
        until = time.monotonic() + (max(DELAYS_MS) + BOUND_MS) / 1_000 + 1
        while time.monotonic() < until and any(self._armed(client, key) for key in keys):
            client.pause()
        read_everywhere(run, client, keys)

    def _armed(self, client: Client, key: str) -> bool:
        node = client.rng.choice(client.cluster.ids())
        seen = client.perform(api.describe(key), node=node, api=api.JSON)
        if not seen.ok:
            return True
        if seen.body["status"] == "COMPLETED":
            return False
        return any(step[1:3] == ["TIMER", "SCHEDULED"] for step in seen.body["steps"])

    def check(self, history: Sequence[Op]) -> Verdict:
        made = self.mine(history)
        return self.with_manners(
            history,
            check_timers(
                made,
                healed_ns=healed_ns(history),
                bound_ms=BOUND_MS,
            ),
            substance(made, {"poll": 10, "decide": 10, "events": 1}),
        )
