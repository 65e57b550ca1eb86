"""Rows of the store there and back."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from any_value import any_of, sample
from golden import check_golden
from hypothesis import given
from hypothesis import strategies as st

from raftflow.cluster.codec import pending, rows
from raftflow.cluster.codec.shapes import UnknownValue
from raftflow.engine.commands import ParentClosePolicy
from raftflow.engine.events import Event, TimerFired
from raftflow.engine.ids import RunKey
from raftflow.engine.retry import NO_RETRY
from raftflow.engine.state import (
    EndChild,
    NamespaceRecord,
    ReportChild,
    RequestRecord,
    Run,
    RunStatus,
    Signal,
    StartChild,
    Step,
    StepKind,
    StepStatus,
    Task,
    TaskState,
    TimerRow,
)
from raftflow.proto.raftflow.internal.v1 import state_pb2

NUMBERS = st.integers(1, 2**38)
HEADERS = any_of(
    Run,
    steps=st.just([]),
    signals=st.just({}),
    arrivals=st.just({}),
    outbox=st.just({}),
    waits=st.none(),
)
# An activity's task queue is never empty, nor a child's workflow id, and nothing else has one.
_ACTIVITY_ONLY = {
    "retry": NO_RETRY,
    "start_to_close_timeout_ms": 0,
    "schedule_to_close_timeout_ms": 0,
    "schedule_to_start_timeout_ms": 0,
    "attempts": 0,
    "priority": 3,
    "task": Task(),
}
_CHILD_ONLY = {
    "workflow_type": "",
    "run_id": "",
    "parent_close_policy": ParentClosePolicy.TERMINATE,
}


def sensible(step: Step) -> Step:
    without: dict[str, Any] = {} if step.task_queue else dict(_ACTIVITY_ONLY)
    return dataclasses.replace(step, **without, **({} if step.workflow_id else _CHILD_ONLY))


STEPS = any_of(Step).map(sensible)


def settled(task: Task) -> Task:
    """An outcome without a token is not kept."""
    return task if task.last_token else dataclasses.replace(task, last_outcome=b"")


@given(HEADERS, NUMBERS)
def test_every_run_comes_back(run: Run, run_no: int) -> None:
    expected = dataclasses.replace(run, input=b"", decision=settled(run.decision))
    assert rows.decode_run(rows.encode_run(run, run_no)) == (run_no, expected, bool(run.input))


@given(STEPS, NUMBERS)
def test_every_step_comes_back(step: Step, run_no: int) -> None:
    expected = dataclasses.replace(step, input=b"", task=settled(step.task))
    assert rows.decode_step(rows.encode_step(step, run_no)) == (expected, bool(step.input))


@given(any_of(Signal), NUMBERS)
def test_every_signal_comes_back(signal: Signal, run_no: int) -> None:
    assert rows.decode_signal(rows.encode_signal(signal, run_no)) == signal


@given(any_of(RequestRecord))
def test_every_request_comes_back(record: RequestRecord) -> None:
    assert rows.decode_request(rows.encode_request(record)) == record


@given(any_of(NamespaceRecord))
def test_every_namespace_comes_back(record: NamespaceRecord) -> None:
    assert rows.decode_namespace(rows.encode_namespace(record)) == record


def test_an_armed_timer_is_told_from_a_disarmed_one() -> None:
    timer = sample(TimerRow)
    armed = rows.encode_timer(timer, 1, 1, 1)
    assert state_pb2.TimerRow.FromString(armed).fire_at_ms == timer.fire_at_ms
    assert state_pb2.TimerRow.FromString(rows.encode_timer(None, 1, 1, 1)).disarmed


def test_a_status_of_a_later_version_is_named() -> None:
    with pytest.raises(UnknownValue, match="run status 99"):
        rows.decode_run(state_pb2.RunRow(status=99).SerializeToString())


TASK = Task(TaskState.LEASED, 2, "token", "worker", "n1", 5, 30_000, 0, "last", b"outcome")
RUN = Run(
    key=RunKey("default", "order-1", "r1"),
    workflow_type="Order",
    task_queue="default",
    status=RunStatus.RUNNING,
    started_ms=1,
    updated_ms=2,
    input=b"in",
    history_length=3,
    decision=TASK,
)
STEP = Step(
    sequence=1,
    kind=StepKind.ACTIVITY,
    name="charge",
    status=StepStatus.SCHEDULED,
    scheduled_event_id=2,
    scheduled_ms=1,
    input=b"in",
    task_queue="default",
    task=TASK,
)
# With all that release 0.2 added.
FULL_RUN = dataclasses.replace(
    RUN,
    cancel_requested_event_id=2,
    cancel_requested_ms=3,
    cancel_reason="no longer",
    search_attributes=(("customer", '"c-1"'), ("total", "12.5")),
    memo='{"note":"fragile"}',
    continued_from_run_id="r0",
    continued_to_run_id="r2",
    parent_workflow_id="parent",
    parent_run_id="p1",
    parent_sequence=4,
    messages_sent=5,
)
MARKER = Step(3, StepKind.MARKER, "v", StepStatus.COMPLETED, 4, 5, output=b"1", marker="version")
CHILD = Step(
    4,
    StepKind.CHILD,
    "ship",
    StepStatus.SCHEDULED,
    5,
    6,
    task_queue="default",
    workflow_type="Ship",
    workflow_id="order-1.4",
    run_id="c1",
    parent_close_policy=ParentClosePolicy.ABANDON,
    arrived=True,
)
QUOTA = sample(NamespaceRecord)
GOLDEN = {
    "v0.1.0": {
        "Run": rows.encode_run(RUN, 7),
        "Step": rows.encode_step(STEP, 7),
        "Signal": rows.encode_signal(sample(Signal), 7),
        "RequestRecord": rows.encode_request(sample(RequestRecord)),
        "NamespaceRecord": rows.encode_namespace(
            dataclasses.replace(QUOTA, max_open_runs=0, starts_per_second=0, starts_paid_us=0)
        ),
        "TimerRow": rows.encode_timer(sample(TimerRow), 7, 1, 3),
    },
    "v0.2.0": {
        "Run": rows.encode_run(FULL_RUN, 7),
        "Activity": rows.encode_step(dataclasses.replace(STEP, priority=1), 7),
        "Marker": rows.encode_step(MARKER, 7),
        "Child": rows.encode_step(CHILD, 7),
        "Arrival": pending.encode_arrival(Event(3, 9, TimerFired(sequence=2)), 7, 3),
        "Joined": pending.encode_arrival(None, 7, 3),
        "StartChild": pending.encode_message(sample(StartChild), 7, 1),
        "ReportChild": pending.encode_message(sample(ReportChild), 7, 1),
        "EndChild": pending.encode_message(sample(EndChild), 7, 1),
        "Delivered": pending.encode_message(None, 7, 1),
        "Deleted": pending.encode_deleted(7),
    },
    "v0.4.0": {"Quota": rows.encode_namespace(QUOTA)},
}


@pytest.mark.parametrize(
    ("release", "name"), [(release, name) for release in GOLDEN for name in GOLDEN[release]]
)
def test_the_bytes_of_rows_stay(release: str, name: str, rewrite: bool) -> None:
    check_golden("rows", name, GOLDEN[release][name], rewrite=rewrite, release=release)
