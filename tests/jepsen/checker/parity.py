"""Both APIs show the same and refuse for the same reason, on every node."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence

from tests.jepsen.checker.verdict import Verdict, shown, verdict
from tests.jepsen.history import FAIL, Call, named

# Of the node or the connection, not of what was asked.
_PASSING = ("NOT_CONNECTED", "UNAVAILABLE", "OVERLOADED", "RESOURCE_EXHAUSTED")


def check_parity(calls: Sequence[Call]) -> Verdict:
    """`same` by key: calls that must all have one outcome, since nothing changes between them."""
    groups: dict[str, list[Call]] = defaultdict(list)
    for call in named(calls, "same"):
        if call.ok or (call.kind == FAIL and call.error not in _PASSING):
            groups[call.key].append(call)
    errors = []
    compared = 0
    for key, made in groups.items():
        seen = {call.api for call in made}
        compared += len(seen) > 1
        outcomes = {
            f"ok {json.dumps(call.result, sort_keys=True)}" if call.ok else f"fail {call.error}"
            for call in made
        }
        if len(outcomes) > 1:
            errors.append(f"{key}: {len(outcomes)} answers: " + "; ".join(map(shown, made[:4])))
    return verdict(errors, compared=compared)
