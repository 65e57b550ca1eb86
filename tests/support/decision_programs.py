"""What a decision may hold: small programs, mostly sensible, chosen by an operation's numbers."""

from __future__ import annotations

import dataclasses

import engine_harness as make

from raftflow.engine import commands as cmd
from raftflow.engine.commands import (
    AwaitSignal,
    CompleteWorkflow,
    FailWorkflow,
    StartTimer,
    WorkflowCommand,
)
from raftflow.engine.retry import RetryPolicy
from raftflow.engine.state import Run, StepStatus

NAMES = ("go", "stop")
RETRIES = (
    RetryPolicy(),
    RetryPolicy(max_attempts=3),
    RetryPolicy(max_attempts=0, initial_backoff_ms=100, max_backoff_ms=1_000),
    RetryPolicy(max_attempts=4, initial_backoff_ms=7, non_retryable_error_types=("Fatal",)),
)
ATTRIBUTES: tuple[cmd.Attributes, ...] = (
    (),
    (("city", '"Kiel"'), ("amount", "12")),
    (("city", "null"),),
    (("vip", "true"),),
)


@dataclasses.dataclass(frozen=True, slots=True)
class Operation:
    """``kind`` picks the wish; the small numbers pick among what there is."""

    kind: int
    a: int
    b: int
    c: int


def program(run: Run, op: Operation) -> list[WorkflowCommand]:
    """A few commands; now and then with a wrong sequence or something after the end."""
    out: list[WorkflowCommand] = []
    sequence = len(run.steps) + (1 if op.b != 10 else 3)
    for n in range(op.b % 4):
        choice = (op.c + 4 * n) % 14
        if choice > 9:
            out.append(_about_steps(run, op, sequence, choice))
            sequence += isinstance(out[-1], cmd.RecordMarker)
            continue
        if choice < 4:
            retry = RETRIES[(op.a + n) % len(RETRIES)]
            out.append(
                make.activity(
                    sequence,
                    "act",
                    input=b"in",
                    retry=retry,
                    start_to_close_ms=(0, 0, 40)[op.c % 3],
                    schedule_to_close_ms=(0, 0, 0, 300)[op.a % 4],
                    schedule_to_start_ms=(0, 0, 200)[op.b % 3],
                )
            )
        elif choice < 6:
            out.append(AwaitSignal(step_name="w", sequence=sequence, signal_name=NAMES[n % 2]))
        elif choice < 8:
            out.append(
                cmd.StartChildWorkflow(
                    step_name="c",
                    sequence=sequence,
                    workflow_type="Order" if op.b != 9 else "Unknown",
                    workflow_id=("", "", "kid", "a")[op.a % 4],
                    input=b"in",
                    task_queue="",
                    parent_close_policy=cmd.ParentClosePolicy((op.a + n) % 3),
                )
            )
        else:
            delay_ms = (0, 30, 5_000)[op.a % 3]
            out.append(StartTimer(step_name="t", sequence=sequence, delay_ms=delay_ms))
        sequence += 1
    nothing_left = not any(step.status is StepStatus.SCHEDULED for step in run.steps)
    if op.c > 9 or (nothing_left and not out):
        out.append(CompleteWorkflow(output=b"ok"))
    elif op.c == 9:
        out.insert(op.a % (len(out) + 1), FailWorkflow(error="no", cancelled=op.b == 1))
    elif op.c == 8 and op.a < 4:
        out.append(cmd.ContinueAsNew(input=b"more", execution_timeout_ms=-(op.b % 2)))
    return out


def fan_out() -> list[WorkflowCommand]:
    out: list[WorkflowCommand] = [
        make.activity(n, "act", retry=RETRIES[n % 2]) for n in range(1, 7)
    ]
    out += [StartTimer(step_name="t", sequence=n, delay_ms=40 * (n - 6)) for n in range(7, 10)]
    return [*out, AwaitSignal(step_name="w", sequence=10, signal_name=NAMES[0])]


def _about_steps(run: Run, op: Operation, sequence: int, choice: int) -> WorkflowCommand:
    """What needs no worker: a step cancelled (mostly an open one), a marker, attributes."""
    if choice == 10:
        return cmd.UpsertSearchAttributes(attributes=ATTRIBUTES[op.a % 4])
    if choice == 11:
        marker = "cancel" if run.cancel_requested_event_id else "version"
        return cmd.RecordMarker(step_name="m", sequence=sequence, marker=marker, data=b"1")
    steps = [s for s in run.steps if s.status is StepStatus.SCHEDULED] or run.steps
    if not steps or op.b == 7:
        return cmd.CancelStep(step_name="t", sequence=sequence - 1)
    step = steps[op.a % len(steps)]
    return cmd.CancelStep(step_name=step.name, sequence=step.sequence, reason="why")
