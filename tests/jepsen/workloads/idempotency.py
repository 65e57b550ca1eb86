"""Every mutating call again: elsewhere, over the other API, with the same and other content."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.jepsen import api
from tests.jepsen.api import Request
from tests.jepsen.checker.idempotency import check_idempotency
from tests.jepsen.checker.verdict import Verdict, substance
from tests.jepsen.client import Client
from tests.jepsen.context import Run
from tests.jepsen.history import Op
from tests.jepsen.workloads.base import Base, read_everywhere

TYPE = "JepsenOnce"
THREADS = 2
PER_SECOND = 0.7


@dataclass
class Idempotency(Base):
    name: str = "idempotency"
    types: tuple[str, ...] = (TYPE,)
    _signalled: list[str] = field(default_factory=list)

    def threads(self, run: Run) -> list[Callable[[], None]]:
        return [
            self.storyteller(run, f"client{number}", PER_SECOND, self._story)
            for number in range(THREADS)
        ]

    def _story(self, key: str, client: Client) -> None:
        """Start, signal, end; each up to three times, and once with something else."""
        if not self._again(client, key, "start"):
            return
        self._signalled.append(key)
        self._again(client, key, "signal")
        if client.rng.random() < 0.5:
            self._again(client, key, "terminate")

    def _again(self, client: Client, key: str, verb: str) -> bool:
        payloads = ["a"] * client.rng.randrange(1, 4)
        if client.rng.random() < 0.4:
            payloads.insert(client.rng.randrange(len(payloads) + 1), "b")
        done = [self._call(client, key, verb, f"{payload}-{key}") for payload in payloads]
        return any(done)

    def _call(self, client: Client, key: str, verb: str, payload: str) -> bool:
        request_id = f"{verb}-{key}"
        value = {"workflow_id": key, "verb": verb, "payload": payload}
        request = self._request(key, verb, payload, request_id)
        return client.call("once", request, key=request_id, value=value).ok

    def _request(self, key: str, verb: str, payload: str, request_id: str) -> Request:
        if verb == "start":
            return api.start(TYPE, key, queue=self.queue, request_id=request_id, payload=payload)
        if verb == "signal":
            return api.signal(key, "once", payload, request_id=request_id)
        return api.terminate(key, reason=payload, request_id=request_id)

    def final(self, run: Run) -> None:
        client = self.client(run, "final")
        few = client.rng.sample(self._signalled, min(30, len(self._signalled)))
        read_everywhere(run, client, few)

    def check(self, history: Sequence[Op]) -> Verdict:
        made = self.mine(history)
        return self.with_manners(
            history, check_idempotency(made), substance(made, {"once": 20, "events": 3})
        )
