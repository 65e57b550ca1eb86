"""Whole workflows of the real SDK with one attempt a step: nothing lost, nothing done twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from tests.jepsen.checker.events import Events, ended, final_events, shape_problems
from tests.jepsen.checker.verdict import Verdict, shown, verdict
from tests.jepsen.history import FAIL, Call, named

# What a worker may say under fire: all nodes are down, or it or they stood still for too long, or a
# node took an answer with it and was not there to give it again.
_TRUE_WORDS = ("no node has answered", "lost with its lease", "comes back with its lease")


def complaints(lines: Iterable[str]) -> list[str]:
    """What workers said, without what faults make true."""
    return [line for line in lines if not any(true in line for true in _TRUE_WORDS)]


def check_sagas(calls: Sequence[Call]) -> Verdict:
    """By workflow id: `start`, `signal` with its payload, `terminate`, `read` (status and signals),
    `events`. `ran`: {activity and input: times}; `said`: what workers printed."""
    errors: list[str] = []
    by_key: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        by_key[call.key].append(call)
    expired = 0
    histories = final_events(calls)
    for key, events in histories.items():
        errors += shape_problems(key, events)
        errors += _problems(key, by_key[key], events)
        expired += _expired(events)
    for call in named(calls, "ran"):
        twice = {line: times for line, times in (call.result or {}).items() if times != 1}
        if twice:
            errors.append(f"ran more than once with a policy of one attempt: {twice}")
    for call in named(calls, "said"):
        errors += [f"a worker complains: {line}" for line in complaints(call.result or ())]
    return verdict(errors, sagas=len(histories), expired_leases=expired)


def _problems(key: str, made: list[Call], events: Events) -> list[str]:
    errors = []
    runs = {call.result["run_id"] for call in named(made, "start") if call.ok}
    if len(runs) > 1:
        errors.append(f"{key}: one request, runs {sorted(runs)}")
    signals = named(made, "signal")
    acked = [call.arguments for call in signals if call.ok]
    acked = list(dict.fromkeys(acked))
    received = [event["payload"] for event in events if event["type"] == "signal_received"]
    if len(received) != len(set(received)):
        errors.append(f"{key}: a signal was recorded twice: {received}")
    if [payload for payload in received if payload in acked] != acked:
        errors.append(f"{key}: signals {acked} acknowledged, recorded {received}")
    asked = {call.arguments for call in signals if call.kind != FAIL}
    if not set(received) <= asked:
        errors.append(f"{key}: signals that nobody sent, or that surely failed: {received}")
    terminated = any(call.ok for call in named(made, "terminate"))
    if terminated and events[-1]["type"] != "workflow_terminated":
        errors.append(f"{key}: terminated, but ends with {events[-1]}")
    if "yes" in acked and not ended(events):
        errors.append(f"{key} stays open, its last event is {events[-1]}")
    if events[-1]["type"] == "workflow_failed" and not _expired(events):
        errors.append(f"{key} failed: {events[-1]}")
    errors += _read_problems(key, made)
    return errors


def _read_problems(key: str, made: list[Call]) -> list[str]:
    errors = []
    for read in named(made, "read"):
        before = [call for call in made if call.ok and call.end_ns < read.start_ns]
        acked = list(dict.fromkeys(call.arguments for call in named(before, "signal")))
        if read.error == "WORKFLOW_NOT_FOUND" and named(before, "start"):
            errors.append(f"lost start: {shown(read)}")
        if not read.ok:
            continue
        if [each for each in read.result["signals"] if each in acked] != acked:
            errors.append(f"stale read: {acked} were acknowledged before {shown(read)}")
        if named(before, "terminate") and read.result["status"] != "TERMINATED":
            errors.append(f"{key} was terminated before {shown(read)}")
    return errors


def _expired(events: Sequence[dict[str, Any]]) -> int:
    return sum(event.get("error_type") == "LeaseExpired" for event in events)
