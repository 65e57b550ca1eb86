"""Starts as a set, over all nodes and both APIs; some requests come again elsewhere, or everywhere
at once."""

from __future__ import annotations

import concurrent.futures
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.jepsen import api
from tests.jepsen.checker.starts import check_starts
from tests.jepsen.checker.verdict import Verdict, substance
from tests.jepsen.client import Client
from tests.jepsen.context import Run
from tests.jepsen.history import FAIL, INVOKE, OK, Op
from tests.jepsen.workloads.base import FINAL_TRIES, Base, loop

TYPE = "JepsenStart"
THREADS = 3
PER_SECOND = 1.5  # of each thread


@dataclass
class Starts(Base):
    name: str = "starts"
    types: tuple[str, ...] = (TYPE,)
    _known: deque[str] = field(default_factory=lambda: deque(maxlen=300))

    def threads(self, run: Run) -> list[Callable[[], None]]:
        return [self._thread(run, number) for number in range(THREADS)]

    def _thread(self, run: Run, number: int) -> Callable[[], None]:
        client = self.client(run, f"client{number}")
        others = [self.client(run, f"echo{number}-{n}") for n in range(2)]
        turns = 0

        def turn() -> None:
            nonlocal turns
            turns += 1
            self._one(run, f"{self.name}/{run.seed}/{number}/{turns}", client, others)
            self.pace(run, client, PER_SECOND)

        return loop(run, turn)

    def _one(self, run: Run, key: str, client: Client, others: list[Client]) -> None:
        request = api.start(TYPE, key, queue=self.queue, request_id=f"start-{key}", payload=key)

        def start(by: Client) -> bool:
            return by.call("start", request, key=key).ok

        chance = client.rng.random()
        if chance < 0.2:
            with concurrent.futures.ThreadPoolExecutor(3) as pool:
                done = any([*pool.map(start, (client, *others))])
        else:
            done = start(client)
            if chance < 0.4 or not done:
                done = start(client) or done
        if done:
            self._known.append(key)
        for known in client.rng.sample([*self._known], min(2, len(self._known))):
            client.call(
                "read",
                api.describe(known),
                key=known,
                keep=lambda body: {"run_id": body["run_id"], "status": body["status"]},
            )

    def final(self, run: Run) -> None:
        client = self.client(run, "final")
        for node in run.cluster.ids():
            client.note(INVOKE, "list", node=node)
            listed = self._listed(run, client, node)
            kind = FAIL if listed is None else OK
            client.note(kind, "list", value=listed, node=node)

    def _listed(self, run: Run, client: Client, node: str) -> list[list[str]] | None:
        found: list[list[str]] = []
        cursor = ""
        tries = 0
        while True:
            request = api.listing(prefix=f"{self.name}/{run.seed}/", cursor=cursor)
            which = client.rng.choice((api.JSON, api.GRPC))
            outcome = client.perform(request, node=node, api=which)
            if not outcome.ok:
                tries += 1
                if tries > FINAL_TRIES:
                    return None
                client.pause()
                continue
            found += outcome.body["runs"]
            cursor = outcome.body["cursor"]
            if not cursor:
                return found

    def check(self, history: Sequence[Op]) -> Verdict:
        made = self.mine(history)
        return self.with_manners(
            history, check_starts(made), substance(made, {"start": 20, "read": 20})
        )
