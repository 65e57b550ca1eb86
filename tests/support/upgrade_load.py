"""Work that goes on while nodes are exchanged: sagas whose activities have one attempt, timers,
signals. What was acknowledged is written down. Workers have the SDK of the release that the cluster
comes from, since they are upgraded after it."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import workflowd
from dev_cluster import call, wait_for, workflow_path
from mixed_cluster import TREE, MixedCluster
from released import unpack

PAUSE_S = 0.03


class Load:
    def __init__(self, cluster: MixedCluster, sdk: str) -> None:
        self.addresses = [f"http://{cluster.http(node_id)}" for node_id in cluster.ids]
        self.signalled: list[str] = []  # started and signalled, both acknowledged
        self.problems: list[str] = []
        self._calls = cluster.directory / "calls"
        self._calls.touch()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._workers = [self._worker(cluster, sdk, turn) for turn in range(2)]

    def start(self) -> None:
        self._thread.start()

    def stop_starting(self) -> None:
        self._stopping.set()
        self._thread.join(60)

    def close(self) -> None:
        self._stopping.set()
        for worker in self._workers:
            worker.kill()
            worker.wait()

    def progress(self, runs: int = 5) -> None:
        """So many more runs are acknowledged from now on."""
        wanted = len(self.signalled) + runs
        wait_for(
            f"{runs} more runs; refused: {self.problems[-3:]}",
            lambda: len(self.signalled) >= wanted,
        )

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
            history = call(self.addresses[0][7:], "GET", workflow_path(workflow_id, "/history"))
            _timers_were_not_early(history["events"])
        executed = Counter(self._calls.read_text().splitlines())
        twice = [call for call, count in executed.items() if count > 1]
        assert not twice, f"one attempt each: {twice}"

    def _run(self) -> None:
        client = workflowd.Worker(addresses=self.addresses)
        for number in itertools.count():
            if self._stopping.is_set():
                return
            workflow_id = f"order-{number}"
            try:
                client.start("Order", workflow_id, workflow_id)
                client.signal(workflow_id, "approved", "yes", request_id=f"s-{number}")
                self.signalled.append(workflow_id)
            except Exception as error:  # noqa: BLE001 - an outcome that is not known is not counted
                self.problems.append(repr(error))
            time.sleep(PAUSE_S)

    def _worker(self, cluster: MixedCluster, sdk: str, turn: int) -> subprocess.Popen[bytes]:
        addresses = self.addresses[turn:] + self.addresses[:turn]
        environment = dict(os.environ)
        if sdk != TREE:
            environment["PYTHONPATH"] = str(unpack(sdk, cluster.directory.parent / "releases"))
        script = Path(__file__).with_name("upgrade_worker.py")
        with (cluster.directory / f"worker-{turn}.log").open("ab") as output:
            return subprocess.Popen(
                [sys.executable, str(script), str(self._calls), *addresses],
                stdout=output,
                stderr=output,
                env=environment,
                cwd=cluster.directory,
            )


def _timers_were_not_early(events: list[dict]) -> None:
    started = {e["sequence"]: e for e in events if e["type"] == "TimerStarted"}
    for event in events:
        if event["type"] == "TimerFired":
            assert event["time"] >= started[event["sequence"]]["fire_at"], events


@contextlib.contextmanager
def load(cluster: MixedCluster, sdk: str = TREE) -> Iterator[Load]:
    work = Load(cluster, sdk)
    work.start()
    try:
        yield work
    finally:
        work.close()
