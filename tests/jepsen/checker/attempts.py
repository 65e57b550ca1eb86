"""Attempts follow the policy: as many as it allows, in order, after the pauses it asks for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tests.jepsen.checker.events import final_events, step_results
from tests.jepsen.checker.leases import leases_of
from tests.jepsen.checker.verdict import Verdict, shown, verdict
from tests.jepsen.history import FAIL, Call

MS = 1_000_000
SLACK_NS = 100 * MS


def check_attempts(calls: Sequence[Call], *, max_attempts: int, first_backoff_ms: int) -> Verdict:
    """Takes and completions as of leases; all steps have one policy with a backoff that doubles."""
    errors: list[str] = []
    most = failed = 0
    histories = final_events(calls)
    for (workflow_id, sequence), held in leases_of(calls).items():
        name = f"{workflow_id}#{sequence}"
        for earlier, later in pairwise(held):
            rejected = [c for c in earlier.completions if c.ok and "error" in c.arguments]
            if not rejected:
                continue
            failed += 1
            # The task of an attempt between may have been lost on its way to the worker.
            if later.attempt <= earlier.attempt:
                errors.append(
                    f"{name}: attempt {earlier.attempt} failed, the next is {later.attempt}"
                )
            pause_ns = first_backoff_ms * 2 ** (earlier.attempt - 1) * MS
            # One whose outcome is unknown may be what failed it; then the others repeat that.
            tried = [c for c in earlier.completions if c.kind != FAIL and "error" in c.arguments]
            begun = min(call.start_ns for call in tried)
            if later.taken.end_ns < begun + pause_ns - SLACK_NS:
                errors.append(f"{name}: no pause of {pause_ns // MS} ms: {shown(later.taken)}")
        most = max(most, held[-1].attempt)
        if held[-1].attempt > max_attempts:
            errors.append(f"{name}: attempt {held[-1].attempt} of {max_attempts}")
        results = step_results(histories.get(workflow_id, [])).get(sequence, [])
        errors += [
            f"{name} gave up too early or late: {event}"
            for event in results
            if event["type"] == "step_failed" and event.get("attempt") != max_attempts
        ]
    return verdict(errors, most_attempts=most, failed_attempts=failed)
