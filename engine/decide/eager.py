"""What a caller that completed a task takes along: grants made in the very entry, without a poll
that waited and without the leader's matching. They are grants like any other after that."""

from __future__ import annotations

from raftflow.engine.commands import CompleteActivity, CompleteDecision, EagerPoll
from raftflow.engine.events import StepScheduled
from raftflow.engine.ids import DEFAULT_TASK_QUEUE, TokenParts, format_token
from raftflow.engine.state import Run, RunStatus, TaskState
from raftflow.engine.transitions import ActivityLeased, DecisionLeased, Move

# A run that stands still hands out no work to those who just happen to be there.
_MOVING = (RunStatus.RUNNING, RunStatus.WAITING)


def handed(
    run: Run, command: CompleteDecision | CompleteActivity, moves: tuple[Move, ...]
) -> tuple[ActivityLeased | DecisionLeased, ...]:
    """The grants that follow the ``moves`` of a completion, which are made by now."""
    poll = command.eager
    if poll is None or not moves or run.status not in _MOVING:
        return ()
    if isinstance(command, CompleteActivity):
        return _decision(run, poll)
    fresh = [move.sequence for move in moves if isinstance(move, StepScheduled)]
    return _activities(run, fresh, poll)


def _activities(run: Run, fresh: list[int], poll: EagerPoll) -> tuple[ActivityLeased, ...]:
    """Of those that this decision scheduled: the urgent first, then in the order of the code."""
    queued = [
        step
        for step in [run.steps[sequence - 1] for sequence in fresh]
        if step.task.state is TaskState.QUEUED and _takes(poll, step.name, step.task_queue)
    ]
    queued.sort(key=lambda step: step.priority)
    return tuple(
        [
            ActivityLeased(
                step.sequence,
                _token(run, step.sequence, poll),
                poll.worker_id,
                poll.node,
                poll.poll_id,
                poll.duration_ms,
            )
            for step in queued[: max(0, poll.limit)]
        ]
    )


def _decision(run: Run, poll: EagerPoll) -> tuple[DecisionLeased, ...]:
    if run.decision.state is not TaskState.QUEUED or poll.limit < 1:
        return ()
    if not _takes(poll, run.workflow_type, run.task_queue):
        return ()
    token = _token(run, run.history_length, poll)
    leased = DecisionLeased(token, poll.worker_id, poll.node, poll.poll_id, poll.duration_ms)
    return (leased,)


def _takes(poll: EagerPoll, name: str, task_queue: str) -> bool:
    named = not poll.names or name in poll.names
    return named and task_queue == (poll.task_queue or DEFAULT_TASK_QUEUE)


def _token(run: Run, number: int, poll: EagerPoll) -> str:
    return format_token(TokenParts(run.key.namespace, run.key.run_id, number, poll.nonce))
