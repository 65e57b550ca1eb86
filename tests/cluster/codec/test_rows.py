"""Rows of the store there and back."""

from __future__ import annotations

import dataclasses

import pytest
from any_value import any_of, sample
from golden import check_golden
from hypothesis import given
from hypothesis import strategies as st

from raftflow.cluster.codec import rows
from raftflow.cluster.codec.shapes import UnknownValue
from raftflow.engine.ids import RunKey
from raftflow.engine.retry import NO_RETRY
from raftflow.engine.state import (
    NamespaceRecord,
    RequestRecord,
    Run,
    RunStatus,
    Signal,
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
# An activity's task queue is never empty, and nothing else has one.
STEPS = any_of(Step).map(
    lambda step: (
        step
        if step.task_queue
        else dataclasses.replace(
            step,
            retry=NO_RETRY,
            start_to_close_timeout_ms=0,
            schedule_to_close_timeout_ms=0,
            schedule_to_start_timeout_ms=0,
            attempts=0,
            task=Task(),
        )
    )
)


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


def test_the_bytes_of_rows_stay(rewrite: bool) -> None:
    task = Task(TaskState.LEASED, 2, "token", "worker", "n1", 5, 30_000, 0, "last", b"outcome")
    run = Run(
        key=RunKey("default", "order-1", "r1"),
        workflow_type="Order",
        task_queue="default",
        status=RunStatus.RUNNING,
        started_ms=1,
        updated_ms=2,
        input=b"in",
        history_length=3,
        decision=task,
    )
    step = Step(
        sequence=1,
        kind=StepKind.ACTIVITY,
        name="charge",
        status=StepStatus.SCHEDULED,
        scheduled_event_id=2,
        scheduled_ms=1,
        input=b"in",
        task_queue="default",
        task=task,
    )
    check_golden("rows", "Run", rows.encode_run(run, 7), rewrite=rewrite)
    check_golden("rows", "Step", rows.encode_step(step, 7), rewrite=rewrite)
    check_golden("rows", "Signal", rows.encode_signal(sample(Signal), 7), rewrite=rewrite)
    check_golden(
        "rows", "RequestRecord", rows.encode_request(sample(RequestRecord)), rewrite=rewrite
    )
    check_golden(
        "rows", "NamespaceRecord", rows.encode_namespace(sample(NamespaceRecord)), rewrite=rewrite
    )
    check_golden("rows", "TimerRow", rows.encode_timer(sample(TimerRow), 7, 1, 3), rewrite=rewrite)
