"""A node of one, without Raft and disk: the real engine behind the ports of the API.

Every command is its own entry, applied at once. Tasks go to parked polls as the leader's matching
and grants would have it; due timers fire on `tick`.
"""

from __future__ import annotations

import asyncio
import io
import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from engine_harness import (
    EngineHarness,
    deliver,
    fire_timer,
    grant_activity,
    grant_decision,
)

from raftflow.cluster.api.auth import Tokens
from raftflow.cluster.api.server import ApiServer
from raftflow.cluster.api.services import CompleteWith, NodeServices
from raftflow.cluster.attempts import Attempts
from raftflow.cluster.backup.manifest import Manifest
from raftflow.cluster.backup.source import Taken
from raftflow.cluster.checkpoints import Made
from raftflow.cluster.codec.events import encode_event
from raftflow.cluster.config import Address, Config
from raftflow.cluster.consensus.channel import PeerUnavailable
from raftflow.cluster.consensus.membership import Configuration, Member
from raftflow.cluster.consensus.types import Election, Role
from raftflow.cluster.dispatch import Poll
from raftflow.cluster.errors import LeaseLost
from raftflow.cluster.features import Levels
from raftflow.cluster.figures import NodeFigures
from raftflow.cluster.handover import Handed
from raftflow.cluster.leader_facts import LeaderFacts, LeaseFacts
from raftflow.cluster.metrics import Metrics
from raftflow.cluster.peer_reports import PeerReports
from raftflow.cluster.pollers import EVERYTHING
from raftflow.cluster.ports import Ports
from raftflow.cluster.presence import Presence
from raftflow.cluster.refused_calls import RefusedCalls
from raftflow.cluster.samples import Samples
from raftflow.cluster.store.batch import plain_text
from raftflow.cluster.store.records import frame
from raftflow.cluster.store.trail import _matches
from raftflow.cluster.store.views import (
    AuditFilter,
    AuditPage,
    BadCursor,
    Chain,
    ChainLink,
    RunCounts,
    RunFilter,
    RunPage,
    RunSummary,
)
from raftflow.cluster.tls import api_credentials
from raftflow.cluster.work_facts import (
    ACTIVITY,
    ANY_TYPE,
    WORKFLOW,
    Leading,
    Poller,
    Wanted,
    Work,
)
from raftflow.engine.apply import Applied
from raftflow.engine.commands import (
    FEATURE_LEVEL,
    Attributed,
    Batch,
    Command,
    EagerPoll,
    Origin,
    ReturnTask,
)
from raftflow.engine.describe import activity_task, decision_task, lease_fate
from raftflow.engine.ids import RunKey, WorkflowKey, parse_token
from raftflow.engine.rejections import Answer, Granted
from raftflow.engine.state import Catalog, Run, Signal, TaskState

START_MS = 1_750_000_000_000
STATE = b"the whole state"  # what a backup of this node holds


