"""One node: its parts, in the order in which they start and stop.

This is the only place that knows all of them. Each part is handed what it needs and no more; what
one tells the others (apply, elections, peers) is wired here, in a fixed order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from importlib.metadata import version

import structlog

from raftflow.cluster import damage
from raftflow.cluster.api.auth import Tokens
from raftflow.cluster.api.hosted_tasks import HostedTasks
from raftflow.cluster.api.repairing import while_repairing
from raftflow.cluster.api.server import ApiServer
from raftflow.cluster.api.services import NodeServices
from raftflow.cluster.attempts import Attempts
from raftflow.cluster.background import end, spawn
from raftflow.cluster.backup.source import BackupSource
from raftflow.cluster.checkpoints import Checkpoints
from raftflow.cluster.clock import LogClock
from raftflow.cluster.clock_exchange import ClockExchange
from raftflow.cluster.codec.commands import entry_level
from raftflow.cluster.config import Config
from raftflow.cluster.consensus.driver import Consensus
from raftflow.cluster.consensus.ending import exit_process
from raftflow.cluster.consensus.identity import Claim, claim_directory
from raftflow.cluster.consensus.membership import Configuration
from raftflow.cluster.consensus.outcast import Outcast
from raftflow.cluster.consensus.recovery import has_peers
from raftflow.cluster.consensus.types import Role
from raftflow.cluster.damage import Part
from raftflow.cluster.digest_exchange import DigestExchange
from raftflow.cluster.disk_watch import DiskWatch
from raftflow.cluster.dispatch import (
    ACTIVITY,
    DECISION,
    DEMAND_METHOD,
    HEARTBEAT_METHOD,
    Dispatch,
)
from raftflow.cluster.elections import Elections
from raftflow.cluster.features import Levels
from raftflow.cluster.figures import Figures
from raftflow.cluster.forwarding import Forwarder, LeaderWatch
from raftflow.cluster.from_config import consensus_config, engine_limits
from raftflow.cluster.handover import Handover
from raftflow.cluster.hosted.builtin import WORKFLOWS
from raftflow.cluster.hosted.host import HostedWorkflows
from raftflow.cluster.hosted.pool import ReplayPool
from raftflow.cluster.invariant_checks import InvariantChecks
from raftflow.cluster.leader.duties import Duties
from raftflow.cluster.leader.grants import DutyTimes
from raftflow.cluster.leader_facts import LeaderFacts
from raftflow.cluster.members import Members
from raftflow.cluster.metrics import Metrics, QueueGauges, RaftGauges
from raftflow.cluster.peer_reports import PeerReports
from raftflow.cluster.pollers import Pollers
from raftflow.cluster.ports import Ports
from raftflow.cluster.presence import Presence
from raftflow.cluster.proposer import Proposer
from raftflow.cluster.reads import Reads
from raftflow.cluster.refused_calls import RefusedCalls
from raftflow.cluster.replica import Replica, ReplicaSettings
from raftflow.cluster.samples import Samples
from raftflow.cluster.scrub import Scrub, ScrubSettings
from raftflow.cluster.steward import Steward
from raftflow.cluster.store import Store, StoreDamaged, StoreSettings, WriterTimes
from raftflow.cluster.store.audit import INVARIANTS, Finding
from raftflow.cluster.tls import (
    CertificateWatch,
    api_credentials,
    peer_credentials,
    tell_clear_ports,
)
from raftflow.cluster.tracing import SpanExport
from raftflow.cluster.why.own import OwnFacts
from raftflow.engine.apply import Applied
from raftflow.engine.commands import Batch
from raftflow.engine.invariants import wakeup_problem
from raftflow.raftlog.journal import LogEntry

log = structlog.get_logger("raftflow.node")

HANDOVER_WAIT_S = 2.0


class Node:
    """Everything that runs in one process. `start` raises when the node must not run like this."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.metrics = Metrics()
        self.certificates = CertificateWatch(())
        self._exits = AsyncExitStack()
        self._started = False

    async def start(self) -> None:
        config, exits = self.config, self._exits
        # Set when the cluster will not have this node any more.
        self.outcast: asyncio.Future[Outcast] = asyncio.get_running_loop().create_future()
        self._tokens = Tokens.load(config.auth_token_file, on=config.auth_on)
        _tell_if_open(config)
        # Nothing in the directory is touched before it is known to be ours.
        claim = claim_directory(
            str(config.data_dir),
            cluster_id=config.cluster_id,
            node_id=config.node_id,
            only_at_birth=config.cluster_id_derived,
        )
        exits.callback(claim.lock.release)
        self.config = config = replace(config, cluster_id=claim.identity.cluster_id)
        self._load_certificates()
        self._has_peers = has_peers(str(config.data_dir), config.node_id, config.voters)
        store = await self._open_store()
        exits.push_async_callback(store.close)
        self._build_core(store, claim)
        self._build_calls()
        self._build_tasks(store)
        self._build_watches(store)
        self._wire()
        # Before there are peers: a certificate that is over may be what keeps them away.
        watching = spawn(self.certificates.run(), name="certificates", fatal=self.consensus.fatal)
        exits.push_async_callback(partial(end, watching))
        if config.otlp_endpoint:
            spans = SpanExport(
                config, self.metrics, leads=lambda: self.consensus.role is Role.LEADER
            )
            self.replica.subscribe(spans.on_applied)
            exits.push_async_callback(spans.stop)
        self.replica.attach(self.consensus)
        exits.push_async_callback(self.replica.stop)
        async with while_repairing(config, self._tls, lambda: self.consensus.recovery.waiting_for):
            await self.consensus.start()
            exits.push_async_callback(self.consensus.stop)
            # What this node has to tell is of no use before it has a state.
            await self.consensus.recovery.has_state()
        damage.clear(config.data_dir)
        self._learn_level()
        self.duties.returns.born_index = self.consensus.status().last_index
        exits.callback(self.duties.stop)
        self.exchange.start()
        exits.push_async_callback(self.exchange.stop)
        self.steward.start()
        exits.push_async_callback(self.steward.stop)
        self.digests.start()
        exits.push_async_callback(self.digests.stop)
        self.checks.start()
        exits.push_async_callback(self.checks.stop)
        services = self._services(store)
        api = ApiServer(services)
        await api.start()
        exits.push_async_callback(self.dispatch.drain)
        exits.push_async_callback(api.stop)
        exits.push_async_callback(self._start_hosted(services))
        exits.push_async_callback(self._start_scrub())
        watching = spawn(self.disk.run(), name="disk-watch", fatal=self.consensus.fatal)
        exits.push_async_callback(partial(end, watching))
        sampling = spawn(self.samples.run(), name="samples", fatal=self.consensus.fatal)
        exits.push_async_callback(partial(end, sampling))
        exits.push_async_callback(self._hand_over)
        self._started = True
        log.info("node_started", http=str(config.http_addr), grpc=str(config.grpc_addr))

    def read_certificates(self) -> None:
        """Look at once whether their files have changed."""
        self.certificates.hurry()

    async def stop(self) -> None:
        """Hand leadership over, answer what is under way, then close from the edge inwards. Also
        right for a node that did not get far with its start."""
        await self._exits.aclose()
        if self._started:
            log.info("node_stopped")

    # ---- what consensus tells (Listener) --------------------------------------------------------

    def on_apply(self, entries: Sequence[LogEntry]) -> None:
        self.replica.on_apply(entries)

    def on_role(self, role: Role, term: int, leader: str | None) -> None:
        # Waiting calls learn of the change before anybody acts on it.
        self.proposer.on_role(role, term, leader)
        self.duties.on_role(role, term, leader)
        self.watch.on_role(role, term, leader)
        self.dispatch.on_role(role, term, leader)
        self.elections.on_role(role, term, leader)

    def _cast_out(self, outcast: Outcast) -> None:
        self.reads.end("this node is shutting down: it does not belong to its cluster any more")
        self.outcast.set_result(outcast)

    def _on_members(self, configuration: Configuration) -> None:
        others = tuple(each for each in configuration.voters if each != self.config.node_id)
        self.clock.follow(voters=len(configuration.voters), peers=others)
        self.digests.follow(others)

    # ---- wiring ---------------------------------------------------------------------------------

    def _load_certificates(self) -> None:
        """Raises StartRefused where they are not what they should be."""
        config = self.config
        self._tls = api_credentials(config)
        self._peer_tls = peer_credentials(config)
        self.certificates = CertificateWatch(
            [pair for pair in (self._tls, self._peer_tls) if pair is not None]
        )
        self.metrics.sources.certificates = self.certificates.seconds_left
        tell_clear_ports(config)

    def _build_core(self, store: Store, claim: Claim) -> None:
        """The replicated state and the time in which it is measured."""
        config = self.config
        self.replica = Replica(
            store=store,
            settings=ReplicaSettings(
                snapshots=config.data_dir / "snapshots" / "made",
                log_tail_entries=config.storage.log_tail_entries,
            ),
        )
        self.consensus = Consensus(
            consensus_config(config, self._peer_tls), store=self.replica, claim=claim
        )
        self.consensus.set_listener(self)
        self.consensus.recovery.set_aside = partial(damage.keep_copies, config.data_dir)
        self.consensus.on_members(self._on_members)
        self.clock = LogClock(voters=len(config.voters))
        self.exchange = ClockExchange(consensus=self.consensus, clock=self.clock)
        self.digests = DigestExchange(
            consensus=self.consensus,
            replica=self.replica,
            peers=tuple(peer.id for peer in config.voters if peer.id != config.node_id),
            level_of=self._level_of,
        )
        self.checks = InvariantChecks(store=store, metrics=self.metrics, fatal=self.consensus.fatal)

    def _build_calls(self) -> None:
        """The way of a command to the leader and into the log."""
        self.watch = LeaderWatch()
        self.levels = Levels(
            members=self.consensus.peers,
            agreed=lambda: self.consensus.configuration.feature_level,
        )
        self.proposer = Proposer(
            consensus=self.consensus,
            clock=self.clock,
            node_id=self.config.node_id,
            limits=engine_limits(self.config),
            level=lambda: self.levels.level,
        )
        self.forwarder = Forwarder(
            consensus=self.consensus,
            proposer=self.proposer,
            watch=self.watch,
            node_id=self.config.node_id,
            leader_wait_ms=self.config.leader_wait_ms,
            check=self.levels.check,
        )
        self.members = Members(
            consensus=self.consensus, watch=self.watch, node_id=self.config.node_id
        )
        self.handover = Handover(
            consensus=self.consensus, watch=self.watch, node_id=self.config.node_id
        )
        self.steward = Steward(self.consensus)
        self.reads = Reads(
            consensus=self.consensus,
            replica=self.replica,
            leader_wait_ms=self.config.leader_wait_ms,
        )

    def _build_tasks(self, store: Store) -> None:
        """Handing out work: the leader's duties, and the polls parked here."""
        config = self.config
        self.duties = Duties(
            node_id=config.node_id,
            proposer=self.proposer,
            reads=self.reads,
            replica=self.replica,
            store=store,
            clock=self.clock,
            metrics=self.metrics,
            times=DutyTimes(
                lease_ms=config.lease_ms,
                decision_timeout_ms=config.decision_timeout_ms,
                audit_retention_ms=config.audit_retention_ms,
            ),
            network=self.consensus,
            fatal=self.consensus.fatal,
        )
        self.dispatch = Dispatch(
            consensus=self.consensus,
            replica=self.replica,
            forwarder=self.forwarder,
            watch=self.watch,
            sink=self.duties,
            node_id=config.node_id,
            limits=engine_limits(config),
            leader_wait_ms=config.leader_wait_ms,
            lease_ms=config.lease_ms,
            decision_timeout_ms=config.decision_timeout_ms,
        )

    def _build_watches(self, store: Store) -> None:
        """What this node tells of itself and of the cluster."""
        config, consensus = self.config, self.consensus
        self.disk = DiskWatch(data_dir=config.data_dir, metrics=self.metrics)
        self.figures = Figures(disk=self.disk.latest, loop_lag_ms=self.loop_lag_ms)
        self.elections = Elections(consensus=consensus, node_id=config.node_id)
        self._exits.push_async_callback(self.elections.stop)
        self.checkpoints = Checkpoints(
            consensus=consensus,
            replica=self.replica,
            store=store,
            node_id=config.node_id,
            log_directory=config.data_dir / "raft",
        )
        self.samples = Samples(consensus=consensus, node_id=config.node_id, source=self)
        self.peer_reports = PeerReports(
            consensus=consensus, node_id=config.node_id, patience_ms=2 * config.heartbeat_ms
        )
        self.leader_facts = LeaderFacts(
            consensus=consensus, node_id=config.node_id, leading=self.duties
        )
        self.refused = RefusedCalls(consensus=consensus, node_id=config.node_id)
        self.attempts = Attempts()
        self.pollers = Pollers(
            consensus=consensus,
            node_id=config.node_id,
            workers=self.dispatch.workers,
            leading=self.duties.standing,
        )
        self.own_facts = OwnFacts(
            config=config,
            consensus=consensus,
            replica=self.replica,
            store=store,
            proposer=self.proposer,
            digests=self.digests,
            disk=self.disk,
        )

    def _wire(self) -> None:
        consensus = self.consensus
        consensus.on_outcast = self._cast_out
        # Duties come before delivery: a task that goes back is offered after its lease is held.
        self.proposer.on_submitted = self.duties.on_submitted
        self.proposer.on_entry = self.duties.on_entry
        self.replica.subscribe(self.proposer.on_applied)
        self.replica.subscribe(self.forwarder.on_applied)
        self.replica.subscribe(self.duties.on_applied)
        self.replica.subscribe(self.dispatch.on_applied)
        self.replica.subscribe(self.attempts.on_applied)
        self.replica.subscribe(self._count)
        self.proposer.on_committed = self.samples.committed
        consensus.channel.register(DEMAND_METHOD, self.duties.on_demand_message)
        consensus.channel.register(HEARTBEAT_METHOD, self.duties.on_heartbeat_message)
        consensus.channel.on_up(self.exchange.tell)
        consensus.channel.on_up(self.dispatch.on_peer_up)
        consensus.channel.on_down(self.duties.on_peer_down)
        consensus.on_flush = self._flushed
        self.metrics.sources.raft = self._raft_gauges
        self.metrics.sources.queues = self._queue_gauges
        self.metrics.loop_lag.set_function(lambda: consensus.stats().loop_lag.max_ms / 1_000)
        self.metrics.outbox_pending.set_function(lambda: self.duties.outbox.pending)
        self.metrics.digest_compared.set_function(lambda: self.digests.compared_index)
        self.metrics.digest_disputes.set_function(lambda: self.digests.disputes)
        for invariant in INVARIANTS:  # a series that is absent cannot be watched
            self.metrics.invariant_violations.labels(invariant)
            violated = partial(self.checks.violated, invariant)
            self.metrics.invariants_violated.labels(invariant).set_function(violated)
        self.metrics.clock_skew.set_function(lambda: self.clock.skew_ms() / 1_000)

    def _services(self, store: Store) -> NodeServices:
        return NodeServices(
            config=self.config,
            forwarder=self.forwarder,
            reads=self.reads,
            dispatch=self.dispatch,
            pollers=self.pollers,
            leader_facts=self.leader_facts,
            refused=self.refused,
            attempts=self.attempts,
            replica=self.replica,
            store=store,
            consensus=self.consensus,
            metrics=self.metrics,
            clock=self.clock,
            levels=self.levels,
            members=self.members,
            handover=self.handover,
            checkpoints=self.checkpoints,
            elections=self.elections,
            figures=self.figures,
            peer_reports=self.peer_reports,
            ports=Ports(consensus=self.consensus, node_id=self.config.node_id),
            presence=Presence(
                consensus=self.consensus,
                node_id=self.config.node_id,
                heartbeat_ms=self.config.heartbeat_ms,
                fatal=self.consensus.fatal,
            ),
            samples=self.samples,
            digests=self.digests,
            checks=self.checks,
            backups=BackupSource(
                replica=self.replica,
                data_dir=self.config.data_dir,
                cluster_id=self.config.cluster_id,
                node_id=self.config.node_id,
                version=version("raftflow"),
            ),
            told_by_all=self.own_facts.all,
            hosted_types=frozenset(WORKFLOWS),
            tokens=self._tokens,
            tls=self._tls,
        )

    def _start_hosted(self, services: NodeServices) -> Callable[[], Awaitable[None]]:
        """Run the built-in workflows; returns how to stop them. The node is up without them."""
        pool = ReplayPool()

        async def run() -> None:
            async with pool:
                await HostedWorkflows(pool, HostedTasks(services)).run()

        task = asyncio.create_task(run(), name="hosted-workflows")

        return partial(end, task)

    def _level_of(self, peer: str) -> int:
        info = self.consensus.peers().get(peer)
        return 0 if info is None else info.feature_level

    def _learn_level(self) -> None:
        newest = self.consensus.newest_entry()
        if newest is not None:
            self.levels.saw_entry(entry_level(newest))

    def _start_scrub(self) -> Callable[[], Awaitable[None]]:
        storage = self.config.storage
        scrub = Scrub(
            data_dir=self.config.data_dir,
            settings=ScrubSettings(
                bytes_per_second=storage.scrub_bytes_per_second, pause_ms=storage.scrub_pause_ms
            ),
            metrics=self.metrics,
            lag_ms=lambda: self.consensus.stats().loop_lag.p99_ms,
            found=self._damaged,
        )
        task = spawn(scrub.run(), name="scrub", fatal=self.consensus.fatal)

        return partial(end, task)

    async def _hand_over(self) -> None:
        consensus = self.consensus
        if consensus.role is not Role.LEADER or len(consensus.configuration.voters) == 1:
            return
        if not await consensus.transfer_leadership(None):
            return
        try:
            async with asyncio.timeout(HANDOVER_WAIT_S):
                while consensus.role is Role.LEADER:
                    await asyncio.wait({self.watch.changed()})
        except TimeoutError:
            log.warning("leadership_kept", reason="no follower took over in time")

    async def _open_store(self) -> Store:
        """With peers a damaged state is set aside, and a copy fetched from one of them."""
        config, known = self.config, damage.noted(self.config.data_dir)
        if self._has_peers and Part.STATE in known:
            await asyncio.to_thread(damage.set_aside_state, config.data_dir, known[Part.STATE])
        times = WriterTimes(checkpoint_every_ms=config.storage.checkpoint_interval_ms)

        async def opened() -> Store:
            return await Store.open(
                config.data_dir / "state.db",
                settings=StoreSettings(times=times),
                on_fatal=self._fatal,
                on_rot=partial(self._damaged, Part.STATE) if self._has_peers else None,
            )

        try:
            return await opened()
        except StoreDamaged as error:
            if not self._has_peers:
                raise
            await asyncio.to_thread(damage.set_aside_state, config.data_dir, str(error))
            return await opened()

    def _damaged(self, part: Part, error: Exception) -> None:
        """Found while this node runs. Its next start repairs it, if there is anybody to ask."""
        if self._has_peers:
            damage.note(self.config.data_dir, part, str(error))
            log.critical("node_ended", reason=f"{error}; the next start repairs it from the others")
            exit_process(error)

    def _fatal(self, error: Exception) -> None:
        """Disk errors are final (rule 8): never carry on from a state that may be wrong."""
        if isinstance(error, StoreDamaged):
            self._damaged(Part.STATE, error)
        log.critical("node_ended", reason=str(error))
        exit_process(error)

    def _count(self, applied: Applied, batch: Batch) -> None:
        if batch.commands:
            self.levels.saw_entry(batch.feature_level)
            self.samples.applied(len(batch.commands))
        for run in applied.changes.runs.values():
            problem = wakeup_problem(run)
            if problem is not None:
                self.checks.tell(Finding("wakeup", *run.key, problem))
        if self.consensus.role is Role.LEADER:
            self.metrics.applied(applied.effects)
            self.metrics.runs_deleted.inc(len(applied.changes.deleted))

    def _flushed(self, seconds: float) -> None:
        self.metrics.fsync.observe(seconds)
        self.figures.flushed(seconds)
        self.samples.flushed(seconds)

    # ---- what samples read (Source) -------------------------------------------------------------

    def requests_total(self) -> int:
        return self.metrics.requests_total

    def open_runs(self) -> int:
        return sum(self.replica.catalog.open_runs.values())

    def loop_lag_ms(self) -> float:
        return self.consensus.stats().loop_lag.max_ms

    def queues(self) -> tuple[int, int, int] | None:
        if self.consensus.role is not Role.LEADER:
            return None
        matching, leases = self.duties.matching, self.duties.leases
        return matching.depth(activities=True), matching.depth(activities=False), len(leases)

    # ---- what a scrape reads --------------------------------------------------------------------

    def _raft_gauges(self) -> RaftGauges:
        status = self.consensus.status()
        voters = [each for each in self.consensus.peers().values() if each.voter]
        return RaftGauges(
            role=status.role.value,
            term=status.term,
            commit_index=status.commit_index,
            applied_index=self.replica.applied_index,
            elections=status.counters.elections,
            messages_sent=status.counters.messages_sent,
            proposals_pending=self.proposer.pending,
            snapshot_age_seconds=self.replica.snapshot_age_seconds,
            leader_known=status.leader_heard(2 * self.config.election_max_ms) is not None,
            voters=len(voters),
            voters_connected=sum(each.connected for each in voters),
        )

    def _queue_gauges(self) -> QueueGauges:
        duties = self.duties
        return QueueGauges(
            activity_tasks=duties.matching.depth(activities=True),
            workflow_tasks=duties.matching.depth(activities=False),
            polls_waiting=self.dispatch.parked(DECISION) + self.dispatch.parked(ACTIVITY),
            oldest_activity_task_ms=duties.longest_wait_ms(activities=True),
            oldest_workflow_task_ms=duties.longest_wait_ms(activities=False),
        )


def _tell_if_open(config: Config) -> None:
    if config.reached_by_others and not config.auth_on:
        log.warning(
            "auth_off",
            http=str(config.http_addr),
            grpc=str(config.grpc_addr),
            remedy="whoever reaches these addresses may do anything: set auth_token_file"
            " (docs/security.md)",
        )
