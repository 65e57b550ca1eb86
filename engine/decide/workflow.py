"""From the commands of one decision to the events they mean, or to why they cannot be followed."""

from __future__ import annotations

from collections.abc import Sequence

from raftflow.engine.commands import (
    AwaitSignal,
    CompleteWorkflow,
    FailWorkflow,
    ScheduleActivity,
    StartTimer,
    WorkflowCommand,
)
from raftflow.engine.decide.context import Context, text_too_large, too_large
from raftflow.engine.decide.signal import Untaken
from raftflow.engine.events import (
    EventBody,
    SignalAwaited,
    SignalConsumed,
    StepScheduled,
    TimerStarted,
    WorkflowCancelled,
    WorkflowCompleted,
    WorkflowFailed,
)
from raftflow.engine.ids import id_problem
from raftflow.engine.limits import MAX_DURATION_MS
from raftflow.engine.rejections import Reason, Rejection
from raftflow.engine.retry import policy_problem
from raftflow.engine.state import Run

_STEP_COMMANDS = (ScheduleActivity, StartTimer, AwaitSignal)


def translate(
    ctx: Context, run: Run, commands: Sequence[WorkflowCommand]
) -> list[EventBody] | Rejection:
    """The events of a decision made on the run's present history."""
    if not commands and not run.open_steps:
        return _invalid("the workflow is blocked, but nothing is in flight that could wake it")
    events: list[EventBody] = []
    untaken, taken = Untaken(run), 0
    sequence = len(run.steps)
    for position, command in enumerate(commands):
        if not isinstance(command, _STEP_COMMANDS):
            if position + 1 < len(commands):
                return _invalid("a command follows the one that ends the workflow")
            ending = _end(ctx, command)
            if isinstance(ending, Rejection):
                return ending
            events.append(ending)
            break
        sequence += 1
        if command.sequence != sequence:
            message = f"sequence is {command.sequence}, the next one is {sequence}"
            return Rejection(reason=Reason.BAD_SEQUENCE, message=message)
        event = _step(ctx, run, command)
        if isinstance(event, Rejection):
            return event
        events.append(event)
        if isinstance(command, AwaitSignal):
            signal_id = untaken.take(command.signal_name)
            if signal_id:
                taken += 1
                events.append(SignalConsumed(sequence=sequence, signal_event_id=signal_id))
    opened = sequence - len(run.steps) - taken
    return _open_steps_problem(ctx, run, opened) or events


def history_problem(
    ctx: Context, run: Run, commands: Sequence[WorkflowCommand], growth: int
) -> str | None:
    """Why the history may not grow by so many events. Its end always fits."""
    limits = ctx.limits
    if not growth or (growth == 1 and not isinstance(commands[0], _STEP_COMMANDS)):
        return None
    if run.history_length + growth > limits.max_history_events:
        return (
            f"history: {run.history_length + growth} events, "
            f"the limit is {limits.max_history_events}"
        )
    if run.history_bytes >= limits.max_history_bytes:
        return f"history: {run.history_bytes} bytes, the limit is {limits.max_history_bytes}"
    return None


def _step(
    ctx: Context, run: Run, command: ScheduleActivity | StartTimer | AwaitSignal
) -> EventBody | Rejection:
    if problem := id_problem("step_name", command.step_name):
        return _invalid(problem)
    if isinstance(command, ScheduleActivity):
        return _schedule(ctx, run, command)
    if isinstance(command, StartTimer):
        return _start_timer(ctx, command)
    if problem := id_problem("signal_name", command.signal_name):
        return _invalid(problem)
    return SignalAwaited(
        step_name=command.step_name, sequence=command.sequence, signal_name=command.signal_name
    )


def _schedule(ctx: Context, run: Run, command: ScheduleActivity) -> EventBody | Rejection:
    if problem := too_large("input", len(command.input), ctx.limits.max_payload_bytes):
        return Rejection(reason=Reason.LIMIT_EXCEEDED, message=problem)
    problem = (
        policy_problem(command.retry)
        or (id_problem("task_queue", command.task_queue) if command.task_queue else None)
        or _duration_problem("start_to_close_timeout_ms", command.start_to_close_timeout_ms)
        or _duration_problem("schedule_to_close_timeout_ms", command.schedule_to_close_timeout_ms)
        or _duration_problem("schedule_to_start_timeout_ms", command.schedule_to_start_timeout_ms)
    )
    if problem:
        return _invalid(problem)
    return StepScheduled(
        step_name=command.step_name,
        sequence=command.sequence,
        input=command.input,
        retry=command.retry,
        task_queue=command.task_queue or run.task_queue,
        start_to_close_timeout_ms=command.start_to_close_timeout_ms,
        schedule_to_close_timeout_ms=command.schedule_to_close_timeout_ms,
        schedule_to_start_timeout_ms=command.schedule_to_start_timeout_ms,
    )


def _start_timer(ctx: Context, command: StartTimer) -> EventBody | Rejection:
    if problem := _duration_problem("delay_ms", command.delay_ms):
        return _invalid(problem)
    return TimerStarted(
        step_name=command.step_name,
        sequence=command.sequence,
        delay_ms=command.delay_ms,
        fire_at_ms=ctx.time_ms + command.delay_ms,
    )


def _end(ctx: Context, command: CompleteWorkflow | FailWorkflow) -> EventBody | Rejection:
    limit = ctx.limits.max_payload_bytes
    if isinstance(command, CompleteWorkflow):
        if problem := too_large("output", len(command.output), limit):
            return Rejection(reason=Reason.LIMIT_EXCEEDED, message=problem)
        return WorkflowCompleted(output=command.output)
    problem = text_too_large("error", command.error, limit) or text_too_large(
        "error_type", command.error_type, limit
    )
    if problem:
        return Rejection(reason=Reason.LIMIT_EXCEEDED, message=problem)
    if command.cancelled:
        return WorkflowCancelled(reason=command.error)
    return WorkflowFailed(error=command.error, error_type=command.error_type)


def _duration_problem(field: str, value: int) -> str | None:
    if 0 <= value <= MAX_DURATION_MS:
        return None
    return f"{field} is {value}, it must be 0 to {MAX_DURATION_MS}"


def _open_steps_problem(ctx: Context, run: Run, opened: int) -> Rejection | None:
    limit, count = ctx.limits.max_open_steps, run.open_steps + opened
    if opened <= 0 or count <= limit:
        return None
    message = f"open steps: {count}, the limit is {limit}"
    return Rejection(reason=Reason.LIMIT_EXCEEDED, message=message)


def _invalid(message: str) -> Rejection:
    return Rejection(reason=Reason.INVALID_COMMAND, message=message)
