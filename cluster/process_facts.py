"""What the process of this node may have open, and has."""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass

_OPEN = "/proc/self/fd"  # Linux


@dataclass(frozen=True, slots=True)
class Connections:
    """Of the JSON API. `wanted` is the setting; the system may allow fewer."""

    open: int
    most: int
    wanted: int


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    open_files: int | None
    open_files_limit: int | None
    connections: int | None
    connections_limit: int | None
    connections_wanted: int | None


def process_facts(connections: Connections | None) -> ProcessFacts:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return ProcessFacts(
        open_files=_open_files(),
        open_files_limit=None if soft == resource.RLIM_INFINITY else soft,
        connections=connections.open if connections else None,
        connections_limit=connections.most if connections else None,
        connections_wanted=connections.wanted if connections else None,
    )


def _open_files() -> int | None:
    try:
        return len(os.listdir(_OPEN)) - 1  # one of them is this look
    except OSError:
        return None
