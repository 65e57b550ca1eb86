"""After the last heal all is well again: every node takes part, and as fast as before."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from tests.jepsen.checker.verdict import Verdict, shown, verdict
from tests.jepsen.history import Call, named

MS = 1_000_000
SETTLE_MS = 10_000
# A machine that does other things as well is not slow before this.
TIMES_AS_LONG, PATIENCE_MS = 5, 1_000


def check_liveness(calls: Sequence[Call], *, nodes: Sequence[str]) -> Verdict:
    """`probe` by phase: a start through one node, `before` the faults and `after` the last
    heal. `indexes`: {node: [applied index, digest]}, ok when they came to be equal."""
    errors: list[str] = []
    probes = named(calls, "probe")
    before = [_ms(call) for call in probes if call.key == "before" and call.ok]
    after = [call for call in probes if call.key == "after"]
    begun_ns = min((call.start_ns for call in after), default=0)
    late = [call for call in after if call.start_ns > begun_ns + SETTLE_MS * MS]
    for node in nodes:
        asked = [call for call in late if call.node == node]
        if not asked:
            errors.append(f"vacuous: {node} was not asked {SETTLE_MS} ms after the last heal")
        elif not any(call.ok for call in asked):
            errors.append(f"{node} does not serve after the last heal: {shown(asked[-1])}")
    usual = median(before) if before else 0.0
    settled = [call for call in late if call.ok]
    now = median([_ms(call) for call in settled] or [0.0])
    if not before:
        errors.append("vacuous: nobody knows how fast it was before")
    elif not settled:
        errors.append(f"vacuous: nobody asked {SETTLE_MS} ms after the last heal")
    elif now > max(TIMES_AS_LONG * usual, usual + PATIENCE_MS):
        errors.append(f"slow {SETTLE_MS} ms after the heal: {now:.0f} ms, before {usual:.0f} ms")
    indexes = named(calls, "indexes")
    if not indexes:
        errors.append("vacuous: nobody compared the nodes' indexes after the last heal")
    errors += [
        f"the nodes do not come to one index within 30 s: {call.result}"
        for call in indexes
        if not call.ok
    ]
    return verdict(errors, before_ms=round(usual), after_ms=round(now))


def _ms(call: Call) -> float:
    return (call.end_ns - call.start_ns) / MS


def check_manners(calls: Sequence[Call]) -> Verdict:
    """No call ends in anything but an answer, a refusal, 503 or silence."""
    return verdict([shown(call) for call in calls if call.error.startswith("BROKEN")])
