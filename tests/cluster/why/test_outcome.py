"""What became of a step."""

from __future__ import annotations

from typing import Any

import pytest
from why_run_facts import NOW_MS, causes, refused, run, step

from raftflow.cluster.why.outcome import link_of_result, links_of_failure
from raftflow.engine.state import RunStatus, Step, StepStatus


def failed(error_type: str, **more: Any) -> Step:
    return step(
        status=StepStatus.FAILED,
        error="it broke",
        error_type=error_type,
        attempts=3,
        resolved_ms=NOW_MS - 1_000,
        resolved_event_id=7,
        **more,
    )


@pytest.mark.parametrize(
    ("status", "said"),
    [(StepStatus.COMPLETED, "completed"), (StepStatus.CANCELLED, "was cancelled")],
)
def test_a_step_that_is_over(status: StepStatus, said: str) -> None:
    link = link_of_result(step(status=status, resolved_ms=NOW_MS - 1_000), NOW_MS)
    assert link.says.startswith(f"Activity 'charge' (step 1) {said} ")
    assert (link.cause, link.severity) == ("step_done", "ok")


@pytest.mark.parametrize(
    ("error_type", "chain"),
    [
        ("Declined", ["step_failed"]),
        ("LeaseExpired", ["step_failed", "lease_expired"]),
        ("StartToCloseTimeout", ["step_failed", "step_timed_out"]),
        ("ScheduleToStartTimeout", ["step_failed", "step_timed_out"]),
    ],
)
def test_a_step_that_failed(error_type: str, chain: list[str]) -> None:
    each = failed(error_type)
    at = {"worker": "w1", "node": "n2"}
    links = links_of_failure(run(each), each, NOW_MS, failed_at=at, refused=())
    assert causes(links) == chain
    assert links[0].evidence["worker"] == "w1"
    assert "after 3 attempts on 'w1'" in links[0].says
    assert links[-1].next


def test_the_result_that_would_have_saved_it() -> None:
    each = failed("LeaseExpired")
    call = refused("CompleteTask", "PAYLOAD_TOO_LARGE", step="charge")
    links = links_of_failure(run(each), each, NOW_MS, failed_at={}, refused=[call])
    assert causes(links) == ["step_failed", "payload_refused"]


@pytest.mark.parametrize("status", [RunStatus.WAITING, RunStatus.FAILED])
def test_only_a_run_that_is_over_is_started_again(status: RunStatus) -> None:
    each = failed("Declined")
    (link,) = links_of_failure(run(each, status=status), each, NOW_MS, failed_at={}, refused=())
    assert ("raftflow workflow start Order" in link.next) == (status is RunStatus.FAILED)
