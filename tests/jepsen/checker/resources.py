"""What a node costs does not grow with time once it is warm."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import quantiles

from tests.jepsen.checker.verdict import Verdict, verdict
from tests.jepsen.observer import Sample

S = 1_000_000_000
WARM_S = 120
JUDGED_S = 300  # a shorter run after the warm-up says nothing
RSS_GROWTH, RSS_SLACK_KIB = 1.25, 24 * 1024
DESCRIPTOR_SLACK = 48


def check_resources(samples: Sequence[Sample]) -> Verdict:
    """Of each node, whatever its processes were: the last third of the run against the first one
    after the warm-up. Processes are restarted all the time, so it is the dear ones that count."""
    errors = []
    judged = 0
    begun = min((s.time_ns for s in samples), default=0)
    for node in sorted({s.node for s in samples}):
        warm = [
            s for s in samples if s.node == node and s.rss_kib and s.time_ns > begun + WARM_S * S
        ]
        if not warm or warm[-1].time_ns - warm[0].time_ns < JUDGED_S * S:
            continue
        judged += 1
        third = len(warm) // 3
        first, last = warm[:third], warm[-third:]
        before, after = (_dear([s.rss_kib for s in part]) for part in (first, last))
        if after > before * RSS_GROWTH + RSS_SLACK_KIB:
            errors.append(f"{node}: memory grew from {before:.0f} to {after:.0f} KiB")
        before, after = (_dear([s.descriptors for s in part]) for part in (first, last))
        if after > before + DESCRIPTOR_SLACK:
            errors.append(f"{node}: descriptors grew from {before:.0f} to {after:.0f}")
    most = max((s.rss_kib for s in samples), default=0)
    return verdict(errors, nodes_judged=judged, most_rss_mib=most // 1024)


def _dear(values: Sequence[int]) -> float:
    """The ninth of ten."""
    return quantiles(values, n=10)[-1]
