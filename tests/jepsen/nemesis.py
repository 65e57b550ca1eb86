"""What goes wrong: real signals to real processes, from one seed."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter

from dev_cluster import DevCluster, wait_for

KINDS = ("kill-leader", "kill-follower", "pause-leader", "pause-follower", "kill-majority", "all")


class Nemesis:
    """One fault after the other, each healed before the next."""

    def __init__(self, cluster: DevCluster, seed: int, kinds: tuple[str, ...]) -> None:
        self._cluster = cluster
        self._random = random.Random(seed)
        self._kinds = kinds
        self.faults: Counter[str] = Counter()

    def strike(self) -> str:
        kind = self._random.choice(self._kinds)
        leader = self._cluster.leader(timeout=30)
        others = [node_id for node_id in self._cluster.ids() if node_id != leader]
        victims = {
            "kill-leader": [leader],
            "pause-leader": [leader],
            "kill-follower": [self._random.choice(others)],
            "pause-follower": [self._random.choice(others)],
            "kill-majority": [leader, self._random.choice(others)],
            "all": [leader, *others],
        }[kind]
        if kind.startswith("pause"):
            self._pause(victims[0])
        else:
            self._kill(victims)
        self.faults[kind] += 1
        return f"{kind} {','.join(victims)}"

    def rest(self) -> None:
        time.sleep(self._random.uniform(0.2, 3.0))

    def _pause(self, victim: str) -> None:
        self._cluster.signal(victim, signal.SIGSTOP)
        try:
            time.sleep(self._random.uniform(0.3, 6.0))
        finally:
            self._cluster.signal(victim, signal.SIGCONT)

    def _kill(self, victims: list[str]) -> None:
        self._cluster.kill(*victims)
        time.sleep(self._random.uniform(0.0, 3.0))
        for victim in victims:
            self._cluster.start_node(victim)
            wait_for(f"{victim} serves", lambda victim=victim: self._cluster.health(victim))
