"""What was gathered, frozen: the causes are pure functions of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """The cluster as the answering node sees it: its rows of `/api/cluster`, those of others as
    far as they answered."""

    node: str  # which answers
    leader: str | None
    term: int
    nodes: Sequence[Mapping[str, Any]]
    elections: Sequence[Mapping[str, Any]] = ()
