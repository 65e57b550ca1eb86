"""Events: the public history format."""

from __future__ import annotations

from raftflow.cluster.codec.shapes import OneOf, member
from raftflow.cluster.codec.values import retry_in
from raftflow.engine import events as e
from raftflow.proto.workflow.v1 import history_pb2 as pb

_BODIES: OneOf[e.EventBody] = OneOf(
    "body",
    {
        "workflow_started": member(e.WorkflowStarted, pb.WorkflowStarted),
        "workflow_completed": member(e.WorkflowCompleted, pb.WorkflowCompleted),
        "workflow_failed": member(e.WorkflowFailed, pb.WorkflowFailed),
        "workflow_terminated": member(e.WorkflowTerminated, pb.WorkflowTerminated),
        "workflow_cancelled": member(e.WorkflowCancelled, pb.WorkflowCancelled),
        "workflow_timed_out": member(e.WorkflowTimedOut, pb.WorkflowTimedOut),
        "step_scheduled": member(e.StepScheduled, pb.StepScheduled, retry=retry_in("retry")),
        "step_completed": member(e.StepCompleted, pb.StepCompleted),
        "step_failed": member(e.StepFailed, pb.StepFailed),
        "timer_started": member(e.TimerStarted, pb.TimerStarted),
        "timer_fired": member(e.TimerFired, pb.TimerFired),
        "signal_awaited": member(e.SignalAwaited, pb.SignalAwaited),
        "signal_received": member(e.SignalReceived, pb.SignalReceived),
        "signal_consumed": member(e.SignalConsumed, pb.SignalConsumed),
    },
)


def encode_event(event: e.Event) -> bytes:
    message = pb.HistoryEvent()
    message.event_id = event.event_id
    message.time_ms = event.time_ms
    _BODIES.put(message, event.body)
    return message.SerializeToString()


def decode_event(data: bytes) -> e.Event:
    message = pb.HistoryEvent.FromString(data)
    return e.Event(message.event_id, message.time_ms, _BODIES.take(message))
