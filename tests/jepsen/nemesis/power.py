"""Power loss: what was not synced is gone."""

from __future__ import annotations

from tests.jepsen.cluster import DISK
from tests.jepsen.nemesis.fault import Fault


class PowerLoss(Fault):
    needs = frozenset({DISK})
    lasts_s = (0.0, 4.0)

    def choose(self) -> list[str]:
        raise NotImplementedError

    def inject(self) -> str:
        self.victims = self.choose()
        self.cluster.cut_power(*self.victims)
        self._lost = self.cluster.restore_power(*self.victims)
        return f"power loss of {' '.join(self.victims)}"

    def effect(self) -> str:
        if self._lost != self.victims:
            return ""
        return f"what was not synced is gone on {' '.join(self._lost)}"

    def heal(self) -> None:
        self.restart(*self.victims)


class PowerLossOfOne(PowerLoss):
    name = "power-loss"

    def choose(self) -> list[str]:
        return [self.anyone()]


class PowerLossOfAll(PowerLoss):
    name = "power-loss-all"

    def choose(self) -> list[str]:
        return list(self.cluster.ids())


FAULTS = (PowerLossOfOne, PowerLossOfAll)
