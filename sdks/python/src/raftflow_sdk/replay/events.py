"""From a run's history back to the workflow tasks that were made of it."""

from collections.abc import Mapping, Sequence
from typing import Any

from raftflow_sdk import payloads
from raftflow_sdk.replay.markers import SUGGESTED

Event = Mapping[str, Any]
Step = dict[str, Any]

STARTING = {
    "StepScheduled": "ACTIVITY",
    "TimerStarted": "TIMER",
    "SignalAwaited": "SIGNAL",
    "MarkerRecorded": "MARKER",
    "ChildStarted": "CHILD",
}
"""The events that begin a step, with its kind."""

CLOSING = {
    "WorkflowCompleted": "complete_workflow",
    "WorkflowFailed": "fail_workflow",
    "WorkflowCancelled": "fail_workflow",
    "WorkflowContinuedAsNew": "continue_as_new",
}
"""The events by which code may end its run, with the command that does it."""


def task_at(events: Sequence[Event], length: int, begun: int = 0) -> dict[str, Any]:
    """The workflow task of the moment when the history had `length` events.

    With `begun`, the first so many steps are there even if they began later: as a decision sees
    them that is made once more.
    """
    started = events[0]
    if started["type"] != "WorkflowStarted":
        raise ValueError(f"a history begins with WorkflowStarted, not with {started['type']}")
    task: dict[str, Any] = {
        "workflow_id": started.get("workflow_id", ""),
        "run_id": started.get("run_id", ""),
        "workflow_type": started.get("workflow_type", ""),
        "task_token": f"history/{length}",
        "history_length": length,
        "started_at": started.get("time", ""),
        "traceparent": started.get("traceparent", ""),
        "tracestate": started.get("tracestate", ""),
        "suggest_continue_as_new_at": _limit(events),
        "steps": _steps(events, length, begun),
    }
    _copy(started, "input", task, "input")
    untaken = _untaken_signals(events[:length])
    task["signals"] = [_signal(event) for event in untaken.values()]
    for event in events[:length]:
        if event["type"] == "WorkflowCancelRequested":
            task["cancel_requested_event_id"] = event["event_id"]
            task["cancel_requested_at"] = event.get("time", "")
            task["cancel_reason"] = event.get("reason", "")
    return task


def _steps(events: Sequence[Event], length: int, begun: int) -> list[Step]:
    steps: list[Step] = []
    signals: dict[int, Event] = {}
    for event in events:
        seen = event["event_id"] <= length
        kind = STARTING.get(event["type"])
        if kind is not None and (seen or len(steps) < begun):
            steps.append(_begun(event, kind))
        elif seen and event["type"] == "SignalReceived":
            signals[event["event_id"]] = event
        elif seen and event["type"] in _RESULTS:
            _resolve(steps[event["sequence"] - 1], event, signals)
    return steps


def _untaken_signals(events: Sequence[Event]) -> dict[int, Event]:
    signals = {event["event_id"]: event for event in events if event["type"] == "SignalReceived"}
    for event in events:
        if event["type"] == "SignalConsumed":
            del signals[event["signal_event_id"]]
    return signals


def _signal(event: Event) -> dict[str, Any]:
    signal = {"name": event.get("name", "")}
    _copy(event, "payload", signal, "payload")
    return signal


def _limit(events: Sequence[Event]) -> int:
    """Where the code was told to go on in a new run; the cluster's setting then."""
    for event in events:
        if event["type"] == "MarkerRecorded" and event["step_name"] == SUGGESTED:
            return int(payloads.get(event, "data"))
    return 0


def _begun(event: Event, kind: str) -> Step:
    step: Step = {
        "step_name": event.get("step_name", ""),
        "sequence": event["sequence"],
        "kind": kind,
        "status": "SCHEDULED",
    }
    if kind == "CHILD":
        step["workflow_id"] = event.get("workflow_id", "")
    if kind == "MARKER":
        step["marker"] = event.get("marker", "")
        _resolved(step, event, "COMPLETED")
        _copy(event, "data", step, "output")
    return step


def _resolve(step: Step, event: Event, signals: dict[int, Event]) -> None:
    _resolved(step, event, _RESULTS[event["type"]])
    if event["type"] == "SignalConsumed":
        _copy(signals[event["signal_event_id"]], "payload", step, "output")
    elif step["status"] == "COMPLETED":
        _copy(event, "output", step, "output")
    elif step["status"] == "CANCELLED":
        step["error"] = event.get("reason", "")
    else:
        step["error"] = event.get("error", "")
        step["error_type"] = event.get("error_type", "")
        step["non_retryable"] = bool(event.get("non_retryable"))
    if step["kind"] == "ACTIVITY":
        step["attempts"] = event.get("attempt", 0)
    if step["kind"] == "CHILD" and event.get("run_id"):
        step["run_id"] = event["run_id"]


def _resolved(step: Step, event: Event, status: str) -> None:
    step["status"] = status
    step["resolved_event_id"] = event["event_id"]
    step["resolved_at"] = event.get("time", "")


_RESULTS: dict[str, str] = {
    "StepCompleted": "COMPLETED",
    "StepFailed": "FAILED",
    "StepCancelled": "CANCELLED",
    "TimerFired": "COMPLETED",
    "SignalConsumed": "COMPLETED",
    "ChildCompleted": "COMPLETED",
    "ChildFailed": "FAILED",
}


def _copy(source: Event, field: str, target: dict[str, Any], name: str) -> None:
    """A payload, as text or exact bytes."""
    for suffix in ("", "_base64"):
        if field + suffix in source:
            target[name + suffix] = source[field + suffix]
