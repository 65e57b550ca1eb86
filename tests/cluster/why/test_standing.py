"""A run that stands still, by what is noted of it."""

from __future__ import annotations

import pytest
from why_run_facts import NOW_MS, causes, run, run_facts, step

from raftflow.cluster.why.model import Moment
from raftflow.cluster.why.run import links_of_run
from raftflow.engine.state import RunStatus, Task, TaskState

NONDETERMINISTIC = (
    "nondeterministic workflow code at sequence 2: the code scheduled ACTIVITY 'pack',"
    " the history has TIMER 'wait'"
)


@pytest.mark.parametrize(
    ("status", "reason", "cause"),
    [
        (RunStatus.PAUSED, "paused: the bank is closed", "paused"),
        (RunStatus.PAUSED, "paused: ", "paused"),
        (RunStatus.PAUSED, "history: 51 events, the limit is 50", "history_limit"),
        (RunStatus.PAUSED, "history: 5100 bytes, the limit is 5000", "history_limit"),
        (RunStatus.UNKNOWN, NONDETERMINISTIC, "nondeterminism"),
        (RunStatus.UNKNOWN, "[TMPRL1100] another SDK says so", "nondeterminism"),
        (
            RunStatus.UNKNOWN,
            "the run has version 2 of change 'fees', the code supports 0 to 1",
            "version_marker",
        ),
        (RunStatus.UNKNOWN, "CompleteActivity broke the run: KeyError", "broken"),
    ],
)
def test_the_reason_has_its_cause(status: RunStatus, reason: str, cause: str) -> None:
    still = run(
        step(),
        status=status,
        suspended_reason=reason,
        decision=Task(state=TaskState.BACKOFF, backoff_until_ms=NOW_MS + 9_000),
    )
    links = links_of_run(run_facts(still))
    assert causes(links) == ["suspended", cause]
    assert "raftflow workflow" in links[1].next


def test_a_row_that_cannot_be_read() -> None:
    still = run(status=RunStatus.UNKNOWN, suspended_reason="state.db: steps row 1: bad checksum")
    assert causes(links_of_run(run_facts(still))) == ["suspended", "history_damaged"]


def test_at_which_step_and_when_it_is_tried_again() -> None:
    still = run(
        status=RunStatus.UNKNOWN,
        suspended_reason=NONDETERMINISTIC,
        decision=Task(state=TaskState.BACKOFF, backoff_until_ms=NOW_MS + 9_000),
        decision_failures=4,
    )
    link = links_of_run(run_facts(still, run_id="r1"))[1]
    assert (link.evidence["sequence"], link.evidence["tries"]) == (2, 4)
    assert link.evidence["code"] == "scheduled ACTIVITY 'pack'"
    assert link.evidence["history"] == "TIMER 'wait'"
    assert link.evidence["next_try_at"] == Moment(NOW_MS + 9_000)
    assert "at step 2" in link.says
    assert "`raftflow workflow unpause order-1 --run-id r1`" in link.next


@pytest.mark.parametrize(("least", "most", "who"), [(0, 1, "older"), (3, 4, "newer")])
def test_whether_the_worker_is_older_or_newer(least: int, most: int, who: str) -> None:
    reason = f"the run has version 2 of change 'fees', the code supports {least} to {most}"
    still = run(status=RunStatus.UNKNOWN, suspended_reason=reason, steps=[step()])
    assert f"that worker is {who} than the run" in links_of_run(run_facts(still))[1].says
