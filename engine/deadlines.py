"""An activity's own timeouts. Which of them runs follows from the step alone, so that one timer row
a step stands for whichever ends first."""

from __future__ import annotations

from dataclasses import dataclass

from raftflow.engine.state import Step, StepStatus, TaskState


@dataclass(frozen=True, slots=True)
class Deadline:
    """``final``: no other attempt may follow when it is missed."""

    fire_at_ms: int
    error_type: str
    error: str
    final: bool


def deadline_of(step: Step) -> Deadline | None:
    """The timeout that ends first, None when none runs."""
    if not (
        step.start_to_close_timeout_ms
        or step.schedule_to_close_timeout_ms
        or step.schedule_to_start_timeout_ms
    ):
        return None
    if step.status is not StepStatus.SCHEDULED or step.arrived:
        return None
    running = []
    task = step.task
    if timeout_ms := step.schedule_to_close_timeout_ms:
        running.append(_deadline(step.scheduled_ms, timeout_ms, "ScheduleToClose", final=True))
    if (timeout_ms := step.schedule_to_start_timeout_ms) and _never_began(step):
        running.append(_deadline(step.scheduled_ms, timeout_ms, "ScheduleToStart", final=True))
    if (timeout_ms := step.start_to_close_timeout_ms) and task.state is TaskState.LEASED:
        running.append(_deadline(task.leased_ms, timeout_ms, "StartToClose", final=False))
    return min(running, key=lambda deadline: deadline.fire_at_ms, default=None)


def outlasts(step: Step, at_ms: int) -> bool:
    """Whether an attempt that begins then begins in time."""
    timeout_ms = step.schedule_to_close_timeout_ms
    return not timeout_ms or at_ms < step.scheduled_ms + timeout_ms


def _never_began(step: Step) -> bool:
    return step.task.state is TaskState.QUEUED and step.attempts == 0


def _deadline(since_ms: int, timeout_ms: int, name: str, *, final: bool) -> Deadline:
    error = f"the {name} timeout of {timeout_ms} ms passed"
    return Deadline(since_ms + timeout_ms, f"{name}Timeout", error, final)
