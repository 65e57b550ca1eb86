"""One simulated node with the real engine, and all of the product around it that has no threads:
proposer, forwarder, dispatch, reads, clocks, and the duties of a leader."""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from raftflow.cluster.api.services import NodeServices
from raftflow.cluster.attempts import Attempts
from raftflow.cluster.clock import LogClock
from raftflow.cluster.clock_exchange import ClockExchange
from raftflow.cluster.consensus import types
from raftflow.cluster.consensus.channel import PeerChannel
from raftflow.cluster.consensus.driver import PeerInfo
from raftflow.cluster.consensus.membership import Configuration, Member
from raftflow.cluster.consensus.types import NotLeader, Proposed, Role, SnapshotManifest
from raftflow.cluster.dispatch import DEMAND_METHOD, HEARTBEAT_METHOD, Dispatch
from raftflow.cluster.features import Levels
from raftflow.cluster.forwarding import Forwarder, LeaderWatch
from raftflow.cluster.invariant_checks import InvariantChecks
from raftflow.cluster.leader.duties import Duties
from raftflow.cluster.leader.grants import DutyTimes
from raftflow.cluster.leader_facts import LeaderFacts
from raftflow.cluster.members import Members
from raftflow.cluster.metrics import Metrics
from raftflow.cluster.pollers import Pollers
from raftflow.cluster.proposer import Proposer
from raftflow.cluster.reads import Reads
from raftflow.cluster.refused_calls import RefusedCalls
from raftflow.cluster.steward import Steward
from raftflow.engine.apply import Applied
from raftflow.engine.commands import FEATURE_LEVEL, Batch
from raftflow.engine.effects import SendMessage
from raftflow.raftlog.journal import LogEntry
from tests.sim.flow.edge import Edge
from tests.sim.flow.loop import SimLoop
from tests.sim.flow.store import Disk, SimReplica, SimStore
from tests.sim.node import SimNode

if TYPE_CHECKING:
    from tests.sim.flow.world import FlowWorld

CHANNEL = b"channel:"
EPOCH_US = 1_700_000_000_000_000
AT_ONCE = 8  # entries applied in one turn
METRICS = Metrics()  # nobody reads them
VERSION = "simulated"


@dataclass(frozen=True, slots=True)
class _Digests:
    compared_index: int = 0


NOT_COMPARED = _Digests()


@dataclass(frozen=True, slots=True)
class _Config:
    node_id: str


class SimLink:
    """What a peer's channel writes to."""

    def __init__(self, node: FlowNode, peer: str) -> None:
        self._node = node
        self.peer_id = peer

    def send(self, frame: bytes) -> bool:
        node = self._node
        return node.alive and node.world.network.send(node.name, self.peer_id, CHANNEL + frame)

    def close(self, reason: str, detail: str) -> NoReturn:
        raise AssertionError(f"{self.peer_id} sent what is no frame: {reason} {detail}")


