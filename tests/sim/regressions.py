"""Runs that failed once. CI tries each before anything else.

A run is a function of its seed and of the code: these keep what they were about only roughly, and
the test that came with the fix keeps it exactly. Add what `--shrink` printed, and why it failed.
"""

from tests.sim.cases import Case

REGRESSIONS: tuple[Case, ...] = (
    # An emptied disk that is started with the members of long ago founds a second cluster. Who
    # operates names the present ones; the design of consensus, "What it does not do", has the rest.
    Case(seed=308069192),
    Case(seed=308069296),
    # A leader whose own disk fails as it writes down a configuration that the others hold ends
    # before it has told or done anything by it: it starts with the one before, and must not count
    # as having known.
    Case(seed=308069197),
    Case(seed=10054),
    # Of two voters one abstains, and has the longer log: neither can lead.
    Case(seed=10300),
    # A learner with nothing on its disk was made a voter in haste: it votes for nobody.
    Case(seed=301729),
    # A node in term 0, its disk empty, was asked for a read: its answer broke the connection.
    Case(seed=301606),
    # The leader alone knew of a third voter when its log rotted: by what the others knew, one of
    # two voters abstained. No damage before who votes is committed.
    Case(seed=501042),
)
