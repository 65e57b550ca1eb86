"""Reads of a value that one writer counts up: none is older than what was known before it began.

Cheaper than a search for an order, so that every read of a run can be held to it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence

from tests.jepsen.checker.verdict import Verdict, shown, verdict
from tests.jepsen.history import FAIL, Call, named


def check_reads(calls: Sequence[Call]) -> Verdict:
    """`write` by key with a rising number, one after the other; `read` gives a number."""
    by_key: dict[str, list[Call]] = defaultdict(list)
    for call in named(calls, "write", "read"):
        if call.ok or (call.f == "write" and call.kind != FAIL):
            by_key[call.key].append(call)
    errors: list[str] = []
    for made in by_key.values():
        errors += _problems(made)
    return verdict(errors, counters=len(by_key))


def _problems(made: list[Call]) -> list[str]:
    known = sorted((call for call in made if call.ok), key=lambda call: call.end_ns)
    ends = [call.end_ns for call in known]
    newest: list[Call] = []
    for call in known:
        newest.append(call if not newest or _number(call) >= _number(newest[-1]) else newest[-1])
    asked: dict[int, Call] = {}
    for call in made:
        if call.f == "write":
            asked.setdefault(call.arguments, call)  # its first try
    errors = []
    for read in made:
        if read.f != "read":
            continue
        at = bisect_left(ends, read.start_ns)
        if at and _number(read) < _number(newest[at - 1]):
            errors.append(f"stale read: {shown(read)}, after {shown(newest[at - 1])}")
        write = asked.get(read.result)
        if read.result and write is None:
            errors.append(f"nobody wrote this: {shown(read)}")
        elif write is not None and write.start_ns > read.end_ns:
            errors.append(f"read before it was written: {shown(read)}")
    return errors


def _number(call: Call) -> int:
    return int(call.result if call.f == "read" else call.arguments)
