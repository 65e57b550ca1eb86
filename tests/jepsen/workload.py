"""What clients do meanwhile: start sagas, signal them in bursts, terminate some, ask about them."""

from __future__ import annotations

import concurrent.futures
import random
import threading
from dataclasses import dataclass, field
from typing import Any

from client import Client
from dev_cluster import DevCluster, workflow_path


@dataclass
class Saga:
    """One run and what its client knows of it."""

    workflow_id: str
    run_id: str = ""
    signals_ok: list[str] = field(default_factory=list)  # request order
    signals_maybe: set[str] = field(default_factory=set)
    terminated: bool | None = False  # None: nobody knows


class Workload:
    """Threads of clients; each run belongs to one of them."""

    def __init__(self, cluster: DevCluster, seed: int, *, threads: int) -> None:
        self.cluster = cluster
        self.sagas: list[Saga] = []
        self.violations: list[str] = []
        self.clients = [Client(cluster, seed * 1_000 + n) for n in range(threads)]
        self._seed = seed
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._run, args=(n, client), daemon=True)
            for n, client in enumerate(self.clients)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(300)
            if thread.is_alive():
                self._violation("a client is stuck")

    def _violation(self, text: str) -> None:
        with self._lock:
            self.violations.append(text)

    def _run(self, number: int, client: Client) -> None:
        chance = random.Random(self._seed * 7_919 + number)
        try:
            turn = 0
            while not self._stop.is_set():
                turn += 1
                self._one(f"j{self._seed}/{number}/{turn}", client, chance)
        except BaseException as error:  # noqa: BLE001  a client that ends must be seen
            self._violation(f"client {number} broke: {error!r}")

    def _one(self, workflow_id: str, client: Client, chance: random.Random) -> None:
        saga = self._begin(workflow_id, client, chance)
        if saga is None:
            return
        self._signals(saga, client, chance)
        if chance.random() < 0.1:
            self._terminate(saga, client)
        self._look(saga, client)

    def _begin(self, workflow_id: str, client: Client, chance: random.Random) -> Saga | None:
        body = {
            "type": "PlainSaga",
            "workflow_id": workflow_id,
            "input": workflow_id,
            "request_id": f"start-{workflow_id}",
        }
        answers: list[Any] = []
        if chance.random() < 0.3:
            # The same request everywhere at once: one run, one answer.
            with concurrent.futures.ThreadPoolExecutor(3) as pool:
                at_once = [
                    pool.submit(client.once, self.cluster.http(node), "POST", _START, body)
                    for node in self.cluster.ids()
                ]
                answers = [each.result() for each in at_once]
        if not any(answer.kind == "ok" for answer in answers):
            answers.append(client.until_known("POST", _START, body))
        run_ids = {answer.body["run_id"] for answer in answers if answer.kind == "ok"}
        refused = [answer.body for answer in answers if answer.kind == "fail"]
        if refused or len(run_ids) > 1:
            self._violation(f"start {workflow_id}: run ids {run_ids}, refused {refused}")
        if not run_ids:
            return None
        saga = Saga(workflow_id, run_ids.pop())
        with self._lock:
            self.sagas.append(saga)
        return saga

    def _signals(self, saga: Saga, client: Client, chance: random.Random) -> None:
        for number in range(chance.choice((1, 1, 1, 2, 20))):
            payload = "yes" if number == 0 else f"extra-{number}"
            body = {
                "name": "approved",
                "payload": payload,
                "request_id": f"signal-{saga.workflow_id}-{number}",
            }
            path = workflow_path(saga.workflow_id, "/signal")
            saga.signals_maybe.add(payload)
            outcome = client.until_known("POST", path, body)
            if outcome.kind == "ok":
                saga.signals_ok.append(payload)
            elif outcome.kind == "fail" and outcome.body.get("reason") != "RUN_CLOSED":
                self._violation(f"signal {number} of {saga.workflow_id}: {outcome.body}")

    def _terminate(self, saga: Saga, client: Client) -> None:
        path = workflow_path(saga.workflow_id, "/terminate")
        body = {"reason": "chance", "request_id": f"terminate-{saga.workflow_id}"}
        outcome = client.until_known("POST", path, body)
        saga.terminated = None if outcome.kind == "info" else outcome.kind == "ok"

    def _look(self, saga: Saga, client: Client) -> None:
        """A read after an acknowledgement sees it, on whichever node."""
        outcome = client.until_known("GET", workflow_path(saga.workflow_id))
        if outcome.kind == "info":
            return
        run = outcome.body
        seen = [each["payload"] for each in run.get("signals", [])]
        if outcome.kind != "ok" or run["run_id"] != saga.run_id:
            self._violation(f"{saga.workflow_id} was acknowledged, read: {run}")
        elif [each for each in seen if each in saga.signals_ok] != saga.signals_ok:
            self._violation(f"{saga.workflow_id}: signals {saga.signals_ok}, read {seen}")
        elif saga.terminated and run["status"] != "TERMINATED":
            self._violation(f"{saga.workflow_id} was terminated, read {run['status']}")


_START = "/api/workflows"
