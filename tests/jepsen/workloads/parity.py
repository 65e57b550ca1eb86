"""The same question over both APIs and several nodes, about runs that change no more."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.jepsen import api
from tests.jepsen.api import GRPC, JSON, Request
from tests.jepsen.checker.parity import check_parity
from tests.jepsen.checker.verdict import Verdict, substance
from tests.jepsen.client import Client
from tests.jepsen.context import Run
from tests.jepsen.history import INVOKE, OK, Op
from tests.jepsen.workloads.base import Base, kept_history, loop

TYPE = "JepsenParity"
PER_SECOND = 0.5
LATE_S = 10.0
AGAIN_S = 0.1


@dataclass
class Parity(Base):
    name: str = "parity"
    types: tuple[str, ...] = (TYPE,)

    def threads(self, run: Run) -> list[Callable[[], None]]:
        client = self.client(run, "client")
        turns = 0

        def turn() -> None:
            nonlocal turns
            turns += 1
            self._story(run, f"{self.name}/{run.seed}/{turns}", client)
            self.pace(run, client, PER_SECOND)

        return [loop(run, turn)]

    def _story(self, run: Run, key: str, client: Client) -> None:
        changes = (
            api.start(TYPE, key, queue=self.queue, request_id=f"start-{key}", payload="é\n"),
            api.signal(key, "note", "ü", request_id=f"signal-{key}"),
            api.terminate(key, reason="seen enough", request_id=f"end-{key}"),
        )
        for change in changes:
            if not client.call("change", change, key=key).ok:
                return
        self._both(client, f"describe {key}", api.describe(key))
        self._list(run, client, key)
        self._both(client, f"history {key}", api.history(key), keep=kept_history)
        late = api.signal(key, "note", "late", request_id=f"late-{key}")
        self._both(client, f"late signal {key}", late)
        self._both(client, f"missing {key}", api.describe(f"missing-{key}"))
        nobody = api.start("NobodysType", f"no-{key}", queue=self.queue, request_id=f"no-{key}")
        self._both(client, f"unknown type {key}", nobody)
        token = api.complete_decision(key, "no such token", [])
        self._both(client, f"bad token {key}", token)

    def _list(self, run: Run, client: Client, key: str) -> None:
        """A list shows what its node has applied: it may be late, but then says the same."""
        for which in (JSON, GRPC):
            node = client.rng.choice(client.cluster.ids())
            until = time.monotonic() + LATE_S
            while time.monotonic() < until and run.rest(AGAIN_S):
                outcome = client.perform(api.listing(prefix=key), node=node, api=which)
                if outcome.ok and outcome.body["runs"]:
                    client.note(INVOKE, "same", key=f"list {key}", node=node, api=which)
                    client.note(
                        OK, "same", key=f"list {key}", value=outcome.body, node=node, api=which
                    )
                    break

    def _both(
        self,
        client: Client,
        key: str,
        request: Request,
        *,
        keep: Callable[[list[bytes]], dict[str, object]] | None = None,
    ) -> None:
        for which in (JSON, GRPC):
            client.call("same", request, key=key, api=which, keep=keep)

    def check(self, history: Sequence[Op]) -> Verdict:
        made = self.mine(history)
        return self.with_manners(history, check_parity(made), substance(made, {"same": 10}))
