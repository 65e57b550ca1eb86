"""A decision on its way from commands to events: what its commands so far have come to."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from raftflow.engine.commands import (
    AwaitSignal,
    CancelStep,
    RecordMarker,
    ScheduleActivity,
    StartChildWorkflow,
    StartTimer,
    WorkflowCommand,
)
from raftflow.engine.decide.context import Context
from raftflow.engine.events import EventBody
from raftflow.engine.limits import MAX_DURATION_MS
from raftflow.engine.rejections import Reason, Rejection
from raftflow.engine.state import Run

StepCommand = ScheduleActivity | StartTimer | AwaitSignal | RecordMarker | StartChildWorkflow
STEP_COMMANDS = (ScheduleActivity, StartTimer, AwaitSignal, RecordMarker, StartChildWorkflow)

# What a command comes to: its events, or why it cannot be followed.
Planned = tuple[EventBody, ...] | Rejection


class Plan:
    """Planners read it, and note what those after them must know."""

    __slots__ = (
        "_abandoned",
        "_commands",
        "_untaken",
        "attributes",
        "cancelled",
        "ctx",
        "events",
        "new_run_id",
        "run",
        "steps",
    )

    def __init__(
        self, ctx: Context, run: Run, commands: Sequence[WorkflowCommand], new_run_id: str
    ) -> None:
        self.ctx = ctx
        self.run = run
        self.new_run_id = new_run_id  # of the run that continues this one
        self.events: list[EventBody] = []
        self.steps: list[StepCommand] = []  # those begun by this decision
        self.cancelled: set[int] = set()  # steps that it cancelled so far; membership only
        self.attributes = run.search_attributes
        self._commands = commands
        self._abandoned: frozenset[int] | None = None
        self._untaken: _Untaken | None = None

    def take_signal(self, wait: AwaitSignal) -> int:
        """The event id of the signal that the decision's next wait takes; 0 when there is none, or
        when the decision itself cancels the wait further on."""
        if self._abandoned is None or self._untaken is None:
            cancelled = [c.sequence for c in self._commands if isinstance(c, CancelStep)]
            self._abandoned = frozenset(cancelled)
            self._untaken = _Untaken(self.run)
        if wait.sequence in self._abandoned:
            return 0
        return self._untaken.take(wait.signal_name)

    @property
    def next_sequence(self) -> int:
        return len(self.run.steps) + len(self.steps) + 1


class _Untaken:
    """The signals that a decision's waits may still take, oldest first for each name. Reads the
    buffer once, however many waits there are, and no further than they need."""

    __slots__ = ("_passed", "_rest")

    def __init__(self, run: Run) -> None:
        self._rest = iter(run.signals.values())
        self._passed: dict[str, deque[int]] = {}

    def take(self, name: str) -> int:
        """The event id of the signal that the next wait for ``name`` takes; 0 when none is left."""
        passed = self._passed.get(name)
        if passed:
            return passed.popleft()
        for each in self._rest:
            if each.name == name:
                return each.event_id
            self._passed.setdefault(each.name, deque()).append(each.event_id)
        return 0


def invalid(message: str) -> Rejection:
    return Rejection(reason=Reason.INVALID_COMMAND, message=message)


def over_limit(message: str) -> Rejection:
    return Rejection(reason=Reason.LIMIT_EXCEEDED, message=message)


def duration_problem(field: str, value: int) -> str | None:
    if 0 <= value <= MAX_DURATION_MS:
        return None
    return f"{field} is {value}, it must be 0 to {MAX_DURATION_MS}"
