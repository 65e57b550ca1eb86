"""Walking down the run numbers in a bounded time."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import pytest
from populate import apply, populate, terminate
from replica_rig import Rig

from raftflow.cluster.store import RunFilter, filters, walk
from raftflow.cluster.store.filters import select
from raftflow.cluster.store.walk import Walk
from raftflow.engine.state import RunStatus

Make = Callable[..., Walk]
AMPLE_S = 60.0


@pytest.fixture
async def walks(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Twenty runs, numbered 1 to 20; every fifth is TERMINATED. Windows of four."""
    monkeypatch.setattr(walk, "WIDTH", 4)
    await populate(rig, [f"order-{n}" for n in range(1, 21)])
    await apply(rig, *[terminate(f"order-{n}") for n in range(5, 21, 5)])
    await rig.store.checkpoint()
    db = sqlite3.connect(rig.store.path)

    def make(budget_s: float = AMPLE_S, high: int = 20, **wanted: object) -> Walk:
        found = select(db, RunFilter(namespace="default", **wanted))  # type: ignore[arg-type]
        return Walk(db, found, 1, high, budget_s=budget_s)

    return make


def test_the_next_numbers_newest_first(walks: Make) -> None:
    down = walks()
    assert down.numbers(3) == [20, 19, 18]
    assert down.top == 17
    assert down.numbers(5) == [17, 16, 15, 14, 13]
    assert down.numbers(100) == list(range(12, 0, -1))
    assert down.done
    assert down.numbers(1) == []


def test_a_walk_ends_with_its_time_and_says_where(walks: Make) -> None:
    down = walks(0.0, query="none")
    assert down.numbers(1) == []
    assert (down.top, down.done) == (16, False), "one window is always looked at"
    again = walks(0.0, high=down.top, query="5")
    assert again.numbers(9) == [15]
    assert again.top == 12


def test_counting_ends_at_a_bound_or_with_its_time(walks: Make) -> None:
    ended = (RunStatus.TERMINATED,)
    assert walks(statuses=ended).count(100) == 4
    assert walks(statuses=ended).count(3) == 3
    short = walks(0.0, statuses=ended)
    assert (short.count(100), short.done) == (1, False)
    assert walks().by_status() == {2: 16, 5: 4}
    short = walks(0.0)
    assert (short.by_status(), short.done) == ({2: 3, 5: 1}, False)


def test_windows_grow_where_little_is_found(walks: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "_QUICK_S", AMPLE_S)
    windows = asked(walks, monkeypatch, query="none")
    assert windows == [(17, 20), (1, 16)]
    monkeypatch.setattr(walk, "_QUICK_S", 0.0)
    windows = asked(walks, monkeypatch, query="none")
    assert windows == [(17, 20), (13, 16), (9, 12), (5, 8), (1, 4)]


def test_a_wide_window_that_takes_too_long_is_given_up_for_narrow_ones(
    walks: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "_QUICK_S", AMPLE_S)
    monkeypatch.setattr(walk, "_PROGRESS_STEPS", 1)
    monkeypatch.setattr(walk, "_WIDE_SHARE", 0.0)
    windows = asked(walks, monkeypatch, query="none")
    assert windows[:4] == [(17, 20), (1, 16), (13, 16), (1, 12)]
    monkeypatch.setattr(filters, "EXACT_TOTAL", 0)
    windows = asked(walks, monkeypatch, query="order")
    assert windows[:2] == [(1, 20), (17, 20)], "the text index begins with all of it"
    assert walks(query="order").count(100) == 20
    assert walks(query="order").by_status() == {2: 16, 5: 4}


def asked(walks: Make, monkeypatch: pytest.MonkeyPatch, **wanted: object) -> list[tuple[int, int]]:
    """The windows of a walk that finds what it looks for, if it is there."""
    windows: list[tuple[int, int]] = []
    down = walks(**wanted)
    selection = down._selection

    class Spy:
        by_text = selection.by_text

        def numbers(self, low: int, high: int, most: int) -> tuple[str, list[object]]:
            windows.append((low, high))
            return selection.numbers(low, high, most)

    monkeypatch.setattr(down, "_selection", Spy())
    down.numbers(100)
    assert down.done
    return windows
