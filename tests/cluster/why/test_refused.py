"""What a refusal means, and what makes room."""

import pytest
from why_run_facts import NOW_MS, refused

from raftflow.cluster.why.refused import REASONS, link_of_refused, newest


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("PAYLOAD_TOO_LARGE", "payload_refused"),
        ("BODY_TOO_LARGE", "payload_refused"),
        ("LIMIT_EXCEEDED", "payload_refused"),
        ("RATE_LIMITED", "rate_limited"),
        ("TOO_MANY_POLLS", "rate_limited"),
        ("QUOTA_EXCEEDED", "quota_exceeded"),
        ("OVERLOADED", "back_pressure"),
        ("FEATURE_UNAVAILABLE", "version_gate"),
        ("LEASE_LOST", "result_late"),
        ("PERMISSION_DENIED", "call_refused"),
    ],
)
def test_each_reason_has_its_cause(reason: str, cause: str) -> None:
    assert link_of_refused(refused("StartWorkflow", reason), NOW_MS).cause == cause


@pytest.mark.parametrize("reason", sorted(REASONS))
def test_each_says_what_to_do(reason: str) -> None:
    link = link_of_refused(refused("StartWorkflow", reason, message="too much"), NOW_MS)
    assert link.next
    assert link.says.startswith("StartWorkflow of 'order-1' was refused by n2 ")
    assert link.says.endswith("(1 s ago): too much.")


def test_the_setting_that_bounds_it_is_named() -> None:
    call = refused("StartWorkflow", "RATE_LIMITED", limit="limits.token_calls_per_second", value=5)
    link = link_of_refused(call, NOW_MS)
    assert "(limits.token_calls_per_second of their configuration)" in link.next
    assert link.evidence["value"] == 5


def test_a_quota_is_doubled() -> None:
    call = refused("StartWorkflow", "QUOTA_EXCEEDED", limit="max_open_runs", value=7)
    assert "`raftflow namespace quota default --max-open-runs 14`" in (
        link_of_refused(call, NOW_MS).next
    )


def test_what_came_often_says_so() -> None:
    assert "12 times, last" in link_of_refused(refused("PollTask", "OVERLOADED", times=12), 0).says


def test_the_newest_of_an_operation() -> None:
    calls = [refused("PollTask", "RATE_LIMITED"), refused("StartWorkflow", "OVERLOADED")]
    assert newest(calls, "StartWorkflow") is calls[1]
    assert newest(calls, "Heartbeat") is None
