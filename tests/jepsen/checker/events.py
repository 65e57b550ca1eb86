"""The events of runs as the history keeps them after the last heal, and what they say of steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from tests.jepsen.history import Call, named

RESULTS = (
    "step_completed",
    "step_failed",
    "step_cancelled",
    "timer_fired",
    "signal_consumed",
    "child_completed",
    "child_failed",
)
ENDS = (
    "workflow_completed",
    "workflow_failed",
    "workflow_terminated",
    "workflow_cancelled",
    "workflow_timed_out",
    "workflow_continued_as_new",
)
Events = list[dict[str, Any]]


def final_events(calls: Sequence[Call]) -> dict[str, Events]:
    return {call.key: call.result for call in named(calls, "events") if call.ok}


def step_results(events: Events) -> dict[int, Events]:
    found: dict[int, Events] = defaultdict(list)
    for event in events:
        if event["type"] in RESULTS:
            found[event["sequence"]].append(event)
    return found


def ended(events: Events) -> bool:
    return bool(events) and events[-1]["type"] in ENDS


def shape_problems(name: str, events: Events) -> list[str]:
    """True of every history: dense ids, one result a step, one end, time never goes back."""
    errors = []
    if [event["id"] for event in events] != list(range(1, len(events) + 1)):
        errors.append(f"{name}: event ids are not 1, 2, 3...")
    for sequence, results in step_results(events).items():
        if len(results) > 1:
            errors.append(f"{name}: step {sequence} has {len(results)} results: {results}")
    ends = [event["id"] for event in events if event["type"] in ENDS]
    if ends and ends != [len(events)]:
        errors.append(f"{name}: ended by events {ends} of {len(events)}, not once at the end")
    times = [event["time_ms"] for event in events]
    if times != sorted(times):
        errors.append(f"{name}: log time goes back")
    return errors