@dataclass(slots=True)
class Parked:
    kind: str
    poll: Poll
    future: asyncio.Future[Any]
    tasks: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class SingleNode:
    """All ports in one object. ``fault`` is raised by whatever is asked next."""

    harness: EngineHarness = field(default_factory=EngineHarness)
    parked: list[Parked] = field(default_factory=list)
    listeners: list[Callable[[Any, Batch], None]] = field(default_factory=list)
    attempts: Attempts = field(default_factory=Attempts)
    executed: list[Command] = field(default_factory=list)  # whoever said them
    origins: list[Origin] = field(default_factory=list)
    returned: list[str] = field(default_factory=list)
    fault: Exception | None = None
    checkpointed_index: int = 0
    snapshot_age_seconds: float = 0.0
    digest: bytes = bytes(16)
    handlers: dict[str, Any] = field(default_factory=dict)
    config: Any = None
    leader: str = "n1"
    silence_s: float | None = 0.0
    members: dict[str, Any] = field(default_factory=dict)
    post_closed: bool = False
    leading: Leading | None = None
    lease: LeaseFacts | None = None
    # what /api/queues is told of what is queued
    nonces: Any = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        self.harness.time_ms = START_MS
        self.listeners.append(self.attempts.on_applied)

    # ---- forwarder, reads ---------------------------------------------------------------------

    async def execute(
        self, command: Command, *, command_id: str | None = None, deadline_ms: int | None = None
    ) -> Answer:
        await asyncio.sleep(0)
        self.check()
        if isinstance(command, Attributed):
            self.origins.append(command.origin)
            self.executed.append(command.command)
        else:
            self.executed.append(command)
        answer = self.apply(command)
        self.deliver()
        self.match()
        return answer

    def deliver(self) -> None:
        """Carry out what runs owe to one another, as the leader does. Nothing is delivered while
        ``post_closed``."""
        while not self.post_closed:
            waiting = [
                (key, number, message)
                for key, messages in self.harness.rows.outbox.items()
                for number, message in messages.items()
            ]
            if not waiting:
                return
            key, number, message = waiting[0]
            self.apply(deliver(key, number, message, new_run_id=f"child{next(self.nonces)}"))

    async def linearizable(self) -> int:
        await asyncio.sleep(0)
        self.check()
        return self.harness.index

    def check(self) -> None:
        if self.fault is not None:
            raise self.fault

    def apply(self, command: Command) -> Answer:
        applied: Applied = self.harness.apply(command, advance_ms=1)
        batch = Batch(
            index=self.harness.index,
            term=1,
            time_ms=self.harness.time_ms,
            commands=(),
            limits=self.harness.limits,
        )
        for listener in self.listeners:
            listener(applied, batch)
        return applied.replies[0].answer

    def tick(self, advance_ms: int) -> None:
        """Let time pass and fire what is due."""
        self.harness.time_ms += advance_ms
        for row in list(self.harness.rows.timers.values()):
            if row.fire_at_ms <= self.harness.time_ms:
                self.apply(fire_timer(row))
        self.match()

    # ---- dispatch -----------------------------------------------------------------------------

    async def poll_decision(self, poll: Poll, *, timeout_ms: int) -> Sequence[Any]:
        return await self.park("decision", poll, timeout_ms)

    async def poll_activity(self, poll: Poll, *, timeout_ms: int) -> Sequence[Any]:
        return await self.park("activity", poll, timeout_ms)

    async def eager_decision(self, poll: Poll, complete: CompleteWith) -> Sequence[Any]:
        return await self.take(poll, complete)

    async def eager_activity(self, poll: Poll, complete: CompleteWith) -> Sequence[Any]:
        return await self.take(poll, complete)

    async def take(self, poll: Poll, complete: CompleteWith) -> Sequence[Any]:
        nonce = f"n{next(self.nonces)}"
        eager = EagerPoll(
            node="n1",
            poll_id=nonce,
            nonce=nonce,
            worker_id=poll.worker_id,
            names=poll.names,
            task_queue=poll.task_queue,
            duration_ms=30_000,
            limit=poll.most,
        )
        return [self.task(poll.namespace, token) for token in await complete(eager)]

    def task(self, namespace: str, token: str) -> Any:
        parts = parse_token(token)
        assert parts is not None
        (run,) = (
            run
            for key in self.harness.rows.runs
            if (key.namespace, key.run_id) == (namespace, parts.run_id)
            and (run := self.harness.rows.load_run(key)) is not None
        )
        if run.decision.token == token:
            return decision_task(run, self.harness.limits)
        return activity_task(run, run.steps[parts.number - 1])

    async def work(self, wanted: Wanted = EVERYTHING) -> Work:
        self.check()
        polls = [
            Poller(
                node="n1",
                namespace=parked.poll.namespace,
                kind=ACTIVITY if parked.kind == "activity" else WORKFLOW,
                queue=parked.poll.task_queue,
                worker=parked.poll.worker_id,
                types=parked.poll.names or (ANY_TYPE,),
                polls=1,
                since_ms=START_MS,
                seen_ms=START_MS,
            )
            for parked in self.parked
            if wanted.takes(parked.poll.namespace, parked.poll.task_queue)
        ]
        return Work(pollers=tuple(polls), leading=self.leading)

    def lease_facts(self, token: str) -> LeaseFacts | None:
        return self.lease

    def names_waiting(self, *, activities: bool, namespace: str, queue: str) -> Mapping[str, int]:
        return {}

    async def park(self, kind: str, poll: Poll, timeout_ms: int) -> Sequence[Any]:
        """Hand out what there is when something is there; all of it, up to what is wanted."""
        self.check()
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        parked = Parked(kind, poll, future)
        self.parked.append(parked)
        self.match()
        try:
            await asyncio.wait({future}, timeout=timeout_ms / 1_000)
        except asyncio.CancelledError:
            for task in parked.tasks:
                self.return_task(task.namespace, task.workflow_id, task.token)
            raise
        finally:
            if parked in self.parked:
                self.parked.remove(parked)
        return parked.tasks

    def return_task(self, namespace: str, workflow_id: str, token: str) -> None:
        self.returned.append(token)
        self.apply(ReturnTask(namespace=namespace, workflow_id=workflow_id, token=token))
        self.match()

    async def heartbeat(
        self,
        namespace: str,
        workflow_id: str,
        lease_token: str,
        worker_id: str,
        details: bytes | None,
    ) -> None:
        self.check()
        parts = parse_token(lease_token)
        if parts is None:
            raise LeaseLost("the lease token is not one of ours")
        run = self.harness.rows.load_run(RunKey(namespace, workflow_id, parts.run_id))
        fate = lease_fate(run, parts.number, lease_token)
        if not fate.held:
            raise LeaseLost(fate.message, cancelled=fate.cancelled)

    async def settle(self, lease_token: str) -> None:
        """Nothing waits here."""

    def match(self) -> None:
        """Hand queued tasks to polls until nothing fits any more."""
        while self._match_one():
            pass

    def _match_one(self) -> bool:
        for key in list(self.harness.rows.runs):
            run = self.harness.rows.load_run(key)
            assert run is not None
            if run.decision.state is TaskState.QUEUED:
                poll = self._poll("decision", key, run.task_queue, run.workflow_type)
                if poll is not None:
                    self._grant(poll, run, 0)
                    return True
            for step in run.steps:
                if step.task.state is TaskState.QUEUED:
                    poll = self._poll("activity", key, step.task_queue, step.name)
                    if poll is not None:
                        self._grant(poll, run, step.sequence)
                        return True
        return False

    def _poll(self, kind: str, key: RunKey, task_queue: str, name: str) -> Parked | None:
        for parked in self.parked:
            poll = parked.poll
            fits = parked.kind == kind and poll.namespace == key.namespace
            fits = fits and poll.task_queue == task_queue and len(parked.tasks) < poll.most
            if fits and (not poll.names or name in poll.names):
                return parked
        return None

    def _grant(self, parked: Parked, run: Run, sequence: int) -> None:
        nonce = f"n{next(self.nonces)}"
        command = (
            grant_activity(run, sequence, nonce=nonce)
            if sequence
            else grant_decision(run, nonce=nonce)
        )
        answer = self.apply(command)
        assert isinstance(answer, Granted)
        parked.tasks.append(self.task(run.key.namespace, answer.token))
        if not parked.future.done():
            parked.future.set_result(None)

    # ---- replica, store -----------------------------------------------------------------------

    @property
    def applied_index(self) -> int:
        return self.harness.index

    @property
    def catalog(self) -> Catalog:
        rows = self.harness.rows
        born = Catalog().namespaces
        return Catalog(
            namespaces=born | rows.namespaces,
            types=set(rows.types),
            open_runs=Counter(key.namespace for key, run in rows.runs.items() if run.open),
            tokens=dict(rows.tokens),
        )

    @property
    def time_ms(self) -> int:
        return self.harness.time_ms

    async def wait_applied(self, index: int, *, timeout_ms: int) -> None:
        if index > self.harness.index:
            raise TimeoutError

    async def run_view(self, namespace: str, workflow_id: str, run_id: str = "") -> Run | None:
        rows = self.harness.rows
        run_id = run_id or rows.current.get(WorkflowKey(namespace, workflow_id), "")
        return rows.load_run(RunKey(namespace, workflow_id, run_id))

    async def written(self, index: int) -> None:
        assert index <= self.harness.index

    def subscribe(self, listener: Callable[[Any, Batch], None]) -> None:
        self.listeners.append(listener)

    async def list_runs(self, wanted: RunFilter) -> RunPage:
        if wanted.cursor and not wanted.cursor.isdigit():
            raise BadCursor(wanted.cursor)
        runs = [
            run
            for run in self._matching(wanted)
            if not wanted.statuses or run.status in wanted.statuses
        ]
        start = int(wanted.cursor or 0) + wanted.offset
        page = runs[start : start + wanted.limit]
        more = start + wanted.limit < len(runs)
        cursor = str(start + wanted.limit) if more else ""
        return RunPage(total=len(runs), total_exact=True, runs=page, next_cursor=cursor)

    def _matching(self, wanted: RunFilter) -> list[RunSummary]:
        """In any status."""
        return [
            run
            for run in self.all_runs()
            if run.key.namespace == wanted.namespace
            and (not wanted.workflow_type or run.workflow_type == wanted.workflow_type)
            and all(
                plain_text(dict(run.search_attributes).get(name, "null"))[0] == text
                for name, text in wanted.attributes
            )
            and wanted.query.lower() in f"{run.key.workflow_id}\n{run.workflow_type}".lower()
        ]

    async def runs_of(self, workflow: WorkflowKey, cursor: str) -> tuple[Sequence[RunSummary], str]:
        if cursor:
            raise BadCursor(cursor)
        wanted = (workflow.namespace, workflow.workflow_id)
        return [r for r in self.all_runs() if (r.key.namespace, r.key.workflow_id) == wanted], ""

    async def run_ids_of(self, workflow: WorkflowKey) -> Sequence[str]:
        runs, _ = await self.runs_of(workflow, "")
        return [run.key.run_id for run in reversed(runs)]

    def all_runs(self) -> list[RunSummary]:
        return [
            RunSummary(
                key=run.key,
                workflow_type=run.workflow_type,
                task_queue=run.task_queue,
                status=run.status,
                started_ms=run.started_ms,
                updated_ms=run.updated_ms,
                closed_ms=run.closed_ms,
                history_length=run.history_length,
                search_attributes=run.search_attributes,
                memo=run.memo,
            )
            for run in reversed(self.harness.rows.runs.values())
        ]

    async def signals_of(self, run: RunKey) -> Sequence[Signal]:
        return [s for _, s in sorted(self.harness.rows.signals.get(run, {}).items())]

    async def events(self, run: RunKey, *, start: int, limit: int) -> Sequence[bytes]:
        self.check()
        events = self.harness.rows.events[run][start - 1 : start - 1 + limit]
        return [frame(encode_event(event)) for event in events]

    async def audit_log(self, wanted: AuditFilter) -> AuditPage:
        rows = [row for row in self.harness.rows.audit if row.audit_no > wanted.cursor]
        ordered = rows if wanted.oldest_first else rows[::-1]
        return AuditPage([row for row in ordered if _matches(row, wanted)][: wanted.limit], 0)

    async def counts(self, wanted: RunFilter) -> RunCounts:
        found = Counter(run.status for run in self._matching(wanted))
        return RunCounts(found.total(), True, found)

    async def summaries(self, keys: Sequence[RunKey]) -> Sequence[RunSummary | None]:
        kept = {run.key: run for run in self.all_runs()}
        return [kept.get(key) for key in keys]

    async def chain(self, key: RunKey) -> Chain:
        runs, found = self.harness.rows.runs, []
        first = runs[key]
        while (before := key._replace(run_id=first.continued_from_run_id)) in runs:
            first = runs[before]
        link: Run | None = first
        while link is not None:
            found.append(ChainLink(link.key.run_id, link.status, link.started_ms))
            link = runs.get(key._replace(run_id=link.continued_to_run_id))
        return Chain(tuple(found))

    @property
    def compared_index(self) -> int:
        return self.harness.index

    # ---- consensus, clock ---------------------------------------------------------------------

    waiting_for = ""
    no_vote = ""

    @property
    def channel(self) -> SingleNode:
        return self

    def register(self, method: str, handler: Any) -> None:
        self.handlers[method] = handler

    async def call(self, peer: str, method: str, payload: bytes, *, timeout_ms: int) -> bytes:
        raise PeerUnavailable(peer, sent=False)

    def _leader_heard(self, within_ms: int) -> str | None:
        silent = self.silence_s is None or self.silence_s * 1_000 >= within_ms
        return None if silent else self.leader

    def status(self) -> Any:
        index = self.harness.index
        return SimpleNamespace(
            role=Role.LEADER,
            term=1,
            leader=self.leader,
            commit_index=index,
            heard_commit_index=index,
            first_index=1,
            flushed_index=index,
            leader_contact_s=self.silence_s,
            peers={},
            elections=(),
            configuration=Configuration((Member("n1", "127.0.0.1:9233", incarnation="d1"),)),
            configuration_index=0,
            committed_configuration_index=0,
            leader_heard=self._leader_heard,
        )

    def peers(self) -> Mapping[str, Any]:
        own = SimpleNamespace(
            id="n1",
            http="127.0.0.1:8233",
            grpc="127.0.0.1:7233",
            raft="127.0.0.1:9233",
            metrics="127.0.0.1:9090",
            version="0.1.0",
            feature_level=FEATURE_LEVEL,
            incarnation="d1",
            connected=True,
        )
        return {"n1": own, **self.members}

    async def add(self, member_id: str, raft: str, *, api: bool = False) -> int:
        self.check()
        return self.harness.index

    async def remove(self, member_id: str) -> int:
        self.check()
        return self.harness.index

    async def transfer(self, to: str) -> Handed:
        self.check()
        return Handed("n1", to or "n1", 2)

    async def make(self, node_id: str) -> Made:
        self.check()
        return Made(self.harness.index, 1, 0)

    def wall_ms(self) -> int:
        return self.harness.time_ms

    def skew_ms(self) -> int:
        return 0

    def now(self) -> NodeFigures:
        return NodeFigures(
            log_bytes=1, store_bytes=2, disk_free_bytes=3, fsync_ms=0.4, loop_lag_ms=None
        )

    def report(self) -> dict[str, Any]:
        return {"checked": 0, "walks": 0, "violated": 0, "violations": []}


