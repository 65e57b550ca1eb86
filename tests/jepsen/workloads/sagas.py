"""Sagas with one attempt a step, run by worker processes of the SDK, as users run them."""

from __future__ import annotations

import collections
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.jepsen import api
from tests.jepsen.checker.chains import check_chains
from tests.jepsen.checker.sagas import check_sagas, complaints
from tests.jepsen.checker.verdict import Verdict, substance
from tests.jepsen.client import Client
from tests.jepsen.context import Run
from tests.jepsen.history import INVOKE, OK, Op
from tests.jepsen.workloads.base import Base, read_everywhere, until_ok
from tests.jepsen.workloads.runs import ended

SCRIPT = Path(__file__).resolve().parents[2] / "e2e" / "saga_worker.py"
TYPE = "PlainSaga"
QUEUE = "default"
WORKERS = 2
THREADS = 3
PER_SECOND = 0.7
SETTLE_S = 90.0
MOST_READ = 200


@dataclass
class Sagas(Base):
    name: str = "sagas"
    _keys: list[str] = field(default_factory=list)

    def setup(self, run: Run) -> None:
        addresses = [f"http://{run.cluster.http(node)}" for node in run.cluster.ids()]
        for number in range(WORKERS):
            calls, output = self._files(run, number)
            calls.touch()
            with output.open("ab") as file:
                run.workers.append(
                    subprocess.Popen(
                        [sys.executable, str(SCRIPT), str(calls), *addresses],
                        stdout=file,
                        stderr=file,
                    )
                )
        client = self.client(run, "setup")
        probe = api.start(TYPE, f"sagas-probe-{run.seed}", queue=QUEUE, request_id="probe")
        until_ok(run, client, "probe", probe)

    def _files(self, run: Run, number: int) -> tuple[Path, Path]:
        return run.directory / f"worker{number}.calls", run.directory / f"worker{number}.out"

    def threads(self, run: Run) -> list[Callable[[], None]]:
        return [
            self.storyteller(run, f"client{number}", PER_SECOND, partial(self._story, run))
            for number in range(THREADS)
        ]

    def _story(self, run: Run, key: str, client: Client) -> None:
        start = api.start(TYPE, key, queue=QUEUE, request_id=f"start-{key}", payload=key)
        if not self._patiently(client, "start", start, key):
            return
        self._keys.append(key)
        for number in range(client.rng.choice((1, 1, 1, 2, 10))):
            payload = "yes" if number == 0 else f"extra-{number}"
            signal = api.signal(key, "approved", payload, request_id=f"signal-{key}-{number}")
            self._patiently(client, "signal", signal, key, payload)
        if client.rng.random() < 0.1:
            request_id = f"terminate-{key}"
            terminate = api.terminate(key, reason="chance", request_id=request_id)
            self._patiently(client, "terminate", terminate, key)
        client.call("read", api.describe(key), key=key, keep=_seen)

    def _patiently(
        self, client: Client, f: str, request: api.Request, key: str, value: Any = None
    ) -> bool:
        """The same call with the same id until its outcome is known; each try is written down."""
        for _ in range(20):
            outcome = client.call(f, request, key=key, value=value)
            if outcome.ok or outcome.error == "RUN_CLOSED":
                return outcome.ok
            client.pause()
        return False

    def final(self, run: Run) -> None:
        client = self.client(run, "final")
        until = time.monotonic() + SETTLE_S
        for key in self._keys:
            while not ended(client, key) and time.monotonic() < until:
                client.pause()
        keys = client.rng.sample(self._keys, min(MOST_READ, len(self._keys)))
        read_everywhere(run, client, keys)
        ran: collections.Counter[str] = collections.Counter()
        said: list[str] = []
        for number in range(WORKERS):
            calls, output = self._files(run, number)
            ran.update(calls.read_text().splitlines())
            lines = output.read_text(errors="replace").splitlines()
            said += complaints(lines)
        for f, value in (("ran", dict(ran)), ("said", said)):
            client.note(INVOKE, f)
            client.note(OK, f, value=value)

    def check(self, history: Sequence[Op]) -> Verdict:
        made = self.mine(history)
        least = {"start": 10, "signal": 10, "read": 10, "events": 5}
        return self.with_manners(
            history, check_sagas(made), check_chains(made), substance(made, least)
        )


def _seen(body: dict[str, Any]) -> dict[str, Any]:
    return {"status": body["status"], "signals": [value for _, value in body["signals"]]}