class SimConsensus:
    """What the parts above ask of consensus. A process that ended leads nobody."""

    waiting_for = ""  # a node that is being repaired serves nothing here

    def __init__(self, node: FlowNode) -> None:
        self._node = node
        self.channel = PeerChannel()
        self.config = _Config(node.name)

    @property
    def role(self) -> Role:
        return self._node.core.role if self._node.alive else Role.FOLLOWER

    @property
    def term(self) -> int:
        return self._node.core.term

    @property
    def leader(self) -> str | None:
        return self._node.core.leader

    @property
    def commit_index(self) -> int:
        return self._node.core.commit_index

    @property
    def heard_commit_index(self) -> int:
        return self._node.core.heard_commit_index

    def connected(self, peer: str) -> bool:
        return peer in self._node.links

    def peers(self) -> dict[str, PeerInfo]:
        own = Member(self._node.name, "", voter=False)
        members = {own.id: own} | {each.id: each for each in self.configuration.members}
        return {peer: self._peer_info(member) for peer, member in sorted(members.items())}

    def _peer_info(self, member: Member) -> PeerInfo:
        met = self._node.met.get(member.id, "")
        return PeerInfo(
            id=member.id,
            http="",
            grpc="",
            raft=member.raft,
            metrics="",
            version=VERSION,
            feature_level=FEATURE_LEVEL if met else 0,
            connected=member.id == self._node.name or self.connected(member.id),
            voter=member.voter,
            incarnation=met,
        )

    def status(self) -> Any:
        return self._node.core.status()

    # -- who belongs to the cluster

    @property
    def configuration(self) -> Configuration:
        return self._node.core.configuration.configuration

    @property
    def first_seen(self) -> dict[str, str]:
        return self._node.first_seen

    def on_members(self, callback: Callable[[Configuration], None]) -> None:
        self._node.followers.append(callback)

    def change_membership(self, configuration: Configuration) -> Proposed:
        node = self._node
        if not node.alive:
            raise NotLeader(None)
        before = node.core.configuration
        proposed = node.core.change(configuration)
        node.world.checks.on_change(node, before, proposed, configuration)
        node.loop.call_soon(node.core.tick)
        return proposed

    def propose(self, payload: bytes) -> Proposed:
        node = self._node
        if not node.alive:
            raise NotLeader(None)
        proposed = node.core.propose(payload)
        node.world.checks.on_propose(node, proposed, payload)
        node.world.stamped[proposed.index, proposed.term] = int(node.world.clock.now * 1_000)
        node.loop.call_soon(node.core.tick)
        return proposed

    async def read_index(self, *, timeout_ms: int) -> int:
        node = self._node
        answer = node.loop.create_future()
        node.core.read_index(lambda index: None if answer.done() else answer.set_result(index))
        node.loop.call_soon(node.core.tick)
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                index = await answer
        except TimeoutError as error:
            raise types.Unavailable("no read index in time") from error
        if index is None:
            raise types.Unavailable("the leader could not confirm that it leads")
        return int(index)

    async def transfer_leadership(self, to: str | None) -> bool:
        return self._node.alive and self._node.core.transfer_leadership(to)

    def fatal(self, error: BaseException) -> NoReturn:
        self._node.fatal(error)


