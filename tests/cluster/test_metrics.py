"""What a batch did is counted by name, never by id."""

from __future__ import annotations

import re
from pathlib import Path

from raftflow.cluster.metrics import Metrics, QueueGauges, RaftGauges
from raftflow.engine.effects import DropLease, HistoryGrew, StepResolved
from raftflow.engine.ids import RunKey

KEY = RunKey("default", "order-42", "r1")


def test_effects_are_counted() -> None:
    metrics = Metrics()
    metrics.applied(
        [
            HistoryGrew(KEY, "Order", 1, opened=True, closed=False, status="WAITING"),
            HistoryGrew(KEY, "Order", 9, opened=False, closed=True, status="TIMED_OUT"),
            StepResolved(KEY, "charge", "ACTIVITY", "COMPLETED", 250),
            DropLease(KEY, 1, "t", cancelled=False, expired=True),
            DropLease(KEY, 2, "t", cancelled=True, expired=False),
        ]
    )
    text = metrics.render().decode()
    assert 'workflowd_workflows_started_total{type="Order"} 1.0' in text
    assert 'workflowd_workflows_finished_total{status="timed_out"} 1.0' in text
    assert "workflowd_step_duration_seconds_sum 0.25" in text
    assert "workflowd_leases_expired_total 1.0" in text
    assert "order-42" not in text


def test_owners_are_asked_when_somebody_scrapes() -> None:
    metrics = Metrics()
    metrics.sources.queues = lambda: QueueGauges(
        activity_tasks=3,
        workflow_tasks=2,
        polls_waiting=1,
        oldest_activity_task_ms=2_500,
    )
    metrics.sources.raft = lambda: RaftGauges(
        role="leader",
        term=7,
        commit_index=90,
        applied_index=80,
        elections=4,
        messages_sent=9,
        proposals_pending=5,
        snapshot_age_seconds=1.5,
        leader_known=True,
        voters=3,
        voters_connected=2,
    )
    text = metrics.render().decode()
    for line in (
        "workflowd_task_queue_depth 3.0",
        "workflowd_workflow_task_queue_depth 2.0",
        "workflowd_task_queue_oldest_seconds 2.5",
        "workflowd_workflow_task_queue_oldest_seconds 0.0",
        "workflowd_polls_waiting 1.0",
        "workflowd_raft_leader_known 1.0",
        "workflowd_raft_voters 3.0",
        "workflowd_raft_voters_connected 2.0",
        'workflowd_raft_role{role="leader"} 1.0',
        'workflowd_raft_role{role="follower"} 0.0',
        "workflowd_raft_apply_lag 10.0",
        "workflowd_raft_elections_total 4.0",
    ):
        assert line in text


def test_what_is_deleted_and_what_is_on_its_way_have_names() -> None:
    metrics = Metrics()
    metrics.runs_deleted.inc(2)
    metrics.outbox_pending.set_function(lambda: 3)
    text = metrics.render().decode()
    assert "workflowd_workflows_deleted_total 2.0" in text
    assert "workflowd_outbox_pending 3.0" in text


# Dashboards and alerts of others rely on these, whatever else there is.
CONTRACT = (
    "workflows_started_total",
    "workflows_finished_total",
    "task_queue_depth",
    "workflow_task_queue_depth",
    "step_duration_seconds",
    "leases_expired_total",
    "timer_lag_seconds",
    "polls_waiting",
    "raft_role",
    "raft_term",
    "raft_commit_index",
    "raft_applied_index",
    "raft_apply_lag",
    "raft_elections_total",
    "raft_fsync_seconds",
    "raft_proposals_pending",
    "raft_snapshot_age_seconds",
    "request_seconds",
    "backpressure_rejected_total",
)


def test_the_names_that_others_rely_on_are_there() -> None:
    text = Metrics().render().decode()
    exported = set(re.findall(r"^# TYPE (\w+) ", text, re.M))
    assert {f"workflowd_{name}" for name in CONTRACT} <= exported


def test_all_of_them_are_documented_and_no_others() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "operating.md").read_text()
    documented = re.findall(r"`((?:workflowd|process)_\w+)[`{]", text)
    kinds = {"counter": "_total"}
    exported = [metric.name + kinds.get(metric.type, "") for metric in Metrics().registry.collect()]
    assert sorted(set(documented)) == sorted(exported)
