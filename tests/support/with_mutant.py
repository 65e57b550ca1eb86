"""A pytest plugin: the whole session runs with the bug that RAFTFLOW_MUTANT names.

`python -m tests.sim.run --mutants` uses it for bugs that tests of other layers must catch.
"""

import os
from collections.abc import Iterator

import pytest

from tests.sim.cases import mutant_named


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop() -> Iterator[None]:
    with mutant_named(os.environ["RAFTFLOW_MUTANT"]).applied():
        return (yield)
