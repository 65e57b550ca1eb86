"""What users test their workflows with: an engine in the test's own process, which skips time, and
faults that every workflow has to survive.

Names are loaded when they are first used: pytest loads the plugin of this package in every project
that has it installed, whether its tests need the engine or not.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if __name__ != "raftflow.testing":
    raise ImportError("import this package as raftflow.testing")

if TYPE_CHECKING:
    from raftflow.testing.environment import Environment
    from raftflow.testing.fakes import DIES, HANGS, NOBODY, fails, in_turn, takes
    from raftflow.testing.faults import Broken, crash_everywhere, duplicate_activities
    from raftflow.testing.run import Run, StillOpen

_HOME = {
    "Environment": "environment",
    "Run": "run",
    "StillOpen": "run",
    "DIES": "fakes",
    "HANGS": "fakes",
    "NOBODY": "fakes",
    "fails": "fakes",
    "in_turn": "fakes",
    "takes": "fakes",
    "Broken": "faults",
    "crash_everywhere": "faults",
    "duplicate_activities": "faults",
}

__all__ = [
    "DIES",
    "HANGS",
    "NOBODY",
    "Broken",
    "Environment",
    "Run",
    "StillOpen",
    "crash_everywhere",
    "duplicate_activities",
    "fails",
    "in_turn",
    "takes",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
