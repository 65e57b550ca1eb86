"""A whole cluster in one thread, repeatable from one seed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from pysyncobj import syncobj as engine

from raftflow.cluster.consensus.membership import Configuration, Member
from raftflow.cluster.consensus.types import Role, Timing
from tests.sim.checkers import Checks, require
from tests.sim.clock import BEGAN, Clock
from tests.sim.nemesis import Nemesis
from tests.sim.network import Network
from tests.sim.node import SimNode
from tests.sim.operator import Operator
from tests.sim.options import SLOT_S, WHOLE, Options, Schedule
from tests.sim.workload import Workload

PLAIN = Options()
MIN_ACKED = 200
MIN_FAULTS = 10
STRIFE_S = 10.0
MORE_STRIFE_S = 0.5
MOST_STRIFE_S = 120.0
PEACE_S = 6.0


@contextmanager
def real_time_afterwards() -> Iterator[None]:
    """A world replaces PySyncObj's clock and chance; whoever comes after wants the real ones."""
    before = engine.monotonicTime, engine.random
    try:
        yield
    finally:
        engine.monotonicTime, engine.random = before


class World:
    strife_s = STRIFE_S

    def __init__(
        self,
        seed: int,
        *,
        options: Options = PLAIN,
        schedule: Schedule = WHOLE,
        node_class: type[SimNode] = SimNode,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self.seed = seed
        self.options = options
        self.schedule = schedule
        self.rng = random.Random(seed)
        self._tell = tell
        self.tells = tell is not None
        self.clock = Clock()
        engine.monotonicTime = self.clock.read
        engine.random = random.Random(self.rng.getrandbits(64))
        self.timing = Timing()
        self.segment_bytes = options.segment
        self.keep_entries = options.snapshots
        self.only_processes_crash = node_class.only_processes_crash
        self.names = list("abcdefg"[: options.nodes])
        self.birth = Configuration(tuple(Member(name, name) for name in self.names))
        self.stats: Counter[str] = Counter()
        self.peace_from: float | None = None
        chance = random.Random(self.rng.getrandbits(64))
        self.network = Network(self.clock, chance, self.names, bytes_per_s=options.bandwidth)
        self.checks = Checks()
        self._node_class = node_class
        self.nodes = {name: node_class(self, name) for name in self.names}
        self.checks.nodes = list(self.nodes.values())
        self.nemesis = Nemesis(self)

    def start(self) -> None:
        for node in self.nodes.values():
            node.start()

    def add_node(self, birth: Configuration) -> SimNode:
        """One that is to join; it is not started."""
        name = chr(ord("a") + len(self.nodes))
        self.names.append(name)
        self.network.add(name)
        node = self.nodes[name] = self._node_class(self, name)
        node.birth = birth
        self.checks.nodes.append(node)
        return node

    def members(self) -> list[SimNode]:
        """Those of the configuration that the leader goes by; without a leader, all."""
        leader = self.leader()
        if leader is None or self.only_processes_crash:
            return list(self.nodes.values())
        members = leader.core.configuration.configuration.members
        return [self.nodes[member.id] for member in members]

    def running(self) -> list[SimNode]:
        return [node for node in self.nodes.values() if node.alive and not node.paused]

    def leader(self) -> SimNode | None:
        leaders = [node for node in self.running() if node.core.role is Role.LEADER]
        return max(leaders, key=lambda node: node.core.term, default=None)

    def restart_after(self, node: SimNode, seconds: float) -> None:
        def restart() -> None:
            if not node.alive:
                self.trace(f"-- start {node.name}")
                node.start()

        self.clock.after(seconds, restart)

    def trace(self, what: str) -> None:
        if self._tell is not None:
            self._tell(f"{self.clock.now - BEGAN:9.4f} {what}")

    def run_for(self, seconds: float) -> None:
        self.clock.run_until(self.clock.now + seconds)

    def run_until(self, holds: Callable[[], bool], *, within_s: float, promise: str) -> float:
        began = self.clock.now
        while not holds():
            require(self.clock.now - began < within_s, promise, within_s=within_s)
            self.clock.step()
        return self.clock.now - began

    # -- a random run

    def run(self) -> None:
        self.strife()
        self.mend()
        self._check_liveness()

    def strife(self) -> None:
        self.start()
        self.operator = Operator(self)
        if not self.only_processes_crash:
            self.operator.begin()
        self.nemesis.begin()
        self.workload = Workload(self)
        self.quarrel()
        self.peace_from = self.clock.now
        self.nemesis.stopped = self.workload.stopped = self.operator.stopped = True

    def quarrel(self) -> None:
        """Until enough has happened to prove something, or for as long as the schedule says."""
        if self.schedule.until_s is not None:
            self.run_for(self.schedule.until_s)
            return
        self.run_for(self.strife_s)
        while self.vacuous and self.clock.now < BEGAN + MOST_STRIFE_S:
            self.run_for(MORE_STRIFE_S)

    @property
    def vacuous(self) -> bool:
        """Too little happened to prove anything."""
        return self.lags or self.nemesis.effective.total() < MIN_FAULTS

    @property
    def lags(self) -> bool:
        """Too little was done."""
        return self.checks.acked < MIN_ACKED

    @property
    def slot(self) -> int:
        """Which piece of the workload it is time for."""
        return int((self.clock.now - BEGAN) / SLOT_S)

    @property
    def works(self) -> bool:
        """Whether clients call now."""
        return self.schedule.works_in(self.slot)

    def mend(self) -> None:
        self.trace("-- mend everything")
        self.network.heal()
        for node in self.nodes.values():
            node.flush_s = 0.001
            node.disk.fail_at_sync = False
            node.paused_until = min(node.paused_until, self.clock.now)
            if not node.alive:
                node.start()
            else:
                node.resume()

    def _check_liveness(self) -> None:
        self.run_until(
            self._one_leader_followed,
            within_s=PEACE_S,
            promise="a leader is found after the last fault",
        )
        before = self.checks.acked
        reads = dict.fromkeys((node.name for node in self.members()), False)

        def clients() -> None:
            # What a transfer of leadership that is under way refuses, clients try again.
            leader = self.leader()
            if leader is not None and self.checks.acked == before:
                self.workload.write(leader)
            for name, answered in reads.items():
                if not answered:
                    self.workload.read(self.nodes[name], partial(reads.__setitem__, name))
            if self.checks.acked == before or not all(reads.values()):
                self.clock.after(0.3, clients)

        clients()
        self.run_until(
            lambda: self.checks.acked > before and all(reads.values()) and self._all_equal(),
            within_s=PEACE_S,
            promise="after the last fault writes and reads go on, and all nodes catch up",
        )

    def _one_leader_followed(self) -> bool:
        leader = self.leader()
        return leader is not None and all(
            node.core.leader == leader.name for node in self.members()
        )

    def _all_equal(self) -> bool:
        return len({node.state for node in self.members()}) == 1
