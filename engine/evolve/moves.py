"""Which function makes which move. A move's meaning never changes; a new meaning is a new move."""

from __future__ import annotations

from collections.abc import Callable

from raftflow.engine.events import (
    ChildCompleted,
    ChildFailed,
    ChildStarted,
    MarkerRecorded,
    SearchAttributesUpserted,
    SignalAwaited,
    SignalConsumed,
    SignalReceived,
    StepCancelled,
    StepCompleted,
    StepFailed,
    StepScheduled,
    TimerFired,
    TimerStarted,
    WorkflowCancelled,
    WorkflowCancelRequested,
    WorkflowCompleted,
    WorkflowContinuedAsNew,
    WorkflowFailed,
    WorkflowStarted,
    WorkflowTerminated,
    WorkflowTimedOut,
)
from raftflow.engine.evolve import (
    activity,
    arrivals,
    attributes,
    cancel,
    child,
    decision,
    marker,
    message,
    namespace,
    retention,
    run,
    signal,
    timer,
    token,
)
from raftflow.engine.evolve.arrivals import PATIENCE
from raftflow.engine.evolve.recorder import Recorder
from raftflow.engine.state import Run, TaskState
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
    QuotaSet,
    RunForgotten,
    RunParked,
    RunResumed,
    RunSuspended,
    StartPaid,
    TimerKept,
    TokenMinted,
    TokenRevoked,
    TokensForgotten,
    TypesRegistered,
)

# Moves of a run that exists.
OF_RUN: dict[type, Callable[..., None]] = {
    WorkflowCompleted: run.completed,
    WorkflowFailed: run.failed,
    WorkflowTerminated: run.terminated,
    WorkflowCancelRequested: cancel.requested,
    WorkflowCancelled: run.cancelled,
    WorkflowTimedOut: run.timed_out,
    WorkflowContinuedAsNew: run.continued,
    SearchAttributesUpserted: attributes.upserted,
    StepScheduled: activity.scheduled,
    StepCompleted: activity.completed,
    StepFailed: activity.failed,
    StepCancelled: cancel.step_cancelled,
    MarkerRecorded: marker.recorded,
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
    RunResumed: decision.resumed,
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

_CLOSING = frozenset(
    {
        WorkflowCompleted,
        WorkflowFailed,
        WorkflowTerminated,
        WorkflowCancelled,
        WorkflowTimedOut,
        WorkflowContinuedAsNew,
    }
)

# Moves of no run, or that make one: then they return it.
OF_NONE: dict[type, Callable[..., Run | None]] = {
    WorkflowStarted: run.started,
    NamespaceCreated: namespace.created,
    NamespaceUpdated: namespace.updated,
    QuotaSet: namespace.quota_set,
    StartPaid: namespace.start_paid,
    TypesRegistered: namespace.types_registered,
    TokenMinted: token.minted,
    TokenRevoked: token.revoked,
    TokensForgotten: token.forgotten,
}


def evolve(rec: Recorder, subject: Run | None, moves: tuple[Move, ...]) -> None:
    """Make the moves, in order. Without a subject the first is of no run, or makes the run that the
    others are of."""
    if subject is None:
        if not moves:
            return
        subject = OF_NONE[type(moves[0])](rec, moves[0])
        moves = moves[1:]
        if subject is None:
            evolve(rec, None, moves)
            return
    elif subject.stale_decisions >= PATIENCE:
        _under_pressure(rec, subject, moves)
        return
    for move in moves:
        OF_RUN[type(move)](rec, subject, move)


def _under_pressure(rec: Recorder, run: Run, moves: tuple[Move, ...]) -> None:
    """Facts wait while a decision is out. They join when it is not out any more, yet before what
    closes the run."""
    for move in moves:
        if arrivals.must_wait(move, rec, run):
            arrivals.hold(rec, run, move)
            continue
        if run.arrivals and type(move) in _CLOSING:
            _join(rec, run)
        OF_RUN[type(move)](rec, run, move)
    if run.arrivals and run.decision.state is not TaskState.LEASED:
        _join(rec, run)


def _join(rec: Recorder, run: Run) -> None:
    for fact in arrivals.joining(rec, run):
        OF_RUN[type(fact)](rec, run, fact)
