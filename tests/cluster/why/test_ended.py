"""How a run ended, and why it failed."""

from __future__ import annotations

from typing import Any

import pytest
from why_run_facts import NOW_MS, causes, run, run_facts, step

from raftflow.cluster.why.ended import failing_step
from raftflow.cluster.why.model import one_thing_to_do
from raftflow.cluster.why.run import links_of_run
from raftflow.engine.state import Run, RunStatus, Step, StepKind, StepStatus


def ended(status: RunStatus, *steps: Step, **more: Any) -> Run:
    return run(*steps, status=status, closed_ms=NOW_MS - 1_000, **more)


def failed(name: str, event: int, error: str, error_type: str = "", **more: Any) -> Step:
    return step(
        name,
        **{
            "status": StepStatus.FAILED,
            "error": error,
            "error_type": error_type,
            "resolved_event_id": event,
            **more,
        },
    )


@pytest.mark.parametrize(
    ("status", "cause", "severity", "acts"),
    [
        (RunStatus.COMPLETED, "completed", "ok", False),
        (RunStatus.TERMINATED, "terminated", "ok", False),
        (RunStatus.CANCELLED, "cancelled", "ok", False),
        (RunStatus.TIMED_OUT, "timed_out", "problem", True),
        (RunStatus.FAILED, "failed", "problem", True),
        (RunStatus.CONTINUED_AS_NEW, "continued", "ok", True),
    ],
)
def test_each_end(status: RunStatus, cause: str, severity: str, acts: bool) -> None:
    (link,) = links_of_run(run_facts(ended(status, error="so it was", continued_to_run_id="r2")))
    assert (link.cause, link.severity, bool(link.next)) == (cause, severity, acts)
    assert "59 s after its start" in link.says


@pytest.mark.parametrize(
    ("error", "error_type", "found"),
    [
        ("activity 'b' failed: no stock", "", "b"),
        ("activity 'a' failed: declined", "", "a"),
        ("something else", "Declined", "a"),
        ("something else", "", None),
        ("ValueError: 7", "ValueError", None),
    ],
)
def test_the_step_whose_failure_the_error_tells(
    error: str, error_type: str, found: str | None
) -> None:
    over = ended(
        RunStatus.FAILED,
        failed("a", 5, "declined", "Declined"),
        failed("b", 9, "no stock", sequence=2),
        step("c", 3, status=StepStatus.COMPLETED),
        error=error,
        error_type=error_type,
    )
    blamed = failing_step(over)
    assert (blamed and blamed.name) == found


def test_the_chain_ends_with_the_step() -> None:
    blamed = failed("charge", 5, "declined")
    over = ended(RunStatus.FAILED, blamed, error="declined")
    assert causes(links_of_run(run_facts(over, step=blamed))) == ["failed", "step_failed"]


def test_the_chain_goes_on_in_the_child_that_failed() -> None:
    blamed = failed("ship", 5, "no lorry", kind=StepKind.CHILD)
    over = ended(RunStatus.FAILED, blamed, error="no lorry")
    inner = run_facts(ended(RunStatus.FAILED, error="no lorry"))
    links = links_of_run(run_facts(over, step=blamed, child=inner))
    assert causes(links) == ["failed", "step_failed", "failed"]
    assert "workflow start Order" in one_thing_to_do(links)[1].next


def test_a_child_alone_is_its_parents_to_start_again() -> None:
    over = ended(RunStatus.FAILED, error="no lorry", parent_workflow_id="order-0")
    (link,) = links_of_run(run_facts(over))
    assert link.next.endswith("`raftflow why run order-0`")


def test_code_that_could_not_be_replayed() -> None:
    over = ended(RunStatus.FAILED, error="caught its suspension", error_type="ReplayError")
    assert causes(links_of_run(run_facts(over))) == ["failed", "replay_error"]