class NothingHappens:
    """What samples read."""

    def requests_total(self) -> int:
        return 0

    def open_runs(self) -> int:
        return 0

    def loop_lag_ms(self) -> float:
        return 0.0

    def queues(self) -> tuple[int, int, int] | None:
        return (0, 0, 0)


def _fail(error: BaseException) -> NoReturn:
    raise error


@dataclass(frozen=True, slots=True)
class Led:
    """Who led, as consensus says it."""

    node: SingleNode

    @property
    def led_since_s(self) -> float | None:
        return self.all()[-1].at_s if self.all() else None

    def all(self) -> Sequence[Election]:
        found: Sequence[Election] = self.node.status().elections
        return found


@dataclass(frozen=True, slots=True)
class Backups:
    node: SingleNode

    async def take(self, *, feature_level: int, caller: str) -> Taken:
        return Taken(
            Manifest(
                cluster_id="shop",
                node_id="n1",
                version="0",
                feature_level=feature_level,
                index=self.node.applied_index,
                term=1,
                time_ms=0,
                digest=self.node.digest.hex(),
                size=len(STATE),
                sha256=sha256(STATE).hexdigest(),
                created_at="2026-01-01T00:00:00+00:00",
            ),
            io.BytesIO(STATE),
        )


def config_for(ports: Sequence[int], data_dir: Path, **settings: Any) -> Config:
    http, grpc, metrics = (Address("127.0.0.1", port) for port in ports)
    return Config(
        http_addr=http, grpc_addr=grpc, metrics_addr=metrics, data_dir=data_dir, **settings
    )


