"""A task that is queued, out with a worker, or pausing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from why_run_facts import NOW_MS, causes, poller, refused, run, step, task_facts, work

from raftflow.cluster.leader_facts import LeaseFacts
from raftflow.cluster.why.attempt import links_of_task
from raftflow.cluster.why.model import Moment
from raftflow.engine.retry import RetryPolicy
from raftflow.engine.state import Task, TaskState


def leased(attempt: int = 1, *, ago_ms: int = 4_000) -> Task:
    return Task(
        state=TaskState.LEASED,
        attempt=attempt,
        token="t",
        worker_id="w1",
        node="n2",
        leased_ms=NOW_MS - ago_ms,
        duration_ms=30_000,
    )


def pausing(ms: int) -> Task:
    return Task(state=TaskState.BACKOFF, backoff_until_ms=NOW_MS + ms)


def test_an_earlier_failure_is_told_with_a_queued_task() -> None:
    again = step(attempts=2, last_error="declined", schedule_to_start_timeout_ms=25_000)
    links = links_of_task(task_facts(run(again), again, work=work(poller())))
    assert causes(links) == ["task_queued", "polled"]
    assert "after 2 failed attempts: declined" in links[0].says
    assert links[0].evidence["fails_at"] == Moment(NOW_MS + 5_000)


@pytest.mark.parametrize(
    ("silent_ms", "chain"),
    [(1_000, ["lease_held"]), (15_001, ["lease_held", "worker_silent"])],
)
def test_half_a_lease_without_a_heartbeat(silent_ms: int, chain: list[str]) -> None:
    held = step(task=leased(ago_ms=200_000))
    lease = LeaseFacts(left_ms=30_000 - silent_ms, silent_ms=silent_ms, duration_ms=30_000)
    links = links_of_task(task_facts(run(held), held, lease=lease))
    assert causes(links) == chain
    assert links[0].evidence["until"] == Moment(NOW_MS + 30_000 - silent_ms)
    assert links[-1].next


def test_without_the_leader_the_grant_says_until_when() -> None:
    held = step(task=leased())
    facts = task_facts(run(held), held, lease_untold="the leader n2 is not connected")
    (link,) = links_of_task(facts)
    assert link.evidence["until"] == Moment(NOW_MS + 26_000)
    assert link.evidence["not_heard"] == "the leader n2 is not connected"


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (RetryPolicy(max_attempts=1), "the step fails, as this was its last attempt"),
        (RetryPolicy(max_attempts=2), "the next attempt begins"),
        (RetryPolicy(max_attempts=0), "the next attempt begins"),
    ],
)
def test_what_comes_when_a_silent_worker_stays_silent(policy: RetryPolicy, said: str) -> None:
    held = step(task=leased(ago_ms=20_000), attempts=1, retry=policy)
    links = links_of_task(task_facts(run(held), held))
    assert said in links[-1].says


def test_a_workflow_task_that_was_out_before() -> None:
    busy = run(decision=leased(attempt=4))
    (link,) = links_of_task(task_facts(busy, None))
    assert "the 3 before it having brought no answer in time" in link.says


def test_a_result_that_was_refused_since_the_grant() -> None:
    held = step(task=leased(), scheduled_ms=NOW_MS - 4_000)
    call = refused("CompleteTask", "PAYLOAD_TOO_LARGE", step="charge")
    assert causes(links_of_task(task_facts(run(held), held, refused=(call,)))) == [
        "lease_held",
        "payload_refused",
    ]
    before = refused("CompleteTask", "PAYLOAD_TOO_LARGE", step="charge", last_ms=NOW_MS - 4_001)
    other = refused("CompleteTask", "PAYLOAD_TOO_LARGE", step="pack")
    for each in (before, other):
        links = links_of_task(task_facts(run(held), held, refused=(each,)))
        assert causes(links) == ["lease_held"]


@pytest.mark.parametrize(
    ("error", "calls", "chain"),
    [
        ("declined", (), ["retry_backoff"]),
        ("lease expired", (), ["retry_backoff", "lease_expired"]),
        (
            "lease expired",
            (refused("CompleteTask", "LEASE_LOST", step="1"),),
            ["retry_backoff", "result_late"],
        ),
        # Refused, but the attempt failed for another reason.
        ("declined", (refused("CompleteTask", "LEASE_LOST", step="1"),), ["retry_backoff"]),
    ],
)
def test_a_retry(error: str, calls: Any, chain: list[str]) -> None:
    again = step(
        task=pausing(9_000), attempts=2, last_error=error, retry=RetryPolicy(max_attempts=5)
    )
    links = links_of_task(task_facts(run(again), again, refused=calls))
    assert causes(links) == chain
    assert "attempt 2 of 5" in links[0].says
    assert links[0].evidence["pause_ms"] == 9_000


@pytest.mark.parametrize(
    ("refusal", "cause"),
    [
        ("sequence is 2, the next one is 1", "decision_refused"),
        ("commands[0].input has 9 bytes, the limit is 3", "payload_refused"),
        ("markers: this needs feature level 2 (release 0.2) on all nodes; ...", "version_gate"),
    ],
)
@pytest.mark.parametrize("task", [pausing(500), leased(), Task(state=TaskState.QUEUED)])
def test_an_answer_that_was_refused(refusal: str, cause: str, task: Task) -> None:
    waiting = run(decision=task, decision_refusal=refusal, decision_failures=3)
    links = links_of_task(task_facts(waiting, None))
    assert links[0].cause == "decision_refused"
    assert links[0].evidence["refusals"] == 3
    assert links[-1].cause == cause
    assert links[-1].next


def test_a_pause_of_which_an_old_release_did_not_note_the_reason() -> None:
    links = links_of_task(task_facts(run(decision=pausing(500)), None))
    assert causes(links) == ["decision_refused"]


def test_a_worker_is_not_to_blame_for_its_node() -> None:
    held = step(task=leased(ago_ms=20_000))
    facts = task_facts(run(held), held)
    work = replace(facts.work, missing={held.task.node: "no answer within 500 ms"})
    links = links_of_task(replace(facts, work=work))
    assert causes(links) == ["lease_held", "worker_silent", "node_unreachable"]
    assert f"raftflow why node {held.task.node}" in links[-1].next
