"""The pytest plugin: the fixture `raftflow_env`, and `crash_everywhere` and `duplicate_activities`
as fixtures for those who like them so."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from raftflow.testing.environment import Environment


@pytest.fixture
def raftflow_env() -> Environment:
    """A fresh environment: an engine in this process that skips time."""
    from raftflow.testing.environment import Environment

    return Environment()


@pytest.fixture
def crash_everywhere() -> Callable[..., list[str]]:
    """`raftflow.testing.crash_everywhere`."""
    from raftflow.testing.faults import crash_everywhere

    return crash_everywhere


@pytest.fixture
def duplicate_activities() -> Callable[..., list[str]]:
    """`raftflow.testing.duplicate_activities`."""
    from raftflow.testing.faults import duplicate_activities

    return duplicate_activities
