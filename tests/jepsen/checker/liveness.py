"""After the last heal all is well again: every node takes part, and as fast as before."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from tests.jepsen.checker.verdict import Verdict, shown, verdict
from tests.jepsen.history import Call, named

MS = 1_000_000


def check_liveness(
    calls: Sequence[Call], *, nodes: Sequence[str], settle_ms: int = 10_000
) -> Verdict:
    """`probe` by phase (`before` or `after`): a start through one node. `indexes`: {node: applied
    index} once they were equal, or what they were when patience ended."""
    errors: list[str] = []
    probes = named(calls, "probe")
    before = [call for call in probes if call.key == "before" and call.ok]
    after = [call for call in probes if call.key == "after"]
    last = {call.node: call for call in after}
    for node in nodes:
        call = last.get(node)
        if call is None:
            errors.append(f"vacuous: {node} was not asked after the last heal")
        elif not call.ok:
            errors.append(f"{node} does not serve after the last heal: {shown(call)}")
    if after:
        begun = min(call.start_ns for call in after)
        settled = [_ms(c) for c in after if c.ok and c.start_ns > begun + settle_ms * MS]
        usual = median(map(_ms, before)) if before else 0.0
        if settled and before and median(settled) > max(5 * usual, usual + 500):
            errors.append(f"slow after the heal: {median(settled):.0f} ms, before {usual:.0f} ms")
    indexes = named(calls, "indexes")
    if not indexes:
        errors.append("vacuous: nobody compared the nodes' indexes after the last heal")
    errors += [
        f"the nodes do not come to one index within 30 s: {call.result}"
        for call in indexes
        if not call.ok
    ]
    return verdict(errors, probes=len(after))


def _ms(call: Call) -> float:
    return (call.end_ns - call.start_ns) / MS


def check_manners(calls: Sequence[Call]) -> Verdict:
    """No call ends in anything but an answer, a refusal, 503 or silence."""
    return verdict([f"{shown(call)}" for call in calls if call.error.startswith("BROKEN")])
