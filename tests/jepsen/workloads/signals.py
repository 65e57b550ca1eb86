"""Signals as appends to a list, while the run's code takes them one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tests.jepsen import api
from tests.jepsen.checker.appends import check_appends
from tests.jepsen.checker.verdict import Verdict, substance
from tests.jepsen.client import Client
from tests.jepsen.context import Run
from tests.jepsen.history import Op
from tests.jepsen.workloads.base import FINAL_TRIES, Base, loop, until_ok
from tests.jepsen.workloads.runs import COMPLETE, Decider, Runs, await_signal, open_steps, timer

TYPE = "JepsenSignals"
PER_SECOND = 3.0


@dataclass
class Signals(Base):
    name: str = "signals"
    types: tuple[str, ...] = (TYPE,)
    appenders: int = 2
    readers: int = 1
    places: int = 2
    uses: int = 100
    _values: Any = field(default_factory=lambda: count(1))
    _runs: Runs | None = None

    def threads(self, run: Run) -> list[Callable[[], None]]:
        self._runs = runs = Runs(
            self.name, self.types[0], self.queue, places=self.places, uses=self.uses
        )
        appenders = [self._appender(run, runs, number) for number in range(self.appenders)]
        readers = [self.reader(run, runs, number) for number in range(self.readers)]
        return [*appenders, *readers, self._worker(run, runs)]

    @property
    def keys(self) -> list[str]:
        return self._runs.all_keys if self._runs is not None else []

    def _appender(self, run: Run, runs: Runs, number: int) -> Callable[[], None]:
        client = self.client(run, f"appender{number}")

        def turn() -> None:
            key = runs.pick(run, client)
            if key is not None:
                value = f"a{next(self._values)}"
                request = api.signal(key, "item", value, request_id=f"{key}/{value}")
                ended = client.call("append", request, key=key, value=value)
                if not ended.ok and client.rng.random() < 0.5:
                    client.call("append", request, key=key, value=value)
            self.pace(run, client, PER_SECOND)

        return loop(run, turn)

    def reader(self, run: Run, runs: Runs, number: int) -> Callable[[], None]:
        client = self.client(run, f"reader{number}")

        def turn() -> None:
            key = runs.pick(run, client)
            if key is not None:
                client.call("read", api.describe(key), key=key, keep=_payloads)
            self.pace(run, client, PER_SECOND)

        return loop(run, turn)

    def _worker(self, run: Run, runs: Runs) -> Callable[[], None]:
        client = self.client(run, "worker")
        decider = Decider(run, client, self.types[0], self.queue)

        def turn() -> None:
            polled = decider.poll()
            if polled is None:
                return
            task = polled.task
            if not runs.in_use(task["workflow_id"]):
                decider.decide(task, [COMPLETE])
                return
            # Signals come meanwhile: the answer is stale, and after two such they wait for it.
            run.rest(client.rng.choice((0.0, 0.0, 0.2, 0.6)))
            decider.decide(task, wanted(task, client))

        return loop(run, turn)

    def final(self, run: Run) -> None:
        client = self.client(run, "final")
        for key in self.keys:
            for node in run.cluster.ids():
                until_ok(
                    run,
                    client,
                    "read",
                    api.describe(key),
                    tries=FINAL_TRIES,
                    key=key,
                    node=node,
                    keep=_payloads,
                )

    def check(self, history: Sequence[Op]) -> Verdict:
        made = self.mine(history)
        least = {"append": 20, "read": 20, "decide": 5}
        return self.with_manners(history, check_appends(made), substance(made, least))


def wanted(task: dict[str, Any], client: Client) -> list[dict[str, Any]]:
    """A wait for the next signal and a timer, whichever of them is not open."""
    sequence = len(task["steps"]) + 1
    commands = []
    if not open_steps(task, "SIGNAL"):
        commands.append(await_signal(sequence, "item"))
        sequence += 1
    if not open_steps(task, "TIMER"):
        commands.append(timer(sequence, client.rng.randrange(100, 800)))
    return commands


def _payloads(body: dict[str, Any]) -> list[str]:
    return [value for _event_id, value in body["signals"]]
