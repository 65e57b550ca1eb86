"""fsync that fails or crawls, by the shim inside the node."""

from __future__ import annotations

import os

from tests.jepsen.cluster import FSYNC
from tests.jepsen.hosts.shim import DIRECTORIES, FILES
from tests.jepsen.nemesis.fault import FELT_S, Fault, NotNow

NOTICED_S = 20.0
ENDS_S = 10.0


class FsyncFails(Fault):
    """Nothing is acknowledged after it: the process ends with the reason."""

    needs = frozenset({FSYNC})
    lasts_s = (0.0, 3.0)
    ends_nodes = True
    times = 1
    kinds = FILES

    def inject(self) -> str:
        victim = self.anyone()
        self.victims = [victim]
        self._control = self.cluster.controls[victim]
        self._before = self._control.get("failed")
        self._control.fail_fsync(times=self.times, kinds=self.kinds)
        self.provoke()
        return f"fsync of {victim} fails ({self.name})"

    def provoke(self) -> None:
        """Under load files are synced all the time."""

    def failed(self) -> int:
        return int(self._control.get("failed")) - self._before

    def effect(self) -> str:
        victim = self.victims[0]
        if not self.eventually(self.failed, NOTICED_S):
            return ""
        # One that goes on after a failed fsync has not seen the fault for what it is.
        ended = self.eventually(lambda: not self.cluster.alive(victim), ENDS_S)
        status = self.cluster.exit_status(victim)
        if not ended or status != os.EX_SOFTWARE:
            raise AssertionError(
                f"{victim} had {self.failed()} failed fsyncs and should have ended with 70; "
                f"its status is {status}; {self.cluster.last_words(victim)}"
            )
        return f"{self.failed()} failed, {victim} ended with status {status}"

    def heal(self) -> None:
        self._control.set("failures", 0)
        self.restart(*self.victims)


class FsyncOnce(FsyncFails):
    name = "fsync-once"


class FsyncSticky(FsyncFails):
    name = "fsync-sticky"
    times = -1
    kinds = FILES | DIRECTORIES


class FsyncDirectory(FsyncFails):
    """A vote is stored with a rename, so an election syncs a directory."""

    name = "fsync-directory"
    kinds = DIRECTORIES

    def provoke(self) -> None:
        leader = self.leader()
        if leader == self.victims[0]:
            self._control.set("failures", 0)
            raise NotNow("the leader's next directory may be long in coming")
        self.cluster.kill(leader)
        self.victims.append(leader)


class SlowFsync(Fault):
    name = "slow-fsync"
    needs = frozenset({FSYNC})
    lasts_s = (5.0, 25.0)

    def inject(self) -> str:
        leader = self.leader()
        self.victims = self.chance.choice(([leader], self.others(leader)[:1], self.cluster.ids()))
        slow_ms = self.chance.choice((5, 30, 150, 600))
        self._controls = [self.cluster.controls[node] for node in self.victims]
        self._before = sum(control.get("slowed") for control in self._controls)
        for control in self._controls:
            control.set("slow_us", slow_ms * 1_000)
        return f"fsync takes {slow_ms} ms longer on {' '.join(self.victims)}"

    def effect(self) -> str:
        def slowed() -> int:
            return sum(control.get("slowed") for control in self._controls) - self._before

        self.eventually(slowed, FELT_S)
        return f"{slowed()} were slow" if slowed() else ""

    def heal(self) -> None:
        for control in self._controls:
            control.set("slow_us", 0)


FAULTS = (FsyncOnce, FsyncSticky, FsyncDirectory)
SLOW = (SlowFsync,)
