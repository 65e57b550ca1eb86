"""The subclass and what it is a subclass of; its behaviour is in test_scenarios.py."""

import inspect
import re

import pytest
from pysyncobj import SyncObj

from raftflow.cluster.consensus import reviewed
from raftflow.cluster.consensus.core import Core
from raftflow.cluster.consensus.types import ConsensusBroken

PUBLIC = {name for name in vars(SyncObj) if not name.startswith("__")}
OVERRIDES = sorted(name for name in vars(Core) if name in PUBLIC)


def test_the_reviewed_sources_are_those_that_are_installed() -> None:
    reviewed.check_engine()


def test_another_pysyncobj_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SyncObj, "_SyncObj__setState", lambda self, state: None)
    with pytest.raises((ImportError, OSError)):
        reviewed.check_engine()
    monkeypatch.undo()
    monkeypatch.setattr(reviewed.engine, "VERSION", "0.3.18")
    with pytest.raises(ImportError, match="reviewed"):
        reviewed.check_engine()


@pytest.mark.parametrize("name", OVERRIDES)
def test_each_override_names_its_rows_and_was_reviewed(name: str) -> None:
    assert name in reviewed.REVIEWED_SOURCES
    assert re.search(r"\bRows? \d", inspect.getdoc(getattr(Core, name)) or "")


@pytest.mark.parametrize("name", ["_applyCommand", "_checkCommandsToApply"])
def test_what_is_switched_off_says_so(name: str) -> None:
    with pytest.raises(ConsensusBroken):
        getattr(Core, name)(None)
