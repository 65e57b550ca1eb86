"""Signals as a list: all reads are prefixes of one list, in which everything acknowledged stands
once, in real-time order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.jepsen.checker.verdict import Verdict, shown, verdict
from tests.jepsen.history import FAIL, Call, named


def check_appends(calls: Sequence[Call]) -> Verdict:
    """`append` by key with a value unique within it; `read` gives the list."""
    by_key: dict[str, tuple[list[Call], list[Call]]] = defaultdict(lambda: ([], []))
    for call in named(calls, "append"):
        by_key[call.key][0].append(call)
    for call in named(calls, "read"):
        if call.ok:
            by_key[call.key][1].append(call)
    errors: list[str] = []
    longest_of_all = 0
    for key, (appends, reads) in by_key.items():
        longest = max((read.result for read in reads), key=len, default=[])
        longest_of_all = max(longest_of_all, len(longest))
        errors += [f"{key}: {problem}" for problem in _problems(appends, reads, longest)]
    return verdict(errors, keys=len(by_key), longest=longest_of_all)


def _problems(appends: list[Call], reads: list[Call], longest: list[Any]) -> list[str]:
    errors = []
    twice = [value for value, count in Counter(longest).items() if count > 1]
    if twice:
        errors.append(f"recorded twice: {twice[:5]}")
    asked = {call.arguments for call in appends if call.kind != FAIL}
    ghosts = [value for value in longest if value not in asked]
    if ghosts:
        errors.append(f"nobody appended {ghosts[:5]}, or it surely failed")
    places = {value: place for place, value in enumerate(longest)}
    acked = _acknowledged(appends)
    errors += _order_problems(acked, places)
    # A later read may not know less than an earlier one.
    least = 0
    known: list[tuple[float, int]] = []
    for read in sorted(reads, key=lambda call: call.end_ns):
        if read.result != longest[: len(read.result)]:
            errors.append(f"reordered: no prefix of {longest[:12]}…: {shown(read)}")
        least = max(least, len(read.result))
        known.append((read.end_ns, least))
    for read in reads:
        seen = set(read.result)
        missing = [c for c in acked if c.end_ns < read.start_ns and c.arguments not in seen]
        if missing:
            errors.append(f"stale read: {shown(read)} lacks {shown(missing[0])}")
        before = [length for end, length in known if end < read.start_ns]
        if before and before[-1] > len(read.result):
            errors.append(f"stale read: {before[-1]} were read before {shown(read)}")
    return errors


def _acknowledged(appends: list[Call]) -> list[Call]:
    """One call a value, from its first try to its first acknowledgement, in order of those."""
    first: dict[Any, float] = {}
    for call in appends:
        if call.kind != FAIL:
            first[call.arguments] = min(first.get(call.arguments, call.start_ns), call.start_ns)
    taken: dict[Any, Call] = {}
    for call in sorted((call for call in appends if call.ok), key=lambda call: call.end_ns):
        if call.arguments not in taken:
            taken[call.arguments] = replace(call, start_ns=int(first[call.arguments]))
    return [*taken.values()]


def _order_problems(acked: list[Call], places: dict[Any, int]) -> list[str]:
    """Whoever was acknowledged before another was sent stands before it."""
    errors = []
    last_place, last = -1, None
    by_end = sorted(acked, key=lambda call: call.end_ns)
    at = 0
    for call in sorted(acked, key=lambda call: call.start_ns):
        while at < len(by_end) and by_end[at].end_ns < call.start_ns:
            place = places.get(by_end[at].arguments, -1)
            if place > last_place:
                last_place, last = place, by_end[at]
            at += 1
        place = places.get(call.arguments)
        if place is None:
            errors.append(f"lost append: {shown(call)}")
        elif last is not None and place < last_place:
            errors.append(f"reordered: {shown(call)} stands before {shown(last)}")
    return errors
