"""What a command will queue, if it is applied as things stand.

The leader proposes the grant right behind such a command, so that both stand in one entry and the
worker has its task a commit earlier. A guess that was wrong is a grant of a task that is not
queued: apply drops it, and the poll waits on. Tasks that the command's own caller takes in its
answer are nobody else's.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

from raftflow.cluster.leader.matching import QueuedTask
from raftflow.engine.commands import (
    Command,
    CompleteActivity,
    CompleteDecision,
    ContinueAsNew,
    EagerPoll,
    FireTimer,
    ScheduleActivity,
    SignalRun,
    StartRun,
    TimerKind,
)
from raftflow.engine.ids import RunKey, parse_token
from raftflow.engine.state import Run, RunStatus, TaskState

# The run as applied so far, when it is in memory; "" asks for the id's newest.
FindRun = Callable[[str, str, str], Run | None]


def tasks_after(command: Command, find: FindRun) -> list[QueuedTask]:
    """The tasks that nobody could be granted before this command is applied."""
    match command:
        case StartRun():
            key = RunKey(command.namespace, command.workflow_id, command.run_id)
            return [QueuedTask(key, 0, 0, command.workflow_type, command.task_queue)]
        case CompleteDecision():
            return _scheduled(command, find)
        case CompleteActivity(failed=False):
            parts = parse_token(command.lease_token)
            run = parts and find(command.namespace, command.workflow_id, parts.run_id)
            if run and parts and _holds(run, parts.number, command.lease_token):
                return _left_by(command.eager, _decision(run))
        case SignalRun():
            run = find(command.namespace, command.workflow_id, command.run_id)
            if run and run.open_steps and run.open_waits().get(command.name):
                return _decision(run)
        case FireTimer(kind=TimerKind.STEP):
            return _decision(find(command.namespace, command.workflow_id, command.run_id))
    return []


def _scheduled(command: CompleteDecision, find: FindRun) -> list[QueuedTask]:
    """First attempts of the activities that the decision schedules, and what continues the run."""
    parts = parse_token(command.task_token)
    run = parts and find(command.namespace, command.workflow_id, parts.run_id)
    if not run or run.decision.token != command.task_token:
        return []
    scheduled = [
        QueuedTask(
            run.key,
            each.sequence,
            1,
            each.step_name,
            each.task_queue or run.task_queue,
            each.priority,
        )
        for each in command.commands
        if isinstance(each, ScheduleActivity)
    ]
    return _left_by(command.eager, scheduled) + _next_of_chain(command, run)


def _next_of_chain(command: CompleteDecision, run: Run) -> list[QueuedTask]:
    """The workflow task of the run that continues this one."""
    return [
        QueuedTask(
            RunKey(command.namespace, command.workflow_id, command.new_run_id),
            0,
            0,
            each.workflow_type or run.workflow_type,
            each.task_queue or run.task_queue,
        )
        for each in command.commands
        if isinstance(each, ContinueAsNew)
    ]


def _left_by(eager: EagerPoll | None, tasks: list[QueuedTask]) -> list[QueuedTask]:
    """What is left when the caller has taken the most urgent that it wants."""
    if eager is None:
        return tasks
    wanted = [
        task
        for task in tasks
        if task.task_queue == eager.task_queue and (not eager.names or task.name in eager.names)
    ]
    wanted.sort(key=attrgetter("priority"))
    taken = {task.key for task in wanted[: eager.limit]}
    return [task for task in tasks if task.key not in taken]


def _holds(run: Run, sequence: int, token: str) -> bool:
    return 0 < sequence <= len(run.steps) and run.steps[sequence - 1].task.token == token


def _decision(run: Run | None) -> list[QueuedTask]:
    if run is None or not run.open or run.decision.state is not TaskState.NONE:
        return []
    if run.status is RunStatus.PAUSED:
        return []
    return [QueuedTask(run.key, 0, 0, run.workflow_type, run.task_queue)]
