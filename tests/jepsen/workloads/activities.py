"""Runs whose code schedules one activity after the other, and workers that do not behave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tests.jepsen import api
from tests.jepsen.client import Client
from tests.jepsen.context import Run
from tests.jepsen.outcomes import Outcome
from tests.jepsen.workloads.base import POLL_MS, Base, Taken, loop, read_everywhere, taken
from tests.jepsen.workloads.runs import COMPLETE, Decider, Runs, open_steps

ACTIVITY = "work"
AT_ONCE = 2  # activities of one run


@dataclass
class Activities(Base):
    """Subclasses say what a worker does with a task."""

    workers: int = 3
    places: int = 3
    uses: int = 25
    policy: dict[str, Any] = field(
        default_factory=lambda: {
            "max_attempts": 0,
            "initial_backoff_ms": 100,
            "max_backoff_ms": 500,
        }
    )
    _outputs: Any = field(default_factory=lambda: count(1))
    _runs: Runs | None = None

    def work(self, run: Run, hand: Hand, polled: Taken) -> None:
        raise NotImplementedError

    def threads(self, run: Run) -> list[Callable[[], None]]:
        self._runs = runs = Runs(
            self.name, self.types[0], self.queue, places=self.places, uses=self.uses
        )
        hands = [self._worker(run, number) for number in range(self.workers)]
        return [self._starter(run, runs), self._decider(run, runs), *hands]

    def _starter(self, run: Run, runs: Runs) -> Callable[[], None]:
        client = self.client(run, "starter")

        def turn() -> None:
            runs.pick(run, client)
            self.pace(run, client, 1.0)

        return loop(run, turn)

    def _decider(self, run: Run, runs: Runs) -> Callable[[], None]:
        client = self.client(run, "decider")
        decider = Decider(run, client, self.types[0], self.queue)

        def turn() -> None:
            polled = decider.poll()
            if polled is None:
                return
            task = polled.task
            busy = len(open_steps(task, "ACTIVITY"))
            first = len(task["steps"]) + 1
            if runs.in_use(task["workflow_id"]):
                new = [self._activity(first + n) for n in range(AT_ONCE - busy)]
                decider.decide(task, new)
            else:
                decider.decide(task, [] if busy else [COMPLETE])

        return loop(run, turn)

    def _activity(self, sequence: int) -> dict[str, Any]:
        return {
            "type": "schedule_activity",
            "step_name": ACTIVITY,
            "sequence": sequence,
            "input": "x",
            "task_queue": self.queue,
            "retry_policy": self.policy,
        }

    def _worker(self, run: Run, number: int) -> Callable[[], None]:
        client = self.client(run, f"worker{number}")
        hand = Hand(client, self.client(run, f"rival{number}"), self._outputs)

        def turn() -> None:
            request = api.poll_activity(
                [ACTIVITY], queue=self.queue, worker=client.process, wait_ms=POLL_MS
            )
            polled = taken(run, client, "take", request)
            if polled is not None:
                self.work(run, hand, polled)

        return loop(run, turn)

    def final(self, run: Run) -> None:
        client = self.client(run, "final")
        read_everywhere(run, client, self._runs.all_keys if self._runs else ())


@dataclass
class Hand:
    """A worker's two connections, and outputs that nobody else gives."""

    client: Client
    rival: Client
    outputs: Any

    def output(self) -> str:
        return f"out{next(self.outputs)}"

    def complete(
        self,
        task: dict[str, Any],
        *,
        output: str | None = None,
        error: str | None = None,
        by: Client | None = None,
    ) -> Outcome:
        said = {"output": output} if error is None else {"error": error}
        value = {
            "workflow_id": task["workflow_id"],
            "sequence": task["sequence"],
            "attempt": task["attempt"],
            **said,
        }
        request = api.complete_activity(task, output=output, error=error)
        return (by or self.client).call("complete", request, key=task["token"], value=value)

    def finish(self, task: dict[str, Any], **said: Any) -> None:
        """Complete until the outcome is known, or patience ends; each try is written down."""
        for _ in range(3):
            if self.complete(task, **said).kind != "info":
                return

    def beat(self, task: dict[str, Any]) -> Outcome:
        request = api.heartbeat(task, worker=self.client.process)
        return self.client.call("beat", request, key=task["token"])
