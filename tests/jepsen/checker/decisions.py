"""Decision fencing: a decision is made on the history that it saw, or not at all; and once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from tests.jepsen.checker.events import Events, final_events
from tests.jepsen.checker.verdict import Verdict, shown, verdict
from tests.jepsen.history import FAIL, Call, named

# What comes from outside while a decision is out.
_FACTS = ("signal_received", "timer_fired", "step_completed", "step_failed", "signal_consumed")


def check_decisions(calls: Sequence[Call]) -> Verdict:
    """`decide` by workflow id: {token, marker, seen}, `marker` being recorded by this answer alone
    and beginning its events; `seen` is the history length of its task."""
    errors: list[str] = []
    by_token: dict[str, list[Call]] = defaultdict(list)
    by_key: dict[str, list[Call]] = defaultdict(list)
    for call in named(calls, "decide"):
        by_token[call.arguments["token"]].append(call)
        by_key[call.key].append(call)
    for made in by_token.values():
        taken = {call.arguments["marker"] for call in made if call.ok}
        if len(taken) > 1:
            errors.append(f"two decisions of one task were taken: {sorted(taken)}")
    applied = 0
    for workflow_id, events in final_events(calls).items():
        markers = {e["data"]: e for e in events if e["type"] == "marker_recorded"}
        applied += len(markers)
        for call in by_key[workflow_id]:
            event = markers.get(call.arguments["marker"])
            errors += _answer_problems(call, event)
            if event is not None:
                errors += _fence_problems(call, event, events)
    stale = sum(call.error == "DECISION_STALE" for call in named(calls, "decide"))
    return verdict(errors, decisions=applied, stale=stale)


def _answer_problems(call: Call, event: dict[str, Any] | None) -> list[str]:
    if call.ok and event is None:
        return [f"lost decision: {shown(call)} is not in the history"]
    if call.kind == FAIL and event is not None:
        return [f"a refused decision is in the history: {shown(call)}"]
    return []


def _fence_problems(call: Call, event: dict[str, Any], events: Events) -> list[str]:
    unseen = events[call.arguments["seen"] : event["id"] - 1]
    overlooked = [each for each in unseen if each["type"] in _FACTS]
    if overlooked:
        return [f"decided on old history: {shown(call)} overlooked {overlooked[0]}"]
    return []
