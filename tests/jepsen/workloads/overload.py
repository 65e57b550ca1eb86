"""More than the leader has room for: it refuses starts with 429, loses none that it accepted, and
goes on serving. Heavy on log and disk, so that it comes in a few bursts."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.jepsen import api
from tests.jepsen.checker.starts import check_starts
from tests.jepsen.checker.verdict import Verdict, joined, substance, verdict
from tests.jepsen.client import Client
from tests.jepsen.context import Run
from tests.jepsen.history import Op, named
from tests.jepsen.workloads.starts import Starts

TYPE = "JepsenOverload"
PAYLOAD = "x" * (1900 << 10)
# The leader takes 64 MiB of commands that wait.
AT_ONCE = 56
BURSTS = 2
DEADLINE_S = 30.0
REFUSED = ("OVERLOADED",)


@dataclass
class Overload(Starts):
    name: str = "overload"
    types: tuple[str, ...] = (TYPE,)
    alone: bool = True

    def setup(self, run: Run) -> None:
        """The bursts come before the first fault, or nobody could say why a start ended as it did.
        What was accepted has to outlive the faults."""
        super().setup(run)
        clients = [self.client(run, f"client{number}") for number in range(AT_ONCE)]
        for burst in range(BURSTS):
            with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
                for number, client in enumerate(clients):
                    pool.submit(self._start_big, run, client, f"{burst}/{number}")

    def _start_big(self, run: Run, client: Client, name: str) -> None:
        key = f"{self.name}/{run.seed}/{name}"
        request = api.start(TYPE, key, queue=self.queue, request_id=f"start-{key}", payload=PAYLOAD)
        client.call("start", request, key=key, deadline_s=DEADLINE_S)

    def threads(self, run: Run) -> list[Callable[[], None]]:
        return []

    def check(self, history: Sequence[Op]) -> Verdict:
        made = self.mine(history)
        refused = sum(call.error in REFUSED for call in named(made, "start"))
        errors = [] if refused else ["vacuous: nothing was refused for want of room"]
        checked = joined(check_starts(made), verdict(errors, refused=refused))
        return self.with_manners(history, checked, substance(made, {"start": 10}))
