"""What was gathered, frozen: the causes are pure functions of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from raftflow.cluster.leader_facts import LeaseFacts
from raftflow.cluster.refused_calls import RefusedCall
from raftflow.cluster.work_facts import Work
from raftflow.engine.state import Run, Step


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


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFacts:
    """Of one task: a step's, or with ``step`` None the run's workflow task."""

    run: Run
    step: Step | None
    now_ms: int
    work: Work  # of its namespace and queue
    around: Work  # of all queues that the asker may see
    lease: LeaseFacts | None = None  # None: none is held, or nobody could be asked
    lease_untold: str = ""  # why nobody could
    refused: tuple[RefusedCall, ...] = ()
    hosted: frozenset[str] = frozenset()  # workflow types that the nodes themselves poll for


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """``run`` is a copy: what it was when it was read. ``task``: of the wait that is looked into,
    ``child`` of the child that it waits for. ``leaderless``: nobody confirmed that this is the
    newest state, and the cluster as this node sees it says why."""

    namespace: str
    workflow_id: str
    run_id: str  # as asked: "" is the newest
    now_ms: int
    run: Run | None = None
    damage: str = ""  # why its rows cannot be read
    step: Step | None = None  # that is looked into
    task: TaskFacts | None = None
    child: RunFacts | None = None
    refused: tuple[RefusedCall, ...] = ()
    elsewhere: tuple[str, ...] = ()  # namespaces in which the id is, when it is not in its own
    failed_at: Mapping[str, str] = field(default_factory=dict)  # worker and node of a failed step
    leaderless: ClusterFacts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFacts:
    """``waiting``: how many tasks wait, by kind and then by activity or workflow type."""

    namespace: str
    queue: str
    now_ms: int
    work: Work
    around: Work
    waiting: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    untold: str = ""  # why that is not known
    refused: tuple[RefusedCall, ...] = ()
    hosted: frozenset[str] = frozenset()
    leaderless: ClusterFacts | None = None
