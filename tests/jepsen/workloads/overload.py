"""More than the leader has room for: it refuses starts with 429, loses none that it accepted, and
goes on serving. Heavy on log and disk, so that it comes in a few bursts."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.jepsen import api
from tests.jepsen.checker.starts import check_starts
from tests.jepsen.checker.verdict import Verdict, joined, substance, verdict
from tests.jepsen.context import Run
from tests.jepsen.history import Op, named
from tests.jepsen.workloads.starts import Starts

TYPE = "JepsenOverload"
PAYLOAD = "x" * (1900 << 10)
# The leader takes 64 MiB of commands that wait.
AT_ONCE = 56
BURSTS = 2
BETWEEN_S = 15.0
DEADLINE_S = 30.0
REFUSED = ("OVERLOADED",)


@dataclass
class Overload(Starts):
    name: str = "overload"
    types: tuple[str, ...] = (TYPE,)
    _bursts: int = field(default=0)

    def threads(self, run: Run) -> list[Callable[[], None]]:
        clients = [self.client(run, f"client{number}") for number in range(AT_ONCE)]

        def one(number: int) -> None:
            key = f"{self.name}/{run.seed}/{self._bursts}/{number}"
            request = api.start(
                TYPE, key, queue=self.queue, request_id=f"start-{key}", payload=PAYLOAD
            )
            node = run.cluster.ids()[number % len(run.cluster.ids())]
            clients[number].call("start", request, key=key, node=node, deadline_s=DEADLINE_S)

        def bursts() -> None:
            for _ in range(BURSTS):
                with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
                    list(pool.map(one, range(AT_ONCE)))
                self._bursts += 1
                if not run.rest(BETWEEN_S / run.rate):
                    return

        return [bursts]

    def check(self, history: Sequence[Op]) -> Verdict:
        made = self.mine(history)
        refused = sum(call.error in REFUSED for call in named(made, "start"))
        errors = [] if refused else ["vacuous: nothing was refused for want of room"]
        checked = joined(check_starts(made), verdict(errors, refused=refused))
        return self.with_manners(history, checked, substance(made, {"start": 10}))
