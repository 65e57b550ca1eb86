"""Events: the public history format."""

from __future__ import annotations

from raftflow.cluster.codec.shapes import OneOf, enum, member, pairs, usually
from raftflow.cluster.codec.values import retry_in
from raftflow.engine import events as e
from raftflow.engine.commands import ParentClosePolicy
from raftflow.engine.limits import USUAL_PRIORITY
from raftflow.proto.workflow.v1 import history_pb2 as pb

_BODIES: OneOf[e.EventBody] = OneOf(
    "body",
    {
        "workflow_started": member(
            e.WorkflowStarted, pb.WorkflowStarted, search_attributes=pairs("search_attributes")
        ),
        "workflow_completed": member(e.WorkflowCompleted, pb.WorkflowCompleted),
        "workflow_failed": member(e.WorkflowFailed, pb.WorkflowFailed),
        "workflow_terminated": member(e.WorkflowTerminated, pb.WorkflowTerminated),
        "workflow_cancel_requested": member(e.WorkflowCancelRequested, pb.WorkflowCancelRequested),
        "workflow_cancelled": member(e.WorkflowCancelled, pb.WorkflowCancelled),
        "workflow_timed_out": member(e.WorkflowTimedOut, pb.WorkflowTimedOut),
        "workflow_continued_as_new": member(e.WorkflowContinuedAsNew, pb.WorkflowContinuedAsNew),
        "search_attributes_upserted": member(
            e.SearchAttributesUpserted,
            pb.SearchAttributesUpserted,
            attributes=pairs("attributes"),
        ),
        "step_scheduled": member(
            e.StepScheduled,
            pb.StepScheduled,
            retry=retry_in("retry"),
            priority=usually("priority", USUAL_PRIORITY),
        ),
        "step_completed": member(e.StepCompleted, pb.StepCompleted),
        "step_failed": member(e.StepFailed, pb.StepFailed),
        "step_cancelled": member(e.StepCancelled, pb.StepCancelled),
        "marker_recorded": member(e.MarkerRecorded, pb.MarkerRecorded),
        "child_started": member(
            e.ChildStarted,
            pb.ChildStarted,
            parent_close_policy=enum("parent_close_policy", ParentClosePolicy),
        ),
        "child_completed": member(e.ChildCompleted, pb.ChildCompleted),
        "child_failed": member(e.ChildFailed, pb.ChildFailed),
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
