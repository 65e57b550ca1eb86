"""Workers that freeze or crawl: their leases run out, and what they do then comes too late."""

from __future__ import annotations

import signal
import subprocess
import threading

from tests.jepsen.hosts.processes import state_of
from tests.jepsen.nemesis.fault import Fault, NotNow
from tests.jepsen.nemesis.pauses import STOPPED


class WorkerFault(Fault):
    lasts_s = (3.0, 25.0)

    def choose(self) -> list[subprocess.Popen[bytes]]:
        living = [worker for worker in self.run.workers if worker.poll() is None]
        if not living:
            raise NotNow("these workloads have no worker processes")
        return self.chance.sample(living, self.chance.randint(1, len(living)))


class WorkersFreeze(WorkerFault):
    name = "workers-freeze"

    def inject(self) -> str:
        self._frozen = self.choose()
        for worker in self._frozen:
            worker.send_signal(signal.SIGSTOP)
        return f"SIGSTOP of {len(self._frozen)} workers"

    def effect(self) -> str:
        stopped = sum(state_of(worker.pid) == STOPPED for worker in self._frozen)
        return f"{stopped} stood still" if stopped == len(self._frozen) else ""

    def heal(self) -> None:
        for worker in self._frozen:
            worker.send_signal(signal.SIGCONT)


class WorkersSlow(WorkerFault):
    """Stopped for most of every second."""

    name = "workers-slow"
    stops = 0

    def inject(self) -> str:
        self._slow = self.choose()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._slow_down, daemon=True)
        self._thread.start()
        return f"{len(self._slow)} workers run a fifth of the time"

    def _slow_down(self) -> None:
        while not self._over.is_set():
            for number, seconds in ((signal.SIGSTOP, 0.8), (signal.SIGCONT, 0.2)):
                for worker in self._slow:
                    worker.send_signal(number)
                self.stops += number == signal.SIGSTOP
                self._over.wait(seconds)

    def effect(self) -> str:
        return f"stopped {self.stops} times" if self.stops else ""

    def heal(self) -> None:
        self._over.set()
        self._thread.join()
        for worker in self._slow:
            worker.send_signal(signal.SIGCONT)


FAULTS = (WorkersFreeze, WorkersSlow)
