"""Retry policies on the wire, and the SDK's own pauses."""

from itertools import islice

import pytest

from raftflow_sdk.retry import RetryPolicy, backoffs, to_ms


def test_a_policy_is_milliseconds_on_the_wire() -> None:
    policy = RetryPolicy(max_attempts=3, initial_backoff=0.2, max_backoff=5)
    assert policy.to_wire() == {
        "max_attempts": 3,
        "initial_backoff_ms": 200,
        "max_backoff_ms": 5000,
    }


def test_non_retryable_types_are_sent_when_given() -> None:
    wire = RetryPolicy(non_retryable_error_types=("Declined",)).to_wire()
    assert wire["non_retryable_error_types"] == ["Declined"]


def test_the_shape_of_the_backoff_is_sent_when_it_is_not_the_usual_one() -> None:
    wire = RetryPolicy(max_attempts=0, backoff_coefficient=1.5, jitter=0.2).to_wire()
    assert (wire["max_attempts"], wire["backoff_coefficient"], wire["jitter"]) == (0, 1.5, 0.2)


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_attempts": -1},
        {"initial_backoff": -1},
        {"max_backoff": -1},
        {"backoff_coefficient": 0.5},
        {"jitter": 1.5},
    ],
)
def test_a_senseless_policy_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError):
        RetryPolicy(**wrong)  # type: ignore[arg-type]


def test_seconds_are_rounded_not_cut() -> None:
    assert to_ms(0.29) == 290


def test_pauses_double_up_to_the_cap_with_jitter() -> None:
    pauses = list(islice(backoffs(0.1, 0.5), 6))
    for pause, full in zip(pauses, [0.1, 0.2, 0.4, 0.5, 0.5, 0.5], strict=True):
        assert full / 2 <= pause <= full
