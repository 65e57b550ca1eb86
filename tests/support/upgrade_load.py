"""Work that goes on while nodes are exchanged, through a client that we did not write: sagas whose
activities have one attempt, timers, signals. What was acknowledged is written down."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections import Counter
from collections.abc import Iterator

import workflowd
from dev_cluster import wait_for
from mixed_cluster import MixedCluster

PAUSE_S = 0.03


class Load:
    def __init__(self, cluster: MixedCluster) -> None:
        self.addresses = [f"http://{cluster.http(node_id)}" for node_id in cluster.ids]
        self.started: list[str] = []  # acknowledged
        self.signalled: list[str] = []
        self.executed: Counter[tuple[str, str]] = Counter()  # by run and activity
        self.early: list[str] = []  # timers that were
        self.problems: list[str] = []
        self._stopping = threading.Event()
        self._workers = [self._worker(turn) for turn in range(len(self.addresses))]
        self._threads = [threading.Thread(target=self._run, daemon=True)]

    def start(self) -> None:
        for worker in self._workers:
            worker.run(block=False)
        for thread in self._threads:
            thread.start()

    def stop_starting(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(60)

    def close(self) -> None:
        self._stopping.set()
        for worker in self._workers:
            worker.stop()

    def progress(self, runs: int = 5) -> None:
        """So many more runs are acknowledged from now on."""
        wanted = len(self.signalled) + runs
        wait_for(f"{runs} more runs ({self.problems[-3:]})", lambda: len(self.signalled) >= wanted)

    def check(self) -> None:
        """Everything acknowledged came to its end, and nothing was done twice."""
        client = workflowd.Worker(addresses=self.addresses)
        for workflow_id in self.signalled:

            def closed(workflow_id: str = workflow_id) -> dict | None:
                run = client.describe(workflow_id)
                return run if "closed_at" in run else None

            run = wait_for(f"{workflow_id} is closed", closed, timeout=60)
            assert run["status"] == "COMPLETED", run
            assert run["output"] == f"sent kept {workflow_id} yes", run
        twice = {key: count for key, count in self.executed.items() if count != 1}
        assert not twice, f"one attempt each: {twice}"
        assert not self.early, f"timers before their time: {self.early}"

    def _run(self) -> None:
        client = workflowd.Worker(addresses=self.addresses)
        for number in itertools.count():
            if self._stopping.is_set():
                return
            workflow_id = f"order-{number}"
            try:
                client.start("Order", workflow_id, workflow_id)
                self.started.append(workflow_id)
                client.signal(workflow_id, "approved", "yes", request_id=f"s-{number}")
                self.signalled.append(workflow_id)
            except Exception as error:  # noqa: BLE001 - an outcome that is not known is not counted
                self.problems.append(repr(error))
            time.sleep(PAUSE_S)

    def _worker(self, turn: int) -> workflowd.Worker:
        addresses = self.addresses[turn:] + self.addresses[:turn]
        worker = workflowd.Worker(addresses=addresses, worker_id=f"w{turn}")

        @worker.workflow("Order")
        def order(ctx: workflowd.Context) -> str:
            kept = ctx.activity("keep", ctx.input)
            ctx.sleep("settle", 0.1)
            answer = ctx.wait_for_signal("gate", "approved")
            return ctx.activity("send", f"{kept} {answer}")

        @worker.activity("keep")
        def keep(value: str, info: dict) -> str:
            self.executed[info["workflow_id"], "keep"] += 1
            return f"kept {value}"

        @worker.activity("send")
        def send(value: str, info: dict) -> str:
            self.executed[info["workflow_id"], "send"] += 1
            return f"sent {value}"

        return worker


@contextlib.contextmanager
def load(cluster: MixedCluster) -> Iterator[Load]:
    work = Load(cluster)
    work.start()
    try:
        yield work
    finally:
        work.close()
