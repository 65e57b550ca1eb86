"""Quantiles of what happened lately."""

from __future__ import annotations

import random

import pytest

from raftflow.cluster.durations import Durations, Tally


class Clock:
    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def rig() -> tuple[Durations, Clock]:
    clock = Clock()
    return Durations(slice_s=5, slices=12, clock=clock), clock


def test_nothing_happened() -> None:
    durations, _ = rig()
    assert durations.quantile_ms(0.5) is None
    assert Tally().take(0.5, 0.99) == [None, None]


@pytest.mark.parametrize("value", [0.02, 0.37, 4.0, 250.0, 60_000.0])
def test_a_value_is_told_to_within_five_per_cent(value: float) -> None:
    durations, _ = rig()
    durations.note(value)
    assert durations.quantile_ms(0.5) == pytest.approx(value, rel=0.05)


def test_what_is_very_short_is_no_error() -> None:
    durations, _ = rig()
    durations.note(0.0)
    assert durations.quantile_ms(0.99) == 0.01


def test_quantiles_are_those_of_all_values() -> None:
    durations, _ = rig()
    values = [random.Random(1).lognormvariate(0, 1.5) for _ in range(2_000)]
    for value in values:
        durations.note(value)
    tally = Tally()
    for value in values:
        tally.note(value)
    half, most = tally.take(0.5, 0.99)
    assert half == durations.quantile_ms(0.5) == pytest.approx(sorted(values)[999], rel=0.1)
    assert most == durations.quantile_ms(0.99) == pytest.approx(sorted(values)[1979], rel=0.1)
    assert tally.take(0.5) == [None]


def test_only_the_last_slices_count() -> None:
    durations, clock = rig()
    durations.note(100.0)
    clock.now_s += 30
    durations.note(1.0)
    assert durations.quantile_ms(1.0) == pytest.approx(100.0, rel=0.05)
    clock.now_s += 30
    assert durations.quantile_ms(1.0) == pytest.approx(1.0, rel=0.05)
    clock.now_s += 60
    assert durations.quantile_ms(1.0) is None
