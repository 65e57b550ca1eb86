"""Down the run numbers, from the newest on, for as long as a question may take.

What a question costs depends on how many candidates it meets, and nothing knows that beforehand. So
it is put to one window of numbers after another: windows grow where candidates are few, and between
two of them the time is looked at. What takes too long in a wide window is given up, and narrow
ones follow; those are always looked at as a whole, so that whoever goes on from where a walk ended
comes to the end.
"""

from __future__ import annotations

import sqlite3
import time
from typing import Any

from raftflow.cluster.store.filters import Selection

# So many candidates take a few milliseconds, tens of them at worst.
WIDTH = 8_192
_GROWTH = 4
_QUICK_S = 0.004
_WIDE_SHARE = 1 / 2  # of the budget, for one wide window
# A machine that is busy with something else must not make pages short; a disk that is slow may.
_WAITING_COUNTS = 1 / 20
_PROGRESS_STEPS = 10_000


class Walk:
    """From ``high`` down to ``low``. What lies above ``top`` has been looked at."""

    def __init__(
        self, db: sqlite3.Connection, selection: Selection, low: int, high: int, *, budget_s: float
    ) -> None:
        self._db = db
        self._selection = selection
        self._low, self._high = low, high
        self.top = high
        self._budget_s = budget_s
        self._began_s = _spent_s()
        # The text index reads from its end whatever the window is: few windows are best there.
        self._width = max(WIDTH, high - low + 1) if selection.by_text else WIDTH

    @property
    def done(self) -> bool:
        return self.top < self._low

    def numbers(self, most: int) -> list[int]:
        """The next ones, newest first: so many of them, or all that the time was enough for."""
        found: list[int] = []
        while len(found) < most and self._goes_on():
            floor = self._floor()
            question = self._selection.numbers(floor, self.top, most - len(found))
            rows, whole = self._ask(*question)
            found += [number for (number,) in rows]
            if whole and len(found) < most:
                self.top = floor - 1
            elif rows:
                self.top = found[-1] - 1
        return found

    def count(self, most: int) -> int:
        """How many there are, up to a bound."""
        found = 0
        while found < most and self._goes_on():
            floor = self._floor()
            rows, whole = self._ask(*self._selection.count(floor, self.top, most - found))
            if whole:
                found += rows[0][0]
                self.top = floor - 1
        return found

    def by_status(self) -> dict[int, int]:
        """How many there are of each status."""
        found: dict[int, int] = {}
        while self._goes_on():
            floor = self._floor()
            rows, whole = self._ask(*self._selection.by_status(floor, self.top))
            if whole:
                for status, runs in rows:
                    found[status] = found.get(status, 0) + runs
                self.top = floor - 1
        return found

    def _goes_on(self) -> bool:
        if self.done:
            return False
        return self.top == self._high or _spent_s() - self._began_s < self._budget_s

    def _floor(self) -> int:
        return max(self._low, self.top - self._width + 1)

    def _ask(self, sql: str, values: list[Any]) -> tuple[list[tuple[Any, ...]], bool]:
        """The rows, and whether they are all."""
        rows: list[tuple[Any, ...]] = []
        began_s = _spent_s()
        if self._width > WIDTH:
            until_s = began_s + self._budget_s * _WIDE_SHARE
            self._db.set_progress_handler(lambda: _spent_s() > until_s, _PROGRESS_STEPS)
        try:
            rows.extend(self._db.execute(sql, values))  # keeps what came before an interruption
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname != "SQLITE_INTERRUPT":
                raise
            self._width = WIDTH
            return rows, False
        finally:
            self._db.set_progress_handler(None, 0)
        self._width = self._width * _GROWTH if _spent_s() - began_s < _QUICK_S else WIDTH
        return rows, True


def _spent_s() -> float:
    """By this thread, from some moment on."""
    return time.thread_time() + time.monotonic() * _WAITING_COUNTS
