"""Links that are bad and not cut: slow, late, lossy, doubling."""

from __future__ import annotations

from tests.jepsen.cluster import NETWORK
from tests.jepsen.hosts.network import CLIENT
from tests.jepsen.nemesis.fault import FELT_S, Fault


class BadLinks(Fault):
    """Between all nodes, or of one of them; clients' links too in half of the cases."""

    needs = frozenset({NETWORK})
    lasts_s = (5.0, 25.0)
    count = "late"

    def rule(self) -> dict[str, float]:
        raise NotImplementedError

    def inject(self) -> str:
        network = self.cluster.network
        nodes = self.cluster.ids()
        if self.chance.random() < 0.5:
            links, words = network.between(*nodes), "between all nodes"
        else:
            victim = self.anyone()
            links = network.across([victim], self.others(victim))
            words = f"of {victim}"
        if self.chance.random() < 0.5:
            links = links + network.across([CLIENT], nodes)
            words += " and of clients"
        rule = self.rule()
        self._before = network.counts()[self.count]
        network.shape(links, **rule)
        return f"links {words}: {rule}"

    def effect(self) -> str:
        def struck() -> int:
            return int(self.cluster.network.counts()[self.count]) - self._before

        self.eventually(struck, FELT_S)
        return f"{struck()} packets {self.count}" if struck() else ""

    def heal(self) -> None:
        self.cluster.network.heal()


class Delay(BadLinks):
    name = "delay"

    def rule(self) -> dict[str, float]:
        delay = self.chance.choice((5, 20, 60, 120))
        return {"delay_ms": delay, "jitter_ms": delay / 2}


class Loss(BadLinks):
    name = "loss"
    count = "dropped"

    def rule(self) -> dict[str, float]:
        return {"loss": self.chance.choice((0.01, 0.05, 0.15))}


class Duplication(BadLinks):
    name = "duplication"
    count = "doubled"

    def rule(self) -> dict[str, float]:
        return {"duplicate": self.chance.choice((0.1, 0.5)), "jitter_ms": 10}


class SlowNetwork(BadLinks):
    name = "slow-network"

    def rule(self) -> dict[str, float]:
        return {"bytes_per_s": self.chance.choice((60_000, 250_000, 1_000_000)), "delay_ms": 2}


FAULTS = (Delay, Loss, Duplication, SlowNetwork)
