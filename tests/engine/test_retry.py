from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftflow.engine.retry import (
    MAX_BACKOFF_MS,
    RetryPolicy,
    backoff_ms,
    may_retry,
    policy_problem,
)


@pytest.mark.parametrize(
    ("policy", "waits"),
    [
        (RetryPolicy(), [0, 0, 0]),
        (RetryPolicy(initial_backoff_ms=100), [100, 200, 400, 800]),
        (RetryPolicy(initial_backoff_ms=100, max_backoff_ms=300), [100, 200, 300, 300]),
        (RetryPolicy(initial_backoff_ms=100, backoff_coefficient_milli=1_500), [100, 150, 225]),
        (RetryPolicy(initial_backoff_ms=100, backoff_coefficient_milli=1_000), [100, 100, 100]),
        (RetryPolicy(initial_backoff_ms=500, max_backoff_ms=300), [300, 300]),
    ],
)
def test_waits(policy: RetryPolicy, waits: list[int]) -> None:
    assert [backoff_ms(policy, attempts) for attempts in range(1, len(waits) + 1)] == waits


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1), st.integers(1_000, 2**63 - 1))
def test_waits_stay_in_bounds_and_are_quick(initial: int, cap: int, coefficient: int) -> None:
    policy = RetryPolicy(
        max_attempts=0,
        initial_backoff_ms=initial,
        max_backoff_ms=cap,
        backoff_coefficient_milli=coefficient,
    )
    waits = [backoff_ms(policy, attempts) for attempts in (1, 2, 1_000_000_000)]
    assert waits == sorted(waits)
    assert 0 <= waits[-1] <= MAX_BACKOFF_MS


def test_jitter_makes_waits_longer_or_shorter_by_its_share() -> None:
    plain = RetryPolicy(max_attempts=0, initial_backoff_ms=1_000, max_backoff_ms=8_000)
    policies = [
        dataclasses.replace(plain, jitter_milli=200, jitter_seed=seed) for seed in range(50)
    ]
    for attempts in range(1, 6):
        wait = backoff_ms(plain, attempts)
        waits = [backoff_ms(policy, attempts) for policy in policies]
        assert all(wait * 8 // 10 <= each <= wait * 12 // 10 for each in waits)
        assert len(set(waits)) > 40, "they would all come back at once"
    for_ever = [1_180, 1_604, 3_633, 6_697]
    assert [backoff_ms(policies[7], attempts) for attempts in range(1, 5)] == for_ever


def test_who_tries_again() -> None:
    thrice = RetryPolicy(max_attempts=3, non_retryable_error_types=("Declined",))
    assert may_retry(thrice, attempts=2, error_type="", non_retryable=False)
    assert not may_retry(thrice, attempts=3, error_type="", non_retryable=False)
    assert not may_retry(thrice, attempts=1, error_type="Declined", non_retryable=False)
    assert not may_retry(thrice, attempts=1, error_type="", non_retryable=True)
    for_ever = RetryPolicy(max_attempts=0)
    assert may_retry(for_ever, attempts=10**9, error_type="", non_retryable=False)


@pytest.mark.parametrize(
    "policy",
    [
        RetryPolicy(max_attempts=-1),
        RetryPolicy(initial_backoff_ms=-1),
        RetryPolicy(max_backoff_ms=-1),
        RetryPolicy(backoff_coefficient_milli=999),
        RetryPolicy(jitter_milli=-1),
        RetryPolicy(jitter_milli=1_001),
    ],
)
def test_what_cannot_be_followed(policy: RetryPolicy) -> None:
    assert policy_problem(policy)
    assert policy_problem(RetryPolicy()) is None
