"""Who cannot reach whom. Links of clients stay whole: they are to see both sides."""

from __future__ import annotations

import threading

from tests.jepsen.cluster import NETWORK
from tests.jepsen.hosts.network import Links
from tests.jepsen.nemesis.fault import FELT_S, Fault


class Partition(Fault):
    needs = frozenset({NETWORK})
    lasts_s = (2.0, 20.0)
    dropped_before = 0

    def choose(self) -> tuple[str, list[tuple[str, str]]]:
        """Words, and the directions that are cut."""
        raise NotImplementedError

    def inject(self) -> str:
        words, links = self.choose()
        self.dropped_before = self.cluster.network.counts()["dropped"]
        self.cut(links)
        return words

    def cut(self, links: Links) -> None:
        self.cluster.network.cut(links)

    def dropped(self) -> int:
        return int(self.cluster.network.counts()["dropped"]) - self.dropped_before

    def effect(self) -> str:
        # Heartbeats alone fill every link that is used at all.
        self.eventually(self.dropped, FELT_S)
        return f"{self.dropped()} packets were dropped" if self.dropped() else ""

    def heal(self) -> None:
        self.cluster.network.heal()


class Halves(Partition):
    name = "partition-halves"

    def choose(self) -> tuple[str, list[tuple[str, str]]]:
        nodes = self.others()
        cut = self.majority()
        one, other = nodes[:cut], nodes[cut:]
        words = f"{' '.join(one)} | {' '.join(other)}"
        return words, self.cluster.network.across(one, other)


class IsolatedLeader(Partition):
    name = "partition-leader"

    def choose(self) -> tuple[str, list[tuple[str, str]]]:
        leader = self.leader()
        return f"{leader} alone", self.cluster.network.across([leader], self.others(leader))


class Bridge(Partition):
    """One node reaches both sides, which do not reach each other."""

    name = "partition-bridge"

    def choose(self) -> tuple[str, list[tuple[str, str]]]:
        leader = self.leader()
        bridge, *rest = self.others(leader)
        if self.chance.random() < 0.25:
            bridge, leader = leader, bridge
        rest.insert(self.chance.randrange(len(rest) + 1), leader)
        one, other = rest[: len(rest) // 2], rest[len(rest) // 2 :]
        words = f"{' '.join(one)} | {bridge} | {' '.join(other)}"
        return words, self.cluster.network.across(one, other)


class Ring(Partition):
    """Each sees its two neighbours: every node sees a majority of five, no two the same one."""

    name = "partition-ring"

    def choose(self) -> tuple[str, list[tuple[str, str]]]:
        ring = self.others()
        size = len(ring)
        links = [
            (ring[i], ring[j])
            for i in range(size)
            for j in range(size)
            if i != j and (i - j) % size not in (1, size - 1)
        ]
        if not links:
            # Of three nodes each is everybody's neighbour: a line is what is left of the ring.
            links = self.cluster.network.across([ring[0]], [ring[-1]])
        return f"ring {' '.join(ring)}", links


class OneWay(Partition):
    """Packets go in one direction only, between the leader and some of the others."""

    name = "partition-one-way"

    def choose(self) -> tuple[str, list[tuple[str, str]]]:
        leader = self.leader()
        others = self.others(leader)
        some = others[: self.chance.randint(1, len(others))]
        if self.chance.random() < 0.5:
            return f"{leader} does not reach {' '.join(some)}", [(leader, n) for n in some]
        return f"{' '.join(some)} do not reach {leader}", [(n, leader) for n in some]


class DeafLeader(Partition):
    """The leader's heartbeats arrive, and it hears nobody: the case for which a leader without
    contact to a majority has to step down."""

    name = "partition-deaf-leader"

    def choose(self) -> tuple[str, list[tuple[str, str]]]:
        leader = self.leader()
        return f"{leader} sends and hears nobody", [(n, leader) for n in self.others(leader)]


class Flapping(Partition):
    """A link that goes and comes every few hundred milliseconds."""

    name = "partition-flapping"
    lasts_s = (4.0, 20.0)

    def choose(self) -> tuple[str, list[tuple[str, str]]]:
        leader = self.leader()
        cut = self.majority()
        side = [leader] if self.chance.random() < 0.5 else self.others(leader)[: cut - 1]
        words = f"{' '.join(side)} flapping"
        return words, self.cluster.network.across(side, self.others(*side))

    def cut(self, links: Links) -> None:
        self._over = threading.Event()
        period = self.chance.uniform(0.15, 1.5)
        self._flaps = threading.Thread(target=self._flap, args=(links, period), daemon=True)
        self._flaps.start()

    def _flap(self, links: Links, period: float) -> None:
        while not self._over.is_set():
            self.cluster.network.cut(links)
            self._over.wait(period)
            self.cluster.network.shape(links)
            self._over.wait(period)

    def heal(self) -> None:
        self._over.set()
        self._flaps.join()
        super().heal()


FAULTS = (Halves, IsolatedLeader, Bridge, Ring, OneWay, DeafLeader, Flapping)
