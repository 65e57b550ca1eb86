"""What is true of every run between two batches. A breach is a bug; each is told in a sentence.

``wakeup_problem`` costs next to nothing and is asked of each run that a batch changed; ``findings``
reads the whole run, and a node walks through all of them in the background.
"""

from __future__ import annotations

from collections.abc import Mapping

from raftflow.engine.commands import ParentClosePolicy, TimerKind
from raftflow.engine.deadlines import deadline_of
from raftflow.engine.events import (
    ChildCompleted,
    ChildFailed,
    StepCompleted,
    StepFailed,
    TimerFired,
    WorkflowCancelRequested,
)
from raftflow.engine.evolve.arrivals import PATIENCE
from raftflow.engine.outbox import pending_start
from raftflow.engine.state import (
    Run,
    RunStatus,
    StartChild,
    Step,
    StepKind,
    StepStatus,
    Task,
    TaskState,
)

StepResult = StepCompleted | StepFailed | TimerFired | ChildCompleted | ChildFailed

Timers = Mapping[tuple[TimerKind, int], int]  # (kind, sequence) → when the timer fires


def wakeup_problem(run: Run) -> str | None:
    """Every open run has something that will wake it, or is suspended and says why."""
    if not run.open:
        return None
    if run.status is RunStatus.PAUSED:
        return None if run.suspended_reason else "paused without a reason"
    if run.decision.state is not TaskState.NONE or run.open_steps > 0:
        return None
    return "open, and nothing will ever wake it"


def armed_timers(run: Run) -> dict[tuple[TimerKind, int], int]:
    """The timer rows that the run must have."""
    timers: dict[tuple[TimerKind, int], int] = {}
    if not run.open:
        return timers
    if run.execution_timeout_ms:
        timers[TimerKind.EXECUTION_TIMEOUT, 0] = run.started_ms + run.execution_timeout_ms
    if run.decision.state is TaskState.BACKOFF:
        timers[TimerKind.DECISION_BACKOFF, 0] = run.decision.backoff_until_ms
    for step in run.steps:
        if step.status is not StepStatus.SCHEDULED or step.arrived:
            continue
        if step.kind is StepKind.TIMER:
            timers[TimerKind.STEP, step.sequence] = step.fire_at_ms
        if step.task.state is TaskState.BACKOFF:
            timers[TimerKind.RETRY, step.sequence] = step.task.backoff_until_ms
        deadline = deadline_of(step)
        if deadline is not None:
            timers[TimerKind.ACTIVITY_TIMEOUT, step.sequence] = deadline.fire_at_ms
    return timers


# What a finding is counted under. Together with what the store finds (store/audit.py) they are the
# labels of a metric, so there are few of them and they stay.
RUN_INVARIANTS = (
    "wakeup", "timers", "counts", "arrivals", "cancel", "tasks", "status", "outbox", "steps"
)  # fmt: skip


def findings(run: Run, timers: Timers) -> list[tuple[str, str]]:
    """Everything that is wrong with a run, given its timer rows: which invariant, and how."""
    groups: dict[str, list[str | None]] = {name: [] for name in RUN_INVARIANTS}
    groups["wakeup"].append(wakeup_problem(run))
    if dict(timers) != armed_timers(run):
        groups["timers"].append(f"timer rows are {dict(timers)}, not {armed_timers(run)}")
    groups["counts"] += _count_problems(run)
    groups["arrivals"] += _arrival_problems(run)
    groups["cancel"] += _cancel_problems(run)
    groups["tasks"] += _decision_problems(run)
    groups["status"] += _status_problems(run)
    groups["outbox"].append(_outbox_problem(run))
    for position, step in enumerate(run.steps, start=1):
        if step.sequence != position:
            groups["steps"].append(f"step {position} has sequence {step.sequence}")
        groups["steps"] += _step_problems(run, step)
        groups["tasks"] += _offer_problems(step)
        if step.kind is StepKind.CHILD and step.status is StepStatus.SCHEDULED:
            groups["wakeup"].append(_child_problem(run, step))
    return [(name, problem) for name, group in groups.items() for problem in group if problem]


def problems(run: Run, timers: Timers) -> list[str]:
    """The same without the names."""
    return [problem for _, problem in findings(run, timers)]


def _decision_problems(run: Run) -> list[str | None]:
    found = [_task_problem("workflow task", run.decision)]
    if not run.open and run.decision.state is not TaskState.NONE:
        found.append("closed, but a workflow task is left")
    if run.status is RunStatus.PAUSED and run.decision.state is not TaskState.NONE:
        found.append(f"paused, but the workflow task is {run.decision.state.name}")
    return found


def _status_problems(run: Run) -> list[str | None]:
    found: list[str | None] = []
    if bool(run.continued_to_run_id) != (run.status is RunStatus.CONTINUED_AS_NEW):
        found.append(f"{run.status.name}, but continued by {run.continued_to_run_id!r}")
    if bool(run.closed_ms) == run.open:
        found.append(f"{run.status.name}, but closed at {run.closed_ms}")
    return found


