"""Runs that failed once. CI tries each before anything else.

A run is a function of its seed and of the code: these keep what they were about only roughly, and
the test that came with the fix keeps it exactly. Add what `--shrink` printed, and why it failed.
"""

from tests.sim.cases import Case

REGRESSIONS: tuple[Case, ...] = (
    Case(seed=308069192),  # an emptied disk, born as a cluster of one, founded a second one
    Case(seed=308069296),
    Case(seed=308069197),  # a restart knew an older configuration than the one it had committed
)
