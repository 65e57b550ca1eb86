"""One step of a run, as it was asked for."""

from __future__ import annotations

import pytest
from why_run_facts import LEADERLESS, NOW_MS, causes, run, run_facts, step, task_facts

from raftflow.cluster.why.task import asked_step, links_of_step
from raftflow.engine.state import RunStatus, StepKind, StepStatus, Task, TaskState


def done(name: str, sequence: int, status: StepStatus = StepStatus.COMPLETED):  # type: ignore[no-untyped-def]
    return step(name, sequence, status=status, resolved_ms=NOW_MS - 1_000, resolved_event_id=9)


@pytest.mark.parametrize(
    ("asked", "sequence"),
    [
        ("2", 2),
        ("0", None),
        ("9", None),
        ("charge", 3),  # the open one
        ("pack", 2),  # the last one
        ("nothing", None),
        ("-1", None),
        ("12345678901234567890", None),
    ],
)
def test_a_step_is_asked_for_by_name_or_sequence(asked: str, sequence: int | None) -> None:
    steps = [done("pack", 1), done("pack", 2), step("charge", 3), done("charge", 4)]
    found = asked_step(run(*steps), asked)
    assert (found and found.sequence) == sequence


def test_a_step_that_is_over() -> None:
    over = done("charge", 1)
    assert causes(links_of_step(run_facts(run(over), step=over), "charge")) == ["step_done"]
    over = done("charge", 1, StepStatus.FAILED)
    assert causes(links_of_step(run_facts(run(over), step=over), "charge")) == ["step_failed"]


def test_a_step_whose_child_failed_goes_on_there() -> None:
    over = done("ship", 1, StepStatus.FAILED)
    over.kind = StepKind.CHILD
    inner = run_facts(run(status=RunStatus.FAILED, error="no lorry"))
    links = links_of_step(run_facts(run(over), step=over, child=inner), "1")
    assert causes(links) == ["step_failed", "failed"]


def test_a_step_whose_result_waits() -> None:
    arrived = step(arrived=True)
    (link,) = links_of_step(run_facts(run(arrived), step=arrived), "charge")
    assert link.cause == "result_arrived"
    assert "raftflow why task order-1 0" in link.next


def test_a_step_that_is_open() -> None:
    queued = step()
    facts = run_facts(run(queued), step=queued, task=task_facts(run(queued), queued))
    assert causes(links_of_step(facts, "charge")) == ["task_queued", "no_poller"]


def test_a_step_without_a_leader() -> None:
    queued = step()
    task = task_facts(run(queued), queued)
    facts = run_facts(run(queued), step=queued, task=task, leaderless=LEADERLESS)
    assert causes(links_of_step(facts, "charge"))[:2] == ["task_queued", "no_leader"]


@pytest.mark.parametrize("asked", ["0", "workflow-task"])
def test_the_workflow_task(asked: str) -> None:
    waiting = run(decision=Task(state=TaskState.QUEUED))
    facts = run_facts(waiting, task=task_facts(waiting, None))
    assert causes(links_of_step(facts, asked)) == ["task_queued", "no_poller"]
    assert causes(links_of_step(run_facts(run()), asked)) == ["no_such_step"]


def test_a_step_that_is_not_there() -> None:
    (link,) = links_of_step(run_facts(run(done("pack", 1), done("pack", 2))), "charge")
    assert link.cause == "no_such_step"
    assert link.evidence["steps"] == ("pack",)
    assert "none so far" in links_of_step(run_facts(run()), "charge")[0].says


def test_a_step_of_a_run_that_is_not_there() -> None:
    assert causes(links_of_step(run_facts(None), "charge")) == ["no_such_run"]


@pytest.mark.parametrize(
    ("status", "reason", "cause"),
    [
        (RunStatus.PAUSED, "paused: stock-taking", "paused"),
        (RunStatus.UNKNOWN, "replay failed: nondeterminism at step 1", "nondeterminism"),
    ],
)
def test_the_workflow_task_of_a_run_that_stands_still(
    status: RunStatus, reason: str, cause: str
) -> None:
    """It has a task that nobody is given."""
    still = run(status=status, suspended_reason=reason, decision=Task(state=TaskState.QUEUED))
    links = links_of_step(run_facts(still), "0")
    assert links[0].cause == "suspended"
    assert len(links) > 1
