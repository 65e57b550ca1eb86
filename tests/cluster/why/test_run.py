"""A run that waits, or is not there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from why_facts import Picture
from why_run_facts import (
    LEADERLESS,
    NOW_MS,
    causes,
    poller,
    refused,
    run,
    run_facts,
    step,
    task_facts,
    work,
)

from raftflow.cluster.why.model import Moment
from raftflow.cluster.why.run import WORKFLOW_TASK, chosen_wait, links_of_run
from raftflow.engine.commands import ParentClosePolicy
from raftflow.engine.state import (
    Run,
    RunStatus,
    Signal,
    StartChild,
    Step,
    StepKind,
    StepStatus,
    Task,
    TaskState,
)


def timer(sequence: int = 1, *, left_ms: int = 5_000) -> Step:
    return step("soon", sequence, kind=StepKind.TIMER, fire_at_ms=NOW_MS + left_ms, task=Task())


def signal(sequence: int = 1) -> Step:
    return step("approval", sequence, kind=StepKind.SIGNAL, signal_name="approved", task=Task())


def child(sequence: int = 1, *, run_id: str = "c1") -> Step:
    return step(
        "ship",
        sequence,
        kind=StepKind.CHILD,
        workflow_type="Ship",
        workflow_id="ship-1",
        run_id=run_id,
        task=Task(),
    )


def activity(sequence: int, state: TaskState) -> Step:
    return step("charge", sequence, task=Task(state=state))


@pytest.mark.parametrize(
    ("waiting", "chosen"),
    [
        (run(), None),
        (run(timer(1), decision=Task(state=TaskState.QUEUED)), WORKFLOW_TASK),
        (run(timer(1), signal(2)), 2),
        (run(signal(1), child(2)), 2),
        (run(child(1), activity(2, TaskState.LEASED)), 2),
        (run(activity(1, TaskState.LEASED), activity(2, TaskState.BACKOFF)), 2),
        (run(activity(1, TaskState.BACKOFF), activity(2, TaskState.QUEUED)), 2),
        (run(step(sequence=1, arrived=True), timer(2)), 2),
        (run(step(sequence=1, status=StepStatus.COMPLETED)), None),
    ],
)
def test_what_people_can_do_most_about_is_looked_into(waiting: Run, chosen: int | None) -> None:
    assert chosen_wait(waiting) == chosen


def test_all_that_it_waits_for_is_said() -> None:
    waiting = run(timer(1), signal(2), execution_timeout_ms=100_000, cancel_requested_event_id=5)
    links = links_of_run(run_facts(waiting, step=waiting.steps[1]))
    assert causes(links) == ["run_waits", "signal_awaited"]
    assert "waits for soon and approval" in links[0].says
    assert [each["kind"] for each in links[0].evidence["waits_for"]] == ["TIMER", "SIGNAL"]  # type: ignore[union-attr]
    assert links[0].evidence["times_out_at"] == Moment(NOW_MS + 40_000)
    assert "asked to cancel" in links[0].says


def test_of_very_many_it_says_how_many() -> None:
    links = links_of_run(run_facts(run(*(timer(n) for n in range(1, 31)))))
    assert "waits for 30 things" in links[0].says
    assert len(links[0].evidence["waits_for"]) == 20  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("left_ms", "severity", "said"),
    [(5_000, "waiting", "is due"), (-2_000, "waiting", "is due"), (-6_000, "problem", "was due")],
)
def test_a_timer(left_ms: int, severity: str, said: str) -> None:
    waiting = run(timer(left_ms=left_ms))
    link = links_of_run(run_facts(waiting, step=waiting.steps[0]))[1]
    assert (link.cause, link.severity) == ("timer_due", severity)
    assert said in link.says


def test_signals_of_other_names_are_counted() -> None:
    came = {n: Signal(n, 0, name, b"") for n, name in enumerate(["go", "stop", "go"], 4)}
    waiting = run(signal(), signals=came)
    links = links_of_run(run_facts(waiting, step=waiting.steps[0]))
    assert causes(links) == ["run_waits", "signal_awaited", "signal_other_name"]
    assert links[2].evidence["came"] == {"go": 2, "stop": 1}
    assert links[1].next == ""
    assert "raftflow workflow signal order-1 approved" in links[2].next


def test_a_signal_that_was_refused() -> None:
    waiting = run(signal())
    calls = (refused("SignalWorkflow", "RATE_LIMITED"),)
    links = links_of_run(run_facts(waiting, step=waiting.steps[0], refused=calls))
    assert causes(links) == ["run_waits", "signal_awaited", "rate_limited"]
    before = (refused("SignalWorkflow", "RATE_LIMITED", last_ms=waiting.started_ms - 1),)
    links = links_of_run(run_facts(waiting, step=waiting.steps[0], refused=before))
    assert causes(links) == ["run_waits", "signal_awaited"]


def test_the_chain_goes_on_in_the_child() -> None:
    waiting, queued = run(child()), step()
    inner = run(queued)
    task = task_facts(inner, queued, work=work(poller("w1", "refund")))
    facts = run_facts(inner, step=queued, task=task)
    links = links_of_run(run_facts(waiting, step=waiting.steps[0], child=facts))
    assert causes(links) == [
        *("run_waits", "child_awaited", "run_waits", "task_queued", "poller_lacks_name"),
    ]


@pytest.mark.parametrize(("ago_ms", "severity"), [(1_000, "waiting"), (20_000, "problem")])
def test_a_child_that_is_still_to_be_started(ago_ms: int, severity: str) -> None:
    waiting = run(child(run_id=""))
    waiting.steps[0].scheduled_ms = NOW_MS - ago_ms
    waiting.outbox[1] = StartChild(
        1, "ship-1", "Ship", "orders", b"", ParentClosePolicy.TERMINATE, "", ""
    )
    links = links_of_run(run_facts(waiting, step=waiting.steps[0]))
    assert causes(links) == ["run_waits", "child_awaited", "child_not_started"]
    assert links[2].severity == severity


def test_without_a_leader_that_is_the_cause() -> None:
    waiting = run(signal())
    links = links_of_run(run_facts(waiting, step=waiting.steps[0], leaderless=LEADERLESS))
    assert causes(links)[:2] == ["run_waits", "no_leader"]


@pytest.mark.parametrize(
    ("facts", "chain"),
    [
        ({}, ["no_such_run"]),
        ({"elsewhere": ("shop",)}, ["no_such_run", "other_namespace"]),
        ({"refused": (refused("StartWorkflow", "OVERLOADED"),)}, ["no_such_run", "back_pressure"]),
        ({"refused": (refused("PollTask", "OVERLOADED"),)}, ["no_such_run"]),
        ({"damage": "row 7: bad checksum"}, ["history_damaged"]),
    ],
)
def test_a_run_that_is_not_there(facts: dict[str, Any], chain: list[str]) -> None:
    links = links_of_run(run_facts(None, **facts))
    assert causes(links) == chain
    assert links[-1].next


def test_where_nobody_leads_absence_is_not_sure() -> None:
    links = links_of_run(run_facts(None, leaderless=LEADERLESS))
    assert causes(links)[:2] == ["no_such_run", "no_leader"]


def test_a_run_that_nothing_would_wake() -> None:
    links = links_of_run(run_facts(run()))
    assert causes(links) == ["run_waits", "broken"]
    assert "waits for nothing" in links[0].says


def test_a_paused_run_cannot_go_on_without_a_leader() -> None:
    still = run(status=RunStatus.PAUSED, suspended_reason="paused: stock-taking")
    links = links_of_run(run_facts(still, leaderless=LEADERLESS))
    assert causes(links)[:3] == ["suspended", "paused", "no_leader"]


def test_a_node_that_knows_its_leader_and_is_well_says_what_it_knows() -> None:
    waiting = run(signal())
    busy = Picture().facts
    links = links_of_run(run_facts(waiting, step=waiting.steps[0], leaderless=busy))
    assert causes(links) == ["run_waits", "signal_awaited"]


def test_another_refusal_is_not_the_cause() -> None:
    """Of a run that was asked for by its run id; of a signal with another name; and of a start that
    nobody read it is not sure."""
    start = refused("StartWorkflow", "OVERLOADED")
    assert causes(links_of_run(run_facts(None, run_id="r9", refused=(start,)))) == ["no_such_run"]
    unread = replace(start, target="")
    assert (
        "If it was not this one: see" in links_of_run(run_facts(None, refused=(unread,)))[-1].next
    )
    waiting = run(signal())
    for name, chain in (("other", []), (waiting.steps[0].signal_name, ["back_pressure"])):
        call = refused("SignalWorkflow", "OVERLOADED", step=name)
        links = links_of_run(run_facts(waiting, step=waiting.steps[0], refused=(call,)))
        assert causes(links) == ["run_waits", "signal_awaited", *chain]
