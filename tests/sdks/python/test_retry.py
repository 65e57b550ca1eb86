"""Retry policies on the wire, and the SDK's own pauses."""

from collections.abc import Callable
from datetime import timedelta
from itertools import islice

import pytest
from run_model import RunModel

from raftflow.testing import Environment, takes
from raftflow_sdk import ActivityFailure, Client, Worker
from raftflow_sdk.retry import RetryPolicy, backoffs, to_ms

ADDRESSES = ["http://127.0.0.1:1"]


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
    assert to_ms("wait", 0.29) == 290


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("timer 'x'", lambda ctx, much: ctx.sleep("x", much)),
        ("timer 'x.timeout'", lambda ctx, much: ctx.wait_for_signal("x", "y", timeout=much)),
        (
            "start_to_close_timeout",
            lambda ctx, much: ctx.activity("x", start_to_close_timeout=much),
        ),
        (
            "execution_timeout",
            lambda ctx, much: ctx.continue_as_new(execution_timeout=much),
        ),
        ("initial_backoff", lambda _, much: RetryPolicy(initial_backoff=much)),
        ("max_backoff", lambda _, much: RetryPolicy(max_backoff=much)),
        ("next_retry_delay", lambda _, much: ActivityFailure("x", next_retry_delay=much)),
        ("retry_for", lambda _, much: Client(ADDRESSES, retry_for=much)),
        ("wait", lambda _, much: Client(ADDRESSES).result("x", wait=much)),
        ("execution_timeout", lambda _, much: Client(ADDRESSES).start("x", execution_timeout=much)),
        ("retention", lambda _, much: Client(ADDRESSES).create_namespace("x", retention=much)),
        ("timeout", lambda _, much: Worker(ADDRESSES).stop(much)),
        ("seconds", lambda _, much: Environment().advance(much)),
        ("seconds", lambda _, much: Environment().at(much, print)),
        ("takes", lambda _, much: takes(much)),
    ],
)
def test_a_timedelta_is_refused_with_the_cure(name: str, use: Callable[..., object]) -> None:
    model = RunModel(lambda ctx: use(ctx, timedelta(seconds=1)))
    model.decide()
    said = f"TypeError: {name} takes seconds as a number, not timedelta: use .total_seconds()"
    assert model.events[-1]["error"].startswith(said)


def test_text_is_no_duration() -> None:
    with pytest.raises(TypeError, match=r"^wait takes seconds as a number, not str$"):
        to_ms("wait", "5")  # type: ignore[arg-type]


def test_pauses_double_up_to_the_cap_with_jitter() -> None:
    pauses = list(islice(backoffs(0.1, 0.5), 6))
    for pause, full in zip(pauses, [0.1, 0.2, 0.4, 0.5, 0.5, 0.5], strict=True):
        assert full / 2 <= pause <= full
