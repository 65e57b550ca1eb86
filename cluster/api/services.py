"""What the handlers need from the node: one frozen object of ports, built by cluster/node.py.

The ports are the public faces of the parts below (forwarding, reads, dispatch, replica, store,
consensus); tests put a single node without Raft behind them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from raftflow.cluster.api.auth import Tokens
from raftflow.cluster.attempts import Attempts
from raftflow.cluster.backup.source import Taken
from raftflow.cluster.checkpoints import Made
from raftflow.cluster.config import Config
from raftflow.cluster.consensus.types import Election
from raftflow.cluster.dispatch import Poll
from raftflow.cluster.features import Levels
from raftflow.cluster.figures import NodeFigures
from raftflow.cluster.handover import Handed
from raftflow.cluster.leader_facts import LeaderFacts
from raftflow.cluster.metrics import Metrics
from raftflow.cluster.peer_reports import PeerReports
from raftflow.cluster.ports import Ports
from raftflow.cluster.presence import Presence
from raftflow.cluster.refused_calls import RefusedCalls
from raftflow.cluster.store.views import (
    AuditFilter,
    AuditPage,
    Chain,
    RunCounts,
    RunFilter,
    RunPage,
    RunSummary,
)
from raftflow.cluster.tls import Credentials
from raftflow.cluster.work_facts import Wanted, Work
from raftflow.engine.commands import Batch, Command, EagerPoll
from raftflow.engine.ids import RunKey, WorkflowKey
from raftflow.engine.rejections import Answer
from raftflow.engine.state import Catalog, Run, Signal

# Executes a completion with its eager poll; the tokens of the tasks that went to it.
CompleteWith = Callable[[EagerPoll], Awaitable[tuple[str, ...]]]


class Forwarder(Protocol):
    """Any node's way to the leader. Raises Unavailable or Overloaded (cluster/errors.py)."""

    async def execute(
        self, command: Command, *, command_id: str | None = None, deadline_ms: int | None = None
    ) -> Answer: ...


class Reads(Protocol):
    async def linearizable(self) -> int:
        """A read index that a majority confirmed and this node has applied; or Unavailable."""
        ...


class Dispatch(Protocol):
    """Polls park on the node they arrive at. A poll that is cancelled returns its tasks."""

    async def poll_decision(self, poll: Poll, *, timeout_ms: int) -> Sequence[Any]: ...

    async def poll_activity(self, poll: Poll, *, timeout_ms: int) -> Sequence[Any]: ...

    async def eager_decision(self, poll: Poll, complete: CompleteWith) -> Sequence[Any]:
        """Complete a task and take what that queues: ``complete`` is given the eager poll."""
        ...

    async def eager_activity(self, poll: Poll, complete: CompleteWith) -> Sequence[Any]: ...

    async def heartbeat(
        self,
        namespace: str,
        workflow_id: str,
        lease_token: str,
        worker_id: str,
        details: bytes | None,
    ) -> None:
        """Raises LeaseLost or Unavailable."""
        ...

    async def settle(self, lease_token: str) -> None:
        """Record what is known of the progress of an attempt that has failed."""
        ...

    def return_task(self, namespace: str, workflow_id: str, token: str) -> None:
        """Queue a task again that could not be handed over."""
        ...


class Pollers(Protocol):
    """`cluster.pollers.Pollers`: queues and workers of the whole cluster."""

    async def work(self, wanted: Wanted = ...) -> Work: ...


class Replica(Protocol):
    @property
    def applied_index(self) -> int: ...

    @property
    def digest(self) -> bytes: ...

    @property
    def catalog(self) -> Catalog: ...

    @property
    def time_ms(self) -> int: ...

    @property
    def snapshot_age_seconds(self) -> float: ...

    async def wait_applied(self, index: int, *, timeout_ms: int) -> None:
        """Raises TimeoutError."""
        ...

    async def run_view(self, namespace: str, workflow_id: str, run_id: str = "") -> Run | None: ...

    async def written(self, index: int) -> None:
        """The store has what was applied up to ``index``."""
        ...

    def subscribe(self, listener: Callable[[Any, Batch], None]) -> None: ...


