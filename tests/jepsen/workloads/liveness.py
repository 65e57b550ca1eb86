"""Is all well again? A start through every node before the faults and after them, and one index."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.jepsen import api
from tests.jepsen.checker.liveness import SETTLE_MS, check_liveness
from tests.jepsen.checker.verdict import Verdict
from tests.jepsen.context import Run
from tests.jepsen.history import FAIL, INVOKE, OK, Op
from tests.jepsen.workloads.base import Base

TYPE = "JepsenProbe"
ROUNDS = 5
INDEXES_S = 30.0


@dataclass
class Liveness(Base):
    name: str = "liveness"
    types: tuple[str, ...] = (TYPE,)

    def setup(self, run: Run) -> None:
        super().setup(run)
        for number in range(ROUNDS):
            self._probe(run, "before", number)

    def threads(self, run: Run) -> list[Callable[[], None]]:
        return []

    def final(self, run: Run) -> None:
        until = time.monotonic() + SETTLE_MS / 1_000
        number = 0
        while time.monotonic() < until:
            self._probe(run, "settling", number)
            number += 1
            time.sleep(0.5)
        for number in range(ROUNDS):
            self._probe(run, "after", number)
        self._compare_indexes(run)

    def _probe(self, run: Run, phase: str, number: int) -> None:
        client = self.client(run, f"probe-{phase}")
        for node in run.cluster.ids():
            key = f"{self.name}/{run.seed}/{phase}/{node}/{number}"
            request = api.start(TYPE, key, queue=self.queue, request_id=f"start-{key}")
            client.call("probe", request, key=phase, node=node)

    def _compare_indexes(self, run: Run) -> None:
        client = self.client(run, "indexes")
        client.note(INVOKE, "indexes")
        until = time.monotonic() + INDEXES_S
        while True:
            indexes: dict[str, Any] = {}
            for node in run.cluster.ids():
                outcome = client.perform(api.cluster(), node=node, api=api.JSON)
                indexes[node] = outcome.body.get(node) if outcome.ok else None
            if None not in indexes.values() and len({str(pair) for pair in indexes.values()}) == 1:
                client.note(OK, "indexes", value=indexes)
                return
            if time.monotonic() > until:
                client.note(FAIL, "indexes", value=indexes)
                return
            time.sleep(0.1)

    def check(self, history: Sequence[Op]) -> Verdict:
        made = self.mine(history)
        nodes = sorted({call.node for call in made if call.f == "probe"})
        return self.with_manners(history, check_liveness(made, nodes=nodes))
