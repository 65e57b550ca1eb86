"""Starts as a set: what was acknowledged is found by every later read and listed by every node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from tests.jepsen.checker.verdict import Verdict, shown, verdict
from tests.jepsen.history import FAIL, Call, named


def check_starts(calls: Sequence[Call]) -> Verdict:
    """`start` and `read` by key (the workflow id); `list`: all [id, run id] that a node lists after
    the last heal."""
    starts: dict[str, list[Call]] = defaultdict(list)
    for call in named(calls, "start"):
        starts[call.key].append(call)
    acked = {
        key: min((call for call in made if call.ok), key=lambda call: call.end_ns)
        for key, made in starts.items()
        if any(call.ok for call in made)
    }
    errors: list[str] = []
    for key, made in starts.items():
        run_ids = {call.result["run_id"] for call in made if call.ok}
        if len(run_ids) > 1:
            errors.append(f"{key}: one request, {len(run_ids)} runs: {sorted(run_ids)}")
    for read in named(calls, "read"):
        errors += _read_problem(read, acked.get(read.key))
    never = {key for key, made in starts.items() if all(call.kind == FAIL for call in made)}
    lists = named(calls, "list")
    for call in lists:
        if not call.ok:
            errors.append(f"no list after the last heal: {shown(call)}")
            continue
        listed = dict(call.result)
        lost = sorted(set(acked) - set(listed))
        if lost:
            errors.append(f"lost start: {call.node} does not list {lost[:3]} ({len(lost)} in all)")
        other = [key for key in acked if listed.get(key, "") not in ("", _run(acked[key]))]
        if other:
            errors.append(f"{call.node} lists another run for {other[:3]}")
        ghosts = sorted(never & set(listed))
        if ghosts:
            errors.append(f"{call.node} lists {ghosts[:3]}, whose start surely failed")
    if not lists:
        errors.append("vacuous: no node was asked for its final list")
    return verdict(errors, acknowledged=len(acked), lists=len(lists))


def _run(call: Call) -> str:
    return str(call.result["run_id"])


def _read_problem(read: Call, start: Call | None) -> list[str]:
    if start is None:
        return []
    if read.error == "WORKFLOW_NOT_FOUND" and start.end_ns < read.start_ns:
        return [f"lost start: {shown(start)}, then {shown(read)}"]
    if read.ok and read.result["run_id"] != _run(start):
        return [f"{read.key} was started as {_run(start)}, read: {shown(read)}"]
    return []
