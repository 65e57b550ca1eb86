"""Every node is stopped in order and started again, one after the other."""

from __future__ import annotations

from tests.jepsen.cluster import OLD_RELEASE
from tests.jepsen.nemesis.fault import Fault, NotNow


class RollingRestart(Fault):
    name = "rolling-restart"
    lasts_s = (0.0, 1.0)

    def inject(self) -> str:
        self.victims = self.others()
        self._statuses = []
        for node in self.victims:
            if not self.cluster.alive(node):
                continue
            self._statuses.append(self.cluster.stop(node))
            self.restart(node)
        return f"restarted {' '.join(self.victims)}"

    def effect(self) -> str:
        if any(self._statuses):
            raise AssertionError(f"SIGTERM ended nodes with {self._statuses}, not all with 0")
        return f"{len(self._statuses)} nodes ended with status 0" if self._statuses else ""

    def heal(self) -> None:
        self.restart(*self.victims)


class RollingUpgrade(RollingRestart):
    """From the release that the run began with to this tree; once in a run."""

    name = "rolling-upgrade"
    needs = frozenset({OLD_RELEASE})

    def inject(self) -> str:
        if not self.cluster.releases:
            raise NotNow("every node runs this tree")
        self.victims = self.others()
        self._before = self._versions()
        self._statuses = []
        for node in self.victims:
            if self.cluster.alive(node):
                self._statuses.append(self.cluster.stop(node))
            self.cluster.releases.pop(node, None)
            self.restart(node)
            self.run.rest(self.chance.uniform(0.5, 3.0))
        return f"upgraded {' '.join(self.victims)}"

    def effect(self) -> str:
        after = self._versions()
        if not super().effect() or self._before == after:
            return ""
        return f"from {' '.join(self._before)} to {' '.join(after)}"

    def _versions(self) -> list[str]:
        told = [self.cluster.health(node) or {} for node in self.cluster.ids()]
        return sorted({str(health.get("version", "-")) for health in told})


FAULTS = (RollingRestart, RollingUpgrade)
