"""Wall clocks that are wrong, jump and run to and fro. Log time must not care."""

from __future__ import annotations

import threading

from tests.jepsen.cluster import CLOCKS
from tests.jepsen.nemesis.fault import FELT_S, Fault

HOUR_NS = 3_600_000_000_000


class Clock(Fault):
    needs = frozenset({CLOCKS})
    lasts_s = (5.0, 30.0)
    offset_ns = 0

    def inject(self) -> str:
        # Time is the median of the voters' clocks: a majority that lies together is believed.
        most = self.majority() - 1
        self.victims = [self.anyone()]
        self.victims += self.others(*self.victims)[: self.chance.randint(0, most - 1)]
        self._controls = [self.cluster.controls[node] for node in self.victims]
        self._before = [control.get("clock_reads") for control in self._controls]
        self.move()
        return f"{self.name} on {' '.join(self.victims)}"

    def move(self) -> None:
        for control in self._controls:
            control.set("clock_offset_ns", self.offset_ns)

    def effect(self) -> str:
        def reads() -> list[int]:
            pairs = zip(self._controls, self._before, strict=True)
            return [control.get("clock_reads") - before for control, before in pairs]

        self.eventually(lambda: all(reads()), FELT_S)
        return f"the wrong time was read {reads()} times" if all(reads()) else ""

    def heal(self) -> None:
        for control in self._controls:
            control.set("clock_offset_ns", 0)


class HourAhead(Clock):
    name = "clock-hour-ahead"
    offset_ns = HOUR_NS


class HourBehind(Clock):
    name = "clock-hour-behind"
    offset_ns = -HOUR_NS


class MonthAhead(Clock):
    name = "clock-month-ahead"
    offset_ns = 30 * 24 * HOUR_NS


class Strobe(Clock):
    """To and fro by up to two minutes, many times a second."""

    name = "clock-strobe"

    def move(self) -> None:
        self._over = threading.Event()
        self._strobe = threading.Thread(target=self._run, daemon=True)
        self._strobe.start()

    def _run(self) -> None:
        forth = True
        while not self._over.wait(0.05):
            for control in self._controls:
                offset = self.chance.randrange(HOUR_NS // 30)
                control.set("clock_offset_ns", offset if forth else -offset)
            forth = not forth

    def heal(self) -> None:
        self._over.set()
        self._strobe.join()
        super().heal()


FAULTS = (HourAhead, HourBehind, MonthAhead, Strobe)