class Store(Protocol):
    @property
    def checkpointed_index(self) -> int: ...

    async def list_runs(self, wanted: RunFilter) -> RunPage: ...

    async def runs_of(self, workflow: WorkflowKey, cursor: str) -> tuple[Sequence[RunSummary], str]:
        """A page, newest first, and the cursor of the next one. Raises BadCursor."""
        ...

    async def run_ids_of(self, workflow: WorkflowKey) -> Sequence[str]:
        """Oldest first."""
        ...

    async def signals_of(self, run: RunKey) -> Sequence[Signal]: ...

    async def events(self, run: RunKey, *, start: int, limit: int) -> Sequence[bytes]:
        """Framed records from event ``start`` on, verified. Raises HistoryDamaged."""
        ...

    async def audit_log(self, wanted: AuditFilter) -> AuditPage: ...

    async def counts(self, wanted: RunFilter) -> RunCounts:
        """Of all statuses and pages."""
        ...

    async def summaries(self, keys: Sequence[RunKey]) -> Sequence[RunSummary | None]:
        """One for each run, None for what is not kept; fewer when a page has no room for more."""
        ...

    async def chain(self, key: RunKey) -> Chain: ...


class PeerCalls(Protocol):
    def register(self, method: str, handler: Callable[[str, bytes], Awaitable[bytes]]) -> None: ...

    async def call(self, peer: str, method: str, payload: bytes, *, timeout_ms: int) -> bytes: ...


class Consensus(Protocol):
    """`cluster.consensus.driver.Consensus`, as far as the cluster page shows it."""

    @property
    def channel(self) -> PeerCalls: ...

    @property
    def waiting_for(self) -> str: ...

    @property
    def no_vote(self) -> str: ...

    def status(self) -> Any: ...

    def peers(self) -> Mapping[str, Any]: ...


class Members(Protocol):
    """Any node's way to change who belongs to the cluster; each returns the index of the entry.
    Raises MembershipRefused or Unavailable."""

    async def add(self, member_id: str, raft: str, *, api: bool = False) -> int: ...

    async def remove(self, member_id: str) -> int: ...


class Handover(Protocol):
    """`cluster.handover.Handover`: any node's way to change who leads."""

    async def transfer(self, to: str) -> Handed:
        """Raises OperationRefused or Unavailable."""
        ...


class Checkpoints(Protocol):
    """`cluster.checkpoints.Checkpoints`: any node's way to another one's disk."""

    async def make(self, node_id: str) -> Made:
        """Raises OperationRefused or Unavailable."""
        ...


class Elections(Protocol):
    """`cluster.elections.Elections`."""

    @property
    def led_since_s(self) -> float | None: ...

    def all(self) -> Sequence[Election]: ...


class Figures(Protocol):
    """`cluster.figures.Figures`: what this node measures of itself."""

    def now(self) -> NodeFigures: ...


class Samples(Protocol):
    """`cluster.samples.Samples`: the last hour in figures."""

    every_ms: int

    def last(self, minutes: int) -> tuple[int, Mapping[str, Sequence[Any]]]:
        """How long ago (ms) the first was taken, and the series by name."""
        ...


class Digests(Protocol):
    @property
    def compared_index(self) -> int: ...


class Backups(Protocol):
    async def take(self, *, feature_level: int, caller: str) -> Taken:
        """Raises Overloaded or Unavailable."""
        ...


class Clock(Protocol):
    def wall_ms(self) -> int: ...

    def skew_ms(self) -> float: ...


class Checks(Protocol):
    """`cluster.invariant_checks.InvariantChecks`, as far as the cluster page shows it."""

    def report(self) -> dict[str, Any]: ...


async def _nobody() -> Mapping[str, Mapping[str, Any]]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeServices:
    config: Config
    forwarder: Forwarder
    reads: Reads
    dispatch: Dispatch
    pollers: Pollers
    leader_facts: LeaderFacts
    refused: RefusedCalls
    attempts: Attempts
    replica: Replica
    store: Store
    consensus: Consensus
    metrics: Metrics
    clock: Clock
    levels: Levels
    members: Members
    handover: Handover
    checkpoints: Checkpoints
    elections: Elections
    figures: Figures
    peer_reports: PeerReports
    ports: Ports
    presence: Presence
    samples: Samples
    digests: Digests
    checks: Checks
    backups: Backups
    # What each node says of itself for `why` (cluster/why/own.py), by id, as far as they answer.
    told_by_all: Callable[[], Awaitable[Mapping[str, Mapping[str, Any]]]] = _nobody
    # Types that the nodes themselves decide, in the default namespace.
    hosted_types: frozenset[str] = frozenset()
    tokens: Tokens = field(default_factory=Tokens)  # without any, nobody needs one
    tls: Credentials | None = None  # of all that is served; without any, it is in the clear