def services(node: SingleNode, config: Config, levels: Levels | None = None) -> NodeServices:
    return NodeServices(
        config=config,
        forwarder=node,
        reads=node,
        dispatch=node,
        pollers=node,
        leader_facts=LeaderFacts(consensus=node, node_id="n1", leading=node),
        refused=RefusedCalls(consensus=node, node_id="n1"),
        attempts=node.attempts,
        replica=node,
        store=node,
        consensus=node,
        metrics=Metrics(),
        clock=node,
        digests=node,
        levels=levels or Levels(members=node.peers),
        members=node,
        handover=node,
        checkpoints=node,
        elections=Led(node),
        figures=node,
        peer_reports=PeerReports(consensus=node, node_id="n1", patience_ms=100),
        ports=Ports(consensus=node, node_id="n1"),
        presence=Presence(consensus=node, node_id="n1", heartbeat_ms=50, fatal=_fail),
        samples=Samples(consensus=node, node_id="n1", source=NothingHappens()),
        checks=node,
        backups=Backups(node),
        hosted_types=frozenset({"Hosted"}),
    )


@dataclass(slots=True)
class Served:
    """A single node behind real sockets."""

    node: SingleNode
    server: ApiServer
    services: NodeServices

    @property
    def http(self) -> str:
        return f"{self.services.config.http_scheme}://{self.services.config.http_addr}"

    @property
    def grpc(self) -> str:
        return str(self.services.config.grpc_addr)

    @property
    def metrics(self) -> str:
        return f"{self.services.config.http_scheme}://{self.services.config.metrics_addr}"


async def serve(config: Config, *, tokens: Tokens | None = None) -> Served:
    node = SingleNode()
    ports = replace(services(node, config), tokens=tokens or Tokens(), tls=api_credentials(config))
    server = ApiServer(ports)
    await server.start()
    return Served(node, server, ports)
