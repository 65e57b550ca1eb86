"""Which function makes which move. A move's meaning never changes; a new meaning is a new move."""

from __future__ import annotations

from collections.abc import Callable

from raftflow.engine.events import (
    ChildCompleted,
    ChildFailed,
    ChildStarted,
    SignalAwaited,
    SignalConsumed,
    SignalReceived,
    StepCompleted,
    StepFailed,
    StepScheduled,
    TimerFired,
    TimerStarted,
    WorkflowCancelled,
    WorkflowCompleted,
    WorkflowFailed,
    WorkflowStarted,
    WorkflowTerminated,
    WorkflowTimedOut,
)
from raftflow.engine.evolve import (
    activity,
    child,
    decision,
    message,
    namespace,
    retention,
    run,
    signal,
    timer,
)
from raftflow.engine.evolve.recorder import Recorder
from raftflow.engine.state import Run
from raftflow.engine.transitions import (
    ActivityLeased,
    ActivityRequeued,
    ActivityReturned,
    ActivityWithdrawn,
    AttemptExpired,
    AttemptFailed,
    ChildOpened,
    DecisionApplied,
    DecisionExpired,
    DecisionLeased,
    DecisionRefused,
    DecisionRequeued,
    DecisionReturned,
    DecisionStaled,
    HeartbeatRecorded,
    LeaseKept,
    MessageDelivered,
    MessageKept,
    Move,
    NamespaceCreated,
    NamespaceUpdated,
    RunForgotten,
    RunParked,
    RunSuspended,
    TimerKept,
    TypesRegistered,
)

# Moves of a run that exists.
OF_RUN: dict[type, Callable[..., None]] = {
    WorkflowCompleted: run.completed,
    WorkflowFailed: run.failed,
    WorkflowTerminated: run.terminated,
    WorkflowCancelled: run.cancelled,
    WorkflowTimedOut: run.timed_out,
    StepScheduled: activity.scheduled,
    StepCompleted: activity.completed,
    StepFailed: activity.failed,
    TimerStarted: timer.started,
    TimerFired: timer.fired,
    ChildStarted: child.started,
    ChildCompleted: child.completed,
    ChildFailed: child.failed,
    SignalAwaited: signal.awaited,
    SignalReceived: signal.received,
    SignalConsumed: signal.consumed,
    DecisionLeased: decision.leased,
    DecisionReturned: decision.returned,
    DecisionExpired: decision.expired,
    DecisionStaled: decision.staled,
    DecisionRefused: decision.refused,
    DecisionApplied: decision.applied,
    DecisionRequeued: decision.requeued,
    RunParked: decision.parked,
    RunSuspended: decision.suspended,
    RunForgotten: retention.forgotten,
    ChildOpened: child.opened,
    MessageDelivered: message.delivered,
    MessageKept: message.kept,
    ActivityLeased: activity.leased,
    ActivityReturned: activity.returned,
    AttemptExpired: activity.attempt_expired,
    AttemptFailed: activity.attempt_failed,
    ActivityRequeued: activity.requeued,
    HeartbeatRecorded: activity.heartbeat,
    ActivityWithdrawn: activity.withdrawn,
    TimerKept: timer.kept,
    LeaseKept: activity.lease_kept,
}

# Moves of no run, or that make one: then they return it.
OF_NONE: dict[type, Callable[..., Run | None]] = {
    WorkflowStarted: run.started,
    NamespaceCreated: namespace.created,
    NamespaceUpdated: namespace.updated,
    TypesRegistered: namespace.types_registered,
}


def evolve(rec: Recorder, subject: Run | None, moves: tuple[Move, ...]) -> None:
    """Make the moves, in order. Those that follow one which makes a run are of that run."""
    for move in moves:
        make = OF_RUN.get(type(move))
        if make is None:
            subject = OF_NONE[type(move)](rec, move)
        else:
            make(rec, subject, move)
