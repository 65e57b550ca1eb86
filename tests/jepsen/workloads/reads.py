"""Counters, each with one writer and readers on all nodes: a node that was paused or cut off must
not answer from the past."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.jepsen import api
from tests.jepsen.checker.reads import check_reads
from tests.jepsen.checker.verdict import Verdict, substance
from tests.jepsen.context import Run
from tests.jepsen.history import Op
from tests.jepsen.workloads.base import Base, loop

TYPE = "JepsenReads"
READERS = 4
WRITES_PER_SECOND = 2.0
READS_PER_SECOND = 4.0
# A run whose counter reached this gives its place to another.
HIGHEST = 200
# A frozen node answers when it wakes up; a reader that waits for it sees what it says then.
DEADLINE_S = 5.0


@dataclass
class Reads(Base):
    name: str = "reads"
    types: tuple[str, ...] = (TYPE,)
    _key: str = ""

    def threads(self, run: Run) -> list[Callable[[], None]]:
        return [self._writer(run), *(self._reader(run, number) for number in range(READERS))]

    def _writer(self, run: Run) -> Callable[[], None]:
        client = self.client(run, "writer")
        number = generation = 0

        def turn() -> None:
            nonlocal number, generation
            if not self._key or number >= HIGHEST:
                generation += 1
                key = f"{self.name}/{run.seed}/{generation}"
                request = api.start(self.types[0], key, queue=self.queue, request_id=f"start-{key}")
                if client.call("begin", request, key=key).ok:
                    self._key, number = key, 0
                return
            number += 1
            request = api.signal(
                self._key, "count", str(number), request_id=f"{self._key}/{number}"
            )
            # The next number is written only when this one is known to be there.
            while not run.stopping.is_set():
                if client.call("write", request, key=self._key, value=number).ok:
                    break
                client.pause()
            self.pace(run, client, WRITES_PER_SECOND)

        return loop(run, turn)

    def _reader(self, run: Run, number: int) -> Callable[[], None]:
        client = self.client(run, f"reader{number}")

        def turn() -> None:
            if self._key:
                client.call(
                    "read",
                    api.describe(self._key),
                    key=self._key,
                    keep=_newest,
                    deadline_s=DEADLINE_S,
                )
            self.pace(run, client, READS_PER_SECOND)

        return loop(run, turn)

    def check(self, history: Sequence[Op]) -> Verdict:
        made = self.mine(history)
        return self.with_manners(
            history, check_reads(made), substance(made, {"read": 40, "write": 10})
        )


def _newest(body: dict[str, Any]) -> int:
    return int(body["signals"][-1][1]) if body["signals"] else 0
