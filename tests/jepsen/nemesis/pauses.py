"""SIGSTOP: half a second to three quarters of a minute."""

from __future__ import annotations

from tests.jepsen.hosts.processes import state_of
from tests.jepsen.nemesis.fault import Fault

STOPPED = "T"


class Pause(Fault):
    lasts_s = (0.5, 45.0)

    def choose(self) -> list[str]:
        raise NotImplementedError

    def inject(self) -> str:
        self.victims = self.choose()
        self.cluster.pause(*self.victims)
        return f"SIGSTOP {' '.join(self.victims)}"

    def effect(self) -> str:
        frozen = [n for n in self.victims if state_of(self.cluster.pid(n)) == STOPPED]
        return f"stopped {' '.join(frozen)}" if frozen == self.victims else ""

    def heal(self) -> None:
        self.cluster.resume(*self.victims)


class PauseLeader(Pause):
    name = "pause-leader"

    def choose(self) -> list[str]:
        return [self.leader()]


class PauseFollower(Pause):
    name = "pause-follower"

    def choose(self) -> list[str]:
        return [self.others(self.leader())[0]]


class PauseMajority(Pause):
    name = "pause-majority"
    lasts_s = (0.5, 12.0)

    def choose(self) -> list[str]:
        leader = self.leader()
        return [leader, *self.others(leader)[: self.majority() - 1]]


FAULTS = (PauseLeader, PauseFollower, PauseMajority)
