"""Timers: never early, by log time and by the clock on the wall; once; and none is lost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from tests.jepsen.checker.events import ended, final_events
from tests.jepsen.checker.verdict import Verdict, shown, verdict
from tests.jepsen.history import FAIL, Call, named

MS = 1_000_000
# Log time follows the median of the nodes' clocks, and may gain a 32nd to catch up with it.
FASTEST = 1 + 1 / 32
SLACK_MS = 100

# By (workflow id, sequence): the decisions that asked for it, with its delay.
_Started = dict[tuple[str, int], list[tuple[Call, int]]]


def check_timers(calls: Sequence[Call], *, healed_ns: float, bound_ms: int) -> Verdict:
    """`decide` by workflow id with arguments {timers: [[sequence, delay_ms]]}; `poll` results show
    which timers have fired by then: {workflow_id, fired: [sequences]}; `events` after the heal."""
    errors: list[str] = []
    started: _Started = defaultdict(list)
    for call in named(calls, "decide"):
        for sequence, delay_ms in call.arguments.get("timers", ()):
            if call.kind != FAIL:
                started[call.key, sequence].append((call, delay_ms))
    errors += _early_by_the_wall(calls, started)
    fired = lost = 0
    lags: list[int] = []
    asked_ns = {call.key: call.start_ns for call in named(calls, "events") if call.ok}
    for workflow_id, events in final_events(calls).items():
        armed = {e["sequence"]: e for e in events if e["type"] == "timer_started"}
        ends: dict[int, list[dict[str, object]]] = defaultdict(list)
        for event in events:
            if event["type"] not in ("timer_fired", "step_cancelled"):
                continue
            sequence = event["sequence"]
            ends[sequence].append(event)
            if event["type"] == "timer_fired":
                fired += 1
                timer = armed[sequence]
                lag = event["time_ms"] - timer["time_ms"] - timer.get("delay_ms", 0)
                lags.append(lag)
                if lag < 0:
                    errors.append(f"early timer: {workflow_id}#{sequence} by {-lag} ms of log time")
        for sequence, timer in armed.items():
            if len(ends[sequence]) > 1:
                errors.append(f"{workflow_id}#{sequence} ended twice: {ends[sequence]}")
            known = started.get((workflow_id, sequence))
            if ends[sequence] or ended(events) or not known:
                continue
            begun_ns = max(call.start_ns for call, _delay_ms in known)
            due_ns = max(begun_ns + timer.get("delay_ms", 0) * MS, healed_ns)
            if due_ns + bound_ms * MS < asked_ns[workflow_id]:
                lost += 1
                errors.append(f"lost timer: {workflow_id}#{sequence} is due and has not fired")
    worst = max(lags, default=0)
    return verdict(errors, timers=len(started), fired=fired, lost=lost, worst_lag_ms=worst)


def _early_by_the_wall(calls: Sequence[Call], started: _Started) -> list[str]:
    """Of a decision that was given twice, since its first outcome is unknown, either may count."""
    errors = []
    for call in named(calls, "poll"):
        if not call.ok or not call.result:
            continue
        for sequence in call.result.get("fired", ()):
            name = (call.result["workflow_id"], sequence)
            early = [
                (delay_ms, (call.end_ns - begun.start_ns) / MS)
                for begun, delay_ms in started.get(name, ())
            ]
            if early and all(took < delay / FASTEST - SLACK_MS for delay, took in early):
                errors.append(
                    f"early timer: {name[0]}#{sequence} of {early[0][0]} ms had fired "
                    f"{early[0][1]:.0f} ms after it was asked for: {shown(call)}"
                )
    return errors
