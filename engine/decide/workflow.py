"""From the commands of one decision to the events they mean, or to why they cannot be followed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from raftflow.engine.commands import (
    RELEASE_0_2,
    AwaitSignal,
    CancelStep,
    CompleteWorkflow,
    ContinueAsNew,
    FailWorkflow,
    RecordMarker,
    ScheduleActivity,
    StartChildWorkflow,
    StartTimer,
    UpsertSearchAttributes,
    WorkflowCommand,
)
from raftflow.engine.decide import activity, attributes, cancel, child, end, marker, signal, timer
from raftflow.engine.decide.context import Context
from raftflow.engine.decide.plan import (
    STEP_COMMANDS,
    Plan,
    Planned,
    StepCommand,
    invalid,
    over_limit,
)
from raftflow.engine.events import (
    ChildStarted,
    EventBody,
    SignalAwaited,
    SignalConsumed,
    StepCancelled,
    StepScheduled,
    TimerStarted,
    WorkflowCancelled,
    WorkflowCompleted,
    WorkflowContinuedAsNew,
    WorkflowFailed,
)
from raftflow.engine.ids import id_problem
from raftflow.engine.rejections import Reason, Rejection
from raftflow.engine.state import Run

Planner = Callable[..., Planned]  # of a Plan and the command

# Commands that begin a step: each takes the next sequence.
_STEPS: dict[type, Planner] = {
    ScheduleActivity: activity.schedule,
    StartTimer: timer.start,
    AwaitSignal: signal.await_signal,
    RecordMarker: marker.record,
    StartChildWorkflow: child.start,
}

# Commands that do something else.
_OTHERS: dict[type, Planner] = {
    CancelStep: cancel.step,
    UpsertSearchAttributes: attributes.upsert,
}

# Commands that end the run: nothing may follow.
_ENDS: dict[type, Planner] = {
    CompleteWorkflow: end.complete,
    FailWorkflow: end.fail,
    ContinueAsNew: end.continue_as_new,
}

_ENDED = (WorkflowCompleted, WorkflowFailed, WorkflowCancelled, WorkflowContinuedAsNew)

# What an event does to the number of open steps.
_OPENS: dict[type, int] = {
    StepScheduled: 1,
    StepCancelled: -1,
    ChildStarted: 1,
    TimerStarted: 1,
    SignalAwaited: 1,
    SignalConsumed: -1,
}


def translate(
    ctx: Context, run: Run, commands: Sequence[WorkflowCommand], new_run_id: str
) -> list[EventBody] | Rejection:
    """The events of a decision made on the run's present history."""
    plan = Plan(ctx, run, commands, new_run_id)
    for position, command in enumerate(commands, start=1):
        if isinstance(command, STEP_COMMANDS):
            planned = _step(plan, command)
        elif type(command) in _OTHERS:
            planned = _OTHERS[type(command)](plan, command)
        elif position < len(commands):
            return invalid("a command follows the one that ends the workflow")
        else:
            planned = _ENDS[type(command)](plan, command)
        if isinstance(planned, Rejection):
            return planned
        plan.events += planned
    return _whole_problem(plan) or plan.events


def history_problem(ctx: Context, run: Run, events: Sequence[EventBody]) -> str | None:
    """Why the history may not grow by these. Its end always fits."""
    limits, growth = ctx.limits, len(events)
    if not growth or _is_end(ctx, events):
        return None
    length = run.history_length + len(run.arrivals) + growth
    if length > limits.max_history_events:
        return f"history: {length} events, the limit is {limits.max_history_events}"
    if run.history_bytes >= limits.max_history_bytes:
        return f"history: {run.history_bytes} bytes, the limit is {limits.max_history_bytes}"
    return None


def _is_end(ctx: Context, events: Sequence[EventBody]) -> bool:
    """What code records as it ends belongs to the end: after a graceful cancel the marker, and the
    steps taken back. In entries of release 0.1 the end stands alone."""
    return isinstance(events[-1], _ENDED) and (len(events) == 1 or ctx.feature_level >= RELEASE_0_2)


def _step(plan: Plan, command: StepCommand) -> Planned:
    sequence = plan.next_sequence
    if command.sequence != sequence:
        message = f"sequence is {command.sequence}, the next one is {sequence}"
        return Rejection(reason=Reason.BAD_SEQUENCE, message=message)
    if problem := id_problem("step_name", command.step_name):
        return invalid(problem)
    planned = _STEPS[type(command)](plan, command)
    plan.steps.append(command)
    return planned


def _whole_problem(plan: Plan) -> Rejection | None:
    """What is wrong with the decision as a whole: it leaves too much open, or nothing."""
    opened, woken = 0, False
    for event in plan.events:
        kind = type(event)
        opened += _OPENS.get(kind, 0)
        woken = woken or kind is SignalConsumed
    left, limit = plan.run.open_steps + opened, plan.ctx.limits.max_open_steps
    if opened > 0 and left > limit:
        return over_limit(f"open steps: {left}, the limit is {limit}")
    ended = bool(plan.events) and isinstance(plan.events[-1], _ENDED)
    if left == 0 and not woken and not ended:
        return invalid("the workflow is blocked, but nothing would wake it")
    return None
