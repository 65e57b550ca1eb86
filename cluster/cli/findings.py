"""What a check found, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

PROBLEM = "problem"
ADVICE = "advice"


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem makes the exit status 1; an advice does not. ``node`` "" is the whole cluster.
    ``check`` is what was looked at; ``because`` why it is so, each the reason of the one before."""

    severity: str
    node: str
    problem: str
    next: str
    check: str = ""
    because: tuple[str, ...] = ()


def worst_first(found: Iterable[Finding]) -> list[Finding]:
    return sorted(found, key=lambda each: each.severity != PROBLEM)


@dataclass(frozen=True, slots=True)
class Told:
    """What was asked beside `/api/cluster`; empty where a node is too old to tell, or the caller
    may not hear it."""

    ports: Mapping[str, Any] | None = None
    why: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # of each node
    why_log: Mapping[str, Any] | None = None
    why_leader: Mapping[str, Any] | None = None
    # of each node that answers no other node: what its HTTP port said to who asked
    directly: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    namespaces: Sequence[Mapping[str, Any]] = ()
    queues: Sequence[Mapping[str, Any]] = ()


def answers(node: Mapping[str, Any]) -> bool:
    return node.get("applied_index") is not None and bool(node.get("reachable", True))
