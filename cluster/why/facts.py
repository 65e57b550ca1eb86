"""What was gathered, frozen: the causes are pure functions of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
    # What each node tells of itself (own.py), by id, as far as it answers and knows how.
    told: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    now_ms: int = 0
    election_max_ms: int = 800
    configuration_index: int = 0
    feature_level: int = 0
