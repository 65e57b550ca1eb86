"""A full disk, with room again later."""

from __future__ import annotations

from tests.jepsen.cluster import DISK
from tests.jepsen.nemesis.fault import Fault

NOTICED_S = 20.0


class DiskFull(Fault):
    """The node must end with its reason; whoever makes room may start it again."""

    name = "disk-full"
    needs = frozenset({DISK})
    lasts_s = (1.0, 5.0)
    ends_nodes = True

    def inject(self) -> str:
        victim = self.anyone()
        self.victims = [victim]
        free = self.cluster.disks[victim].fill()
        return f"disk of {victim} full ({free >> 20} MiB were free)"

    def effect(self) -> str:
        victim = self.victims[0]
        if self.eventually(lambda: not self.cluster.alive(victim), NOTICED_S):
            return f"{victim} ended with status {self.cluster.exit_status(victim)}"
        return ""

    def heal(self) -> None:
        self.cluster.disks[self.victims[0]].free()
        self.restart(*self.victims)


FAULTS = (DiskFull,)
