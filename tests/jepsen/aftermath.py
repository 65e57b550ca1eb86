"""Before the first fault and after the last heal: does every node take part, how fast, and do all
come to the same state. What is found goes into the history; `checker/liveness.py` judges it."""

from __future__ import annotations

import itertools
import json
import time
from typing import Any

from tests.jepsen import api
from tests.jepsen.client import Channels, Client
from tests.jepsen.context import Run
from tests.jepsen.history import FAIL, INVOKE, OK, Op

BEFORE, AFTER = "before", "after"
PROCESS = "liveness/probe"
TYPE = "JepsenProbe"
EQUAL_S = 30.0
BETWEEN_S = 0.1

_numbers = itertools.count()


class Probes:
    """Starts through one node after the other."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._client = Client(
            run.cluster, run.history, Channels(run.cluster), process=PROCESS, rng=run.rng(PROCESS)
        )

    def set_up(self) -> None:
        until = time.monotonic() + EQUAL_S
        while not self._client.call("register", api.register([TYPE])).ok:
            assert time.monotonic() < until, "the type of the probes cannot be registered"

    def round(self, phase: str, seconds: float) -> None:
        until = time.monotonic() + seconds
        while True:
            for node in self._run.cluster.ids():
                name = f"probe-{next(_numbers)}"
                request = api.start(TYPE, name, queue="jepsen-probe", request_id=name)
                self._client.call("probe", request, key=phase, node=node)
            if time.monotonic() > until:
                return
            time.sleep(BETWEEN_S)


def compare_indexes(run: Run) -> None:
    """Wait until all nodes have applied the same index with the same digest; say how it ended."""
    run.history.record(Op(process="liveness/indexes", f="indexes", type=INVOKE))
    until = time.monotonic() + EQUAL_S
    while True:
        states = _states(run.cluster)
        equal = len(states) == len(run.cluster.ids()) and len(set(states.values())) == 1
        if equal or time.monotonic() > until:
            break
        time.sleep(0.2)
    run.history.record(
        Op(
            process="liveness/indexes",
            f="indexes",
            type=OK if equal else FAIL,
            value={node: list(state) for node, state in states.items()},
        )
    )


def _states(cluster: Any) -> dict[str, tuple[int, str]]:
    """Applied index and digest of each node, as one of them tells of all."""
    for node in cluster.ids():
        raw = cluster.get(node, "/api/cluster")
        if raw is not None:
            rows = json.loads(raw)["nodes"]
            return {
                row["id"]: (row["applied_index"], row["state_digest"])
                for row in rows
                if row["applied_index"] is not None
            }
    return {}
