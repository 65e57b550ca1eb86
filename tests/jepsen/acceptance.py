"""Runs with a bar of their own: what CI runs, many power losses of everybody, how soon commits
resume."""

from __future__ import annotations

import itertools
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.jepsen import api, store
from tests.jepsen.client import Channels, Client
from tests.jepsen.context import Run
from tests.jepsen.history import History
from tests.jepsen.nemesis.conductor import in_turn, strike
from tests.jepsen.nemesis.families import possible
from tests.jepsen.nemesis.partitions import Bridge, DeafLeader, IsolatedLeader, OneWay, Partition
from tests.jepsen.nemesis.power import PowerLossOfAll
from tests.jepsen.runner import SERVING_S, Mix, hosts, say

ELECTION_MAX_S = 0.8  # the default of --election-max
RESUME_S = 3.0  # beyond it
WATCHED_S = 10.0
MOST_TERMS = 4  # that one partition may cost while it lasts
SHAPES: tuple[type[Partition], ...] = (OneWay, Bridge, DeafLeader, IsolatedLeader)
TYPE = "JepsenResume"

SLICE_WORKLOADS = ("starts", "register", "signals")
SLICE = (
    *("kill-leader", "pause-leader", "partition-leader", "disk-full", "partition-bridge"),
    *("fsync-once", "kill-majority", "partition-one-way", "power-loss-all"),
)
SLICE_LONGEST_S = 2.5


def slice_mix(run: Run) -> None:
    """As many of the slice's faults as these hosts can do."""
    can, _ = possible(SLICE, run.cluster.capabilities)
    in_turn(run, can, longest_s=SLICE_LONGEST_S)


def power_losses(times: int, *, lying: bool = False) -> Mix:
    """Of all nodes at once, at random moments while clients and workers are at work. With `lying`
    disks fsync does nothing: then acknowledged writes must be lost, and the checkers see it."""

    def mix(run: Run) -> None:
        chance = run.rng("power-losses")
        cluster: Any = run.cluster
        for control in cluster.controls.values():
            control.set("lies", int(lying))
        for number in range(1, times + 1):
            run.rest(chance.uniform(0.5, 5.0))
            strike(run, "nemesis/process", PowerLossOfAll, chance, 2.0)
            run.cluster.wait_serving(SERVING_S)
            say(f"power loss {number} of {times}")

    return mix


@dataclass(frozen=True, slots=True)
class Resumption:
    """In seconds: from the cut to the first commit acknowledged after it, and the longest time
    without one while it lasted."""

    shape: str
    words: str
    first_s: float
    longest_s: float
    terms: int

    @property
    def ok(self) -> bool:
        bound = ELECTION_MAX_S + RESUME_S
        return self.longest_s <= bound and self.terms <= MOST_TERMS

    def __str__(self) -> str:
        return (
            f"{'ok  ' if self.ok else 'FAIL'} {self.shape:22} first commit after "
            f"{self.first_s:5.2f} s, longest pause {self.longest_s:5.2f} s, "
            f"terms +{self.terms}: {self.words}"
        )


def resume(directory: Path, *, nodes: int, seed: int, times: int) -> int:
    """Each shape several times; every node is asked all the time, whichever can commit."""
    found = []
    with (
        hosts(directory, nodes) as cluster,
        History(directory / store.HISTORY) as history,
    ):
        if not hasattr(cluster, "network"):
            say("partitions need root: nothing was measured")
            return 1
        run = Run(cluster, history, directory, seed)
        cluster.start_all()
        cluster.wait_serving(SERVING_S)
        writers = Writers(run)
        for number, shape in itertools.product(range(times), SHAPES):
            found.append(measure(run, writers, shape, number))
            print(found[-1], flush=True)
            cluster.wait_serving(SERVING_S)
            time.sleep(2.0)
        writers.close()
    return 0 if all(each.ok for each in found) else 1


class Writers:
    """One a node, each starting runs one after the other; when each that was acknowledged began
    and ended."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._channels = Channels(run.cluster)
        self.acknowledged: list[tuple[float, float]] = []
        register = self._client("register")
        until = time.monotonic() + SERVING_S
        while not register.call("register", api.register([TYPE])).ok:
            assert time.monotonic() < until, "the type cannot be registered"
        self._threads = [
            threading.Thread(target=self._write, args=(node,), daemon=True)
            for node in run.cluster.ids()
        ]
        for thread in self._threads:
            thread.start()

    def _client(self, name: str) -> Client:
        run = self._run
        process = f"resume/{name}"
        return Client(
            run.cluster, run.history, self._channels, process=process, rng=run.rng(process)
        )

    def _write(self, node: str) -> None:
        client = self._client(node)
        for number in itertools.count():
            if self._run.stopping.is_set():
                return
            name = f"{node}-{number}"
            begun = time.monotonic()
            request = api.start(TYPE, name, queue="resume", request_id=name)
            if client.call("start", request, node=node).ok:
                self.acknowledged.append((begun, time.monotonic()))
            self._run.rest(0.03)

    def close(self) -> None:
        self._run.stopping.set()
        for thread in self._threads:
            thread.join(60)


def measure(run: Run, writers: Writers, shape: type[Partition], number: int) -> Resumption:
    cluster: Any = run.cluster
    fault = shape(run, run.rng(f"{shape.name}/{number}"))
    before = max(cluster.leaders())
    cut = time.monotonic()
    words = fault.inject()
    try:
        time.sleep(WATCHED_S)
        terms = _newest_term(cluster) - before
    finally:
        fault.heal()
    healed = time.monotonic()
    # Those that were asked after the cut and answered: what was under way before it is no proof.
    moments = sorted(end for begun, end in writers.acknowledged if cut < begun and end < healed)
    edges = [cut, *moments, healed]
    longest = max(b - a for a, b in itertools.pairwise(edges))
    first = moments[0] - cut if moments else float("inf")
    return Resumption(shape.name, words, first, longest, terms)


def _newest_term(cluster: Any) -> int:
    return max(int((cluster.health(node) or {}).get("term", 0)) for node in cluster.ids())