def _count_problems(run: Run) -> list[str | None]:
    open_steps = sum(step.status is StepStatus.SCHEDULED for step in run.steps)
    leased = sum(step.task.state is TaskState.LEASED for step in run.steps)
    leased += run.decision.state is TaskState.LEASED
    running = run.status is RunStatus.RUNNING
    waiting = run.status is RunStatus.WAITING
    return [
        f"{open_steps} steps are open, {run.open_steps} counted"
        if open_steps != run.open_steps
        else None,
        f"{leased} tasks are leased, {run.leased_tasks} counted"
        if leased != run.leased_tasks
        else None,
        f"{run.status.name} with {leased} leased tasks"
        if (running and not leased) or (waiting and leased)
        else None,
        "closed, but steps are open" if open_steps and not run.open else None,
        f"untaken signals are out of order: {list(run.signals)}"
        if list(run.signals) != sorted(run.signals)
        else None,
    ]


def _arrival_problems(run: Run) -> list[str | None]:
    numbers, held = list(run.arrivals), [each.body for each in run.arrivals.values()]
    results = sorted([body.sequence for body in held if isinstance(body, StepResult)])
    arrived = [step.sequence for step in run.steps if step.arrived]
    closed = [s for s in arrived if run.steps[s - 1].status is not StepStatus.SCHEDULED]
    asked = sum(isinstance(body, WorkflowCancelRequested) for body in held)
    asked += run.cancel_requested_event_id > 0
    return [
        "arrivals wait, but no decision is out"
        if held and run.decision.state is not TaskState.LEASED
        else None,
        f"arrivals wait, but only {run.stale_decisions} decisions were stale"
        if held and run.stale_decisions < PATIENCE
        else None,
        f"arrivals are numbered {numbers}" if numbers != [*range(1, len(held) + 1)] else None,
        f"results of steps {results} wait, of {arrived} it is said" if results != arrived else None,
        f"results of steps {closed} wait, which have theirs" if closed else None,
        "asked to cancel more than once" if asked > 1 else None,
    ]


def _cancel_problems(run: Run) -> list[str | None]:
    told, markers = run.cancel_requested_event_id, [s.marker for s in run.steps]
    return [
        f"asked to cancel by event {told}, at {run.cancel_requested_ms}"
        if told > run.history_length or bool(told) != bool(run.cancel_requested_ms)
        else None,
        "noted a cancel that nobody asked for" if "cancel" in markers and not told else None,
        "noted its cancel more than once" if markers.count("cancel") > 1 else None,
    ]


def _offer_problems(step: Step) -> list[str | None]:
    """Of the task that a step offers, or should not."""
    which, state = f"step {step.sequence}", step.task.state
    is_open = step.status is StepStatus.SCHEDULED
    found = [_task_problem(which, step.task)]
    offered = step.kind is StepKind.ACTIVITY and is_open and not step.arrived
    if offered != (state is not TaskState.NONE):
        found.append(f"{which} is {step.kind.name} {step.status.name} with task {state.name}")
    if is_open and state is not TaskState.NONE:
        begun = step.attempts if state is TaskState.LEASED else step.attempts + 1
        if step.task.attempt != begun:
            found.append(f"{which} offers attempt {step.task.attempt}, {step.attempts} began")
    return found


def _step_problems(run: Run, step: Step) -> list[str | None]:
    found: list[str | None] = []
    which = f"step {step.sequence}"
    if not _resolved_rightly(run, step):
        found.append(f"{which} is {step.status.name} by event {step.resolved_event_id}")
    if step.status is StepStatus.SCHEDULED and step.kind is StepKind.SIGNAL:
        wanted = [s.event_id for s in run.signals.values() if s.name == step.signal_name]
        if wanted:
            found.append(f"{which} waits for a signal that is here: event {wanted[0]}")
    return found


def _resolved_rightly(run: Run, step: Step) -> bool:
    """By an event of its own; a marker by the event that made it. One that the code cancelled has
    an event, one that closed with its run has none."""
    begun, resolved = step.scheduled_event_id, step.resolved_event_id
    if step.status is StepStatus.SCHEDULED or (
        step.status is StepStatus.CANCELLED and not run.open and not resolved
    ):
        return resolved == 0
    if step.kind is StepKind.MARKER:
        return 0 < begun == resolved <= run.history_length
    return 0 < begun < resolved <= run.history_length


def _child_problem(run: Run, step: Step) -> str | None:
    """An open child step wakes its run because the child is about to be started, or was."""
    if step.arrived:
        return None
    pending = pending_start(run, step.sequence)
    if bool(pending) != bool(step.run_id):
        return None
    state = "was started and is to be" if pending else "was not started and is not to be"
    return f"the child of step {step.sequence} {state}"


def _outbox_problem(run: Run) -> str | None:
    numbers = list(run.outbox)
    if numbers != sorted(numbers) or (numbers and not 0 < numbers[0] <= numbers[-1]):
        return f"the outbox is out of order: {numbers}"
    if numbers and numbers[-1] > run.messages_sent:
        return f"{run.messages_sent} messages were sent, but number {numbers[-1]} waits"
    for message in run.outbox.values():
        if not isinstance(message, StartChild):
            continue
        if not run.open and message.parent_close_policy is not ParentClosePolicy.ABANDON:
            return f"closed, but the child of step {message.sequence} is still to be started"
    return None


def _task_problem(which: str, task: Task) -> str | None:
    if (task.state is TaskState.LEASED) != bool(task.token):
        return f"{which} is {task.state.name} with token {task.token!r}"
    if (task.state is TaskState.BACKOFF) != bool(task.backoff_until_ms):
        return f"{which} is {task.state.name} with a pause until {task.backoff_until_ms}"
    return None
