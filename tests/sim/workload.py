"""Clients: writes that go to whoever seems to lead, reads that go to anyone."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from raftflow.cluster.consensus.types import NotLeader, Role
from tests.sim.options import PAYLOADS

if TYPE_CHECKING:
    from tests.sim.node import SimNode
    from tests.sim.world import World


class Workload:
    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = random.Random(f"clients of {world.seed}")
        self._bytes, self._large, self._large_share = PAYLOADS[world.options.payloads]
        self._number = 0
        self.stopped = False
        world.clock.after(0.5, self._write)
        world.clock.after(0.5, self._read)

    def _write(self) -> None:
        if self.stopped:
            return
        world, rng = self._world, self._rng
        for node in world.running() if world.works else ():
            # Every node that believes to lead gets its clients: that is how a deposed one is tried.
            if node.core.role is Role.LEADER:
                for _ in range(rng.choice((1, 1, 1, 2, 5))):
                    self.write(node)
        world.clock.after(rng.uniform(0.002, 0.05), self._write)

    def write(self, node: SimNode) -> None:
        self._number += 1
        rng = self._rng
        large = rng.random() < self._large_share
        size = rng.randrange(self._large // 2, self._large) if large else rng.randrange(self._bytes)
        payload = bytes([rng.randrange(256)]) + b"%d" % self._number + bytes(size)

        def propose() -> None:
            try:
                node.propose(payload)
            except NotLeader:
                self._world.stats["refused"] += 1
            else:
                self._world.stats["proposed"] += 1

        node.do(propose)

    def _read(self) -> None:
        if self.stopped:
            return
        nodes = self._world.running()
        if nodes and self._world.works:
            self.read(self._rng.choice(nodes))
        self._world.clock.after(self._rng.uniform(0.01, 0.1), self._read)

    def read(self, node: SimNode, told: Callable[[bool], None] = lambda _answered: None) -> None:
        checks, stats = self._world.checks, self._world.stats
        floor = checks.acked_index

        def done(index: int | None) -> None:
            if index is None:
                stats["reads failed"] += 1
            else:
                checks.on_read(node, floor, index)
            told(index is not None)

        def ask() -> None:
            node.core.read_index(done)
            node.core.tick()

        node.do(ask)
