"""The background walk: what counts, how often, and how it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from raftflow.cluster.background import Fatal
from raftflow.cluster.invariant_checks import InvariantChecks, Pace
from raftflow.cluster.metrics import Metrics
from raftflow.cluster.store.audit import REQUESTS, Finding, Place, Slice
from tests.support.eventually import eventually

AT_ONCE = Pace(least_s=0, second_look_s=0, rest_s=0)
LOST = Finding("wakeup", "default", "w1", "r1", "open, and nothing will ever wake it")
STRAY = Finding("rows", "", "", "", "events has row 1 of run number 9, which is not there")


class Rows:
    """A store of two slices; each look at the first takes the next answer, the last for ever."""

    def __init__(self, *answers: Sequence[Finding]) -> None:
        self.answers = [tuple(each) for each in answers]
        self.looks = 0

    async def audit(self, place: Place) -> Slice:
        await asyncio.sleep(0)
        if place.stage == REQUESTS:
            return Slice(7, 3, (), None)
        self.looks += 1
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return Slice(7, 10, found, Place(REQUESTS))


def checks(rows: Rows, fatal: Fatal | None = None) -> InvariantChecks:
    def never(error: BaseException) -> None:
        raise error

    return InvariantChecks(
        store=rows,
        metrics=Metrics(),
        fatal=fatal or never,  # type: ignore[arg-type]
        pace=AT_ONCE,
    )


def counted(watch: InvariantChecks, invariant: str) -> float:
    value = watch._metrics.registry.get_sample_value(
        "workflowd_invariant_violations_total", {"invariant": invariant}
    )
    return value or 0.0


async def test_a_violation_counts_once_however_many_walks_find_it() -> None:
    watch = checks(Rows([LOST, STRAY]))
    for _ in range(3):
        await watch.walk()
    assert watch.violations == [LOST, STRAY]
    assert (watch.violated("wakeup"), watch.violated("timers")) == (1, 0)
    assert counted(watch, "wakeup") == counted(watch, "rows") == 1
    report = watch.report()
    assert (report["checked"], report["walks"], report["violated"]) == (39, 3, 2)
    assert report["violations"][0]["run_id"] == "r1"
    assert report["applied_index"] == 7


async def test_what_a_second_look_does_not_find_does_not_count() -> None:
    watch = checks(Rows([LOST], []))
    await watch.walk()
    assert watch.violations == []
    assert counted(watch, "wakeup") == 0


async def test_a_violation_that_is_gone_is_told_no_more_and_counts_again() -> None:
    watch = checks(Rows([LOST], [LOST], [], [LOST], [LOST]))
    await watch.walk()
    assert watch.violations == [LOST]
    await watch.walk()
    assert watch.violations == []
    await watch.walk()
    assert watch.violations == [LOST]
    assert counted(watch, "wakeup") == 2


async def test_what_apply_saw_counts_once_with_what_the_walk_finds() -> None:
    watch = checks(Rows([LOST]))
    watch.tell(LOST)
    watch.tell(LOST)
    await watch.walk()
    assert counted(watch, "wakeup") == 1


async def test_it_walks_for_ever_and_an_error_of_the_store_ends_the_node() -> None:
    class Broken(Rows):
        async def audit(self, place: Place) -> Slice:
            if self.looks == 4:
                raise OSError("gone")
            return await super().audit(place)

    heard: list[BaseException] = []
    watch = checks(Broken([]), fatal=heard.append)  # type: ignore[arg-type]
    watch.start()
    await eventually(lambda: bool(heard))
    assert watch.walks == 3
    await watch.stop()
