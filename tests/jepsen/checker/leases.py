"""Leases: never two holders at once, whatever froze; who was superseded is not heard.

A lease is surely held until it was completed or failed, or `lease_ms` after the later of: its
earliest possible grant (when its poll began, or the step's last attempt ended), and the moment its
last acknowledged heartbeat was sent. Who is handed the step before that holds it together with
another.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tests.jepsen.checker.verdict import Verdict, shown, verdict
from tests.jepsen.history import Call, named

MS = 1_000_000
# Timestamps are taken in threads of a busy machine, after the answer was there.
SLACK_NS = 50 * MS


@dataclass
class Lease:
    taken: Call
    beats: list[Call] = field(default_factory=list)
    completions: list[Call] = field(default_factory=list)

    @property
    def token(self) -> str:
        return str(self.taken.result["token"])

    @property
    def attempt(self) -> int:
        return int(self.taken.result["attempt"])

    def released_ns(self) -> float:
        """The earliest moment at which its holder may have given it up."""
        ended = [call.start_ns for call in self.completions if call.kind != "fail"]
        return min(ended, default=float("inf"))

    def held_until_ns(self, not_before: float) -> float:
        """Surely held until then; `not_before`: the step was not free earlier."""
        begun = max(self.taken.start_ns, not_before)
        alive = [call.start_ns for call in self.beats if call.ok]
        duration = self.taken.result["lease_ms"] * MS
        return min(max([begun, *alive]) + duration, self.released_ns())


def leases_of(calls: Sequence[Call]) -> dict[tuple[str, int], list[Lease]]:
    """By (workflow id, sequence), in the order in which they were handed out."""
    steps: dict[tuple[str, int], list[Lease]] = defaultdict(list)
    by_token: dict[str, Lease] = {}
    for call in sorted(named(calls, "take"), key=lambda call: call.end_ns):
        if call.ok and call.result:
            lease = Lease(call)
            steps[call.result["workflow_id"], call.result["sequence"]].append(lease)
            by_token.setdefault(lease.token, lease)
    for call in named(calls, "beat"):
        by_token[call.key].beats.append(call)
    for call in named(calls, "complete"):
        by_token[call.key].completions.append(call)
    return steps


def check_leases(calls: Sequence[Call]) -> Verdict:
    errors: list[str] = []
    steps = leases_of(calls)
    superseded = 0
    for (workflow_id, sequence), held in steps.items():
        name = f"{workflow_id}#{sequence}"
        free_ns = 0.0
        for earlier, later in pairwise(held):
            superseded += 1
            errors += _pair_problems(name, earlier, later, free_ns)
            free_ns = earlier.released_ns() if earlier.released_ns() < later.taken.end_ns else 0.0
    return verdict(errors, leases=sum(map(len, steps.values())), superseded=superseded)


def _pair_problems(name: str, earlier: Lease, later: Lease, free_ns: float) -> list[str]:
    errors = []
    if earlier.token == later.token:
        return [f"{name}: one lease was handed out twice: {shown(later.taken)}"]
    until = earlier.held_until_ns(free_ns)
    if later.taken.end_ns < until - SLACK_NS:
        errors.append(
            f"overlapping leases: {name} attempt {earlier.attempt} is surely held until "
            f"{until / 1e9:.3f}, taken again: {shown(later.taken)}"
        )
    if later.attempt < earlier.attempt:
        errors.append(f"{name}: attempt {later.attempt} came after {earlier.attempt}")
    accepted = min((c.end_ns for c in earlier.completions if c.ok), default=float("inf"))
    # What was taken in time may be repeated for ever.
    heard = [
        call
        for call in [*earlier.completions, *earlier.beats]
        if call.ok and call.start_ns > later.taken.end_ns and accepted >= call.end_ns
    ]
    return errors + [f"{name}: a superseded token was heard: {shown(call)}" for call in heard]


def check_no_mass_expiry(calls: Sequence[Call]) -> Verdict:
    """Whoever beat in time kept the lease, whatever happened to the leader: nothing was refused for
    a lease that was surely alive."""
    errors = []
    for (workflow_id, sequence), held in leases_of(calls).items():
        for lease in held:
            for call in [*lease.beats, *lease.completions]:
                if call.error != "LEASE_LOST" or call.end_ns > lease.released_ns():
                    continue
                before = [b for b in lease.beats if b.ok and b.end_ns < call.start_ns]
                alive = max([lease.taken.start_ns, *(b.start_ns for b in before)])
                if call.end_ns < alive + lease.taken.result["lease_ms"] * MS - SLACK_NS:
                    errors.append(f"expired alive: {workflow_id}#{sequence}: {shown(call)}")
    return verdict(errors)