class FlowNode(SimNode):
    world: FlowWorld

    def __init__(self, world: FlowWorld, name: str) -> None:
        super().__init__(world, name)
        self.store_disk = Disk()
        self.state = self.durable = self.store_disk.written  # type: ignore[assignment]
        self.apply_lag_s = 0.001
        self.links: dict[str, SimLink] = {}
        self.loop: SimLoop
        self.wired = False
        self.followers: list[Callable[[Configuration], None]] = []

    def replace_disk(self, birth: Configuration) -> None:
        super().replace_disk(birth)
        self.store_disk = Disk()
        self.state = self.durable = self.store_disk.written  # type: ignore[assignment]

    # ---- life ------------------------------------------------------------------------------------

    def start(self) -> None:
        self.wired = False
        self.followers = []
        self.links = {}
        self.incoming: deque[LogEntry] = deque()
        self.applying = False
        self.replica = SimReplica(self.store_disk, self.world.cache)
        self.durable = self.replica.applied  # type: ignore[assignment]
        super().start()
        self.loop = SimLoop(self.world.clock, self._later)
        self.loop.enter(self._build)
        self.wired = True

    def _build(self) -> None:
        world, clock = self.world, self.world.clock
        self.consensus = consensus = SimConsensus(self)
        self.clock = LogClock(
            voters=len(world.names),
            monotonic_us=lambda: int(clock.read() * 1_000_000),
            wall_us=lambda: EPOCH_US + int(clock.read() * 1_000_000) + self.skew_ms * 1_000,
        )
        self.exchange = ClockExchange(consensus=consensus, clock=self.clock)  # type: ignore[arg-type]
        self.watch = LeaderWatch()
        shared: dict[str, Any] = {"consensus": consensus, "node_id": self.name}
        replica: Any = self.replica
        patience: dict[str, Any] = {"leader_wait_ms": world.config.leader_wait_ms}
        store: Any = SimStore(
            self.store_disk, self.replica.settle, lambda: self.rng.uniform(0.0005, 0.01)
        )
        self.store = store
        self.levels = Levels(members=consensus.peers, agreed=self._agreed_level)
        self.proposer = Proposer(
            clock=self.clock, limits=world.limits, level=lambda: self.levels.level, **shared
        )
        self.forwarder = Forwarder(
            proposer=self.proposer,
            watch=self.watch,
            **patience,
            **shared,
        )
        self.reads = Reads(
            consensus=shared["consensus"],
            replica=replica,
            **patience,
        )
        self.duties = Duties(
            node_id=self.name,
            proposer=self.proposer,
            reads=self.reads,
            replica=replica,
            store=store,
            clock=self.clock,
            metrics=METRICS,
            times=DutyTimes(lease_ms=world.lease_ms, decision_timeout_ms=world.decision_timeout_ms),
            network=consensus,
            fatal=self.fatal,
        )
        self.dispatch = Dispatch(
            replica=replica,
            forwarder=self.forwarder,
            watch=self.watch,
            sink=self.duties,
            limits=world.limits,
            **patience,
            lease_ms=world.lease_ms,
            decision_timeout_ms=world.decision_timeout_ms,
            **shared,
        )
        self.attempts = Attempts()
        self._wire()

    def _wire(self) -> None:
        """As `cluster.node` does."""
        shared_consensus: Any = self.consensus
        channel = self.consensus.channel
        self.duties.returns.born_index = self.journal.last_index
        self.proposer.on_submitted = self.duties.on_submitted
        self.proposer.on_entry = self.duties.on_entry
        self.replica.subscribe(self.proposer.on_applied)
        self.replica.subscribe(self.forwarder.on_applied)
        self.replica.subscribe(self.duties.on_applied)
        self.replica.subscribe(self.dispatch.on_applied)
        self.replica.subscribe(self.attempts.on_applied)
        channel.register(DEMAND_METHOD, self.duties.on_demand_message)
        channel.register(HEARTBEAT_METHOD, self.duties.on_heartbeat_message)
        channel.on_up(self.exchange.tell)
        channel.on_up(self.dispatch.on_peer_up)
        channel.on_down(self.duties.on_peer_down)
        self.world.ghosts.listen(self.proposer)
        self.exchange.start()
        self.members = Members(consensus=shared_consensus, watch=self.watch, node_id=self.name)
        self.consensus.on_members(self._on_members)
        self._on_members(self.consensus.configuration)
        Steward(shared_consensus).start()
        self.edge = Edge(self._services())

    def _agreed_level(self) -> int:
        return self.core.configuration.configuration.feature_level

    def _on_members(self, configuration: Configuration) -> None:
        others = tuple(each for each in configuration.voters if each != self.name)
        self.clock.follow(voters=len(configuration.voters), peers=others)

    def _follow_members(self) -> None:
        super()._follow_members()
        for follow in self.followers:
            follow(self.core.configuration.configuration)

    def _services(self) -> NodeServices:
        return NodeServices(
            config=self.world.config,
            forwarder=self.forwarder,
            reads=self.reads,
            dispatch=self.dispatch,
            pollers=Pollers(
                consensus=self.consensus,  # type: ignore[arg-type]
                node_id=self.name,
                workers=self.dispatch.workers,
                leading=self.duties.standing,
            ),
            leader_facts=LeaderFacts(
                consensus=self.consensus,  # type: ignore[arg-type]
                node_id=self.name,
                leading=self.duties,
            ),
            refused=RefusedCalls(
                consensus=self.consensus,  # type: ignore[arg-type]
                node_id=self.name,
            ),
            attempts=self.attempts,
            replica=self.replica,  # type: ignore[arg-type]
            store=self.store,
            consensus=self.consensus,  # type: ignore[arg-type]
            metrics=METRICS,
            clock=self.clock,
            levels=self.levels,
            members=self.members,
            handover=None,  # type: ignore[arg-type]
            checkpoints=None,  # type: ignore[arg-type]
            elections=None,  # type: ignore[arg-type]  # nobody looks at the cluster page here
            figures=None,  # type: ignore[arg-type]
            peer_reports=None,  # type: ignore[arg-type]
            ports=None,  # type: ignore[arg-type]
            presence=None,  # type: ignore[arg-type]
            samples=None,  # type: ignore[arg-type]
            digests=NOT_COMPARED,  # the checkers compare them
            checks=InvariantChecks(store=self.store, metrics=METRICS, fatal=self.fatal),
            backups=None,  # type: ignore[arg-type]  # nobody asks for one here
        )

    def kill(self, *, power: bool) -> None:
        super().kill(power=power)
        if self.wired:
            self.wired = False
            self.loop.die()

    # ---- peers -----------------------------------------------------------------------------------

    def _deliver(self, source: str, raw: bytes) -> None:
        if raw.startswith(CHANNEL):
            self._now_or_later(partial(self._receive_frame, source, raw[len(CHANNEL) :]))
        else:
            super()._deliver(source, raw)

    def _receive_frame(self, source: str, frame: bytes) -> None:
        link: Any = self.links.get(source)
        if link is not None:
            self.loop.enter(lambda: self.consensus.channel.link_frame(link, frame))

    def _connected(self, peer: str) -> None:
        super()._connected(peer)
        self._now_or_later(partial(self._link_up, peer))

    def _link_up(self, peer: str) -> None:
        link: Any = SimLink(self, peer)
        self.links[peer] = link
        self.loop.enter(lambda: self.consensus.channel.link_up(link))

    def _disconnected(self, peer: str) -> None:
        super()._disconnected(peer)
        self._now_or_later(partial(self._link_down, peer))

    def _link_down(self, peer: str) -> None:
        link: Any = self.links.pop(peer, None)
        if link is not None:
            self.loop.enter(lambda: self.consensus.channel.link_down(link, died=True))

    # ---- Callbacks -------------------------------------------------------------------------------

    def on_role(self, role: Role, term: int, leader: str | None) -> None:
        super().on_role(role, term, leader)
        if self.wired:
            for part in (self.proposer, self.duties, self.watch, self.dispatch):
                self.loop.enter(partial(part.on_role, role, term, leader))

    def on_commit(self, entries: Sequence[LogEntry]) -> None:
        self.world.checks.on_commit(self, entries)
        self.delivered = entries[-1].index
        self.incoming.extend(entries)
        self._apply_soon()

    def _apply_soon(self) -> None:
        if not self.applying:
            self.applying = True
            self._later(self.rng.random() * self.apply_lag_s, self._apply)

    def _apply(self) -> None:
        self.applying = False
        for _ in range(AT_ONCE):
            if not self.incoming:
                break
            entry = self.incoming.popleft()
            if entry.index > self.replica.applied.index:
                self._apply_one(entry)
        if self.incoming:
            self._apply_soon()
        if not self.syncing:
            self.syncing = True
            self._later(self.rng.uniform(0.002, 0.05), self._sync_store)

    def _apply_one(self, entry: LogEntry) -> None:
        applied, batch = self.replica.apply(entry)
        self.state = self.replica.applied  # type: ignore[assignment]
        self.world.checks.on_state(self)
        if self.world.tells and batch.index > self.world.flow_checks.index:
            self._tell(applied, batch)
        self.world.flow_checks.on_applied(self, applied, batch)
        self.loop.enter(partial(self.replica.tell, applied, batch))
        if any(isinstance(effect, SendMessage) for effect in applied.effects):
            self.world.ambush(self)

    def _tell(self, applied: Applied, batch: Batch) -> None:
        for (_, command), reply in zip(batch.commands, applied.replies, strict=True):
            self.world.trace(f"{self.name} > entry {batch.index} {command}: {reply.answer}")
        for key, event in applied.changes.events:
            self.world.trace(f"{self.name} > entry {batch.index} {key.run_id} {event}")

    def _sync_store(self) -> None:
        self.replica.settle()
        super()._sync_store()

    def _copy_store(self, peer: str) -> None:
        written, file = self.store_disk.written, self.store_disk.copy()
        name = f"{self.name}-{self.incarnation}-{written.index}-{written.term}"
        self.copies[name] = file
        digest = hashlib.sha256(file).hexdigest()
        manifest = SnapshotManifest(written.index, written.term, len(file), digest, name)
        self.core.snapshot_ready(peer, manifest)
        self.world.stats["snapshots offered"] += 1

    def _install(self, copy: bytes) -> None:
        self.store_disk.install(copy)
        self.replica.wake()
        self.state = self.durable = self.replica.applied  # type: ignore[assignment]

    # ---- calls -----------------------------------------------------------------------------------

    def serve(self, call: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Begin a call's task in this process; `done` hears of its end."""

        def begin() -> None:
            call().add_done_callback(done)

        self._now_or_later(lambda: self.loop.enter(begin))
