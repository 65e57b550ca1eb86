"""kill -9."""

from __future__ import annotations

import signal

from tests.jepsen.nemesis.fault import Fault


class Kill(Fault):
    lasts_s = (0.0, 5.0)

    def choose(self) -> list[str]:
        raise NotImplementedError

    def inject(self) -> str:
        self.victims = self.choose()
        self.cluster.kill(*self.victims)
        return f"kill -9 {' '.join(self.victims)}"

    def effect(self) -> str:
        dead = [n for n in self.victims if self.cluster.exit_status(n) == -signal.SIGKILL]
        return f"killed {' '.join(dead)}" if dead == self.victims else ""

    def heal(self) -> None:
        self.restart(*self.victims)


class KillLeader(Kill):
    name = "kill-leader"

    def choose(self) -> list[str]:
        return [self.leader()]


class KillFollower(Kill):
    name = "kill-follower"

    def choose(self) -> list[str]:
        return [self.others(self.leader())[0]]


class KillMajority(Kill):
    name = "kill-majority"

    def choose(self) -> list[str]:
        leader = self.leader()
        return [leader, *self.others(leader)[: self.majority() - 1]]


class KillAll(Kill):
    name = "kill-all"

    def choose(self) -> list[str]:
        return list(self.cluster.ids())


FAULTS = (KillLeader, KillFollower, KillMajority, KillAll)
