"""Consensus: one Raft node, driven from the event loop, over real connections and a real disk.

The loop thread owns the core. It is ticked after messages, proposals and flushes, once per turn of
the loop however many of them came, and every 20 ms. Only the flush runs elsewhere.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import NoReturn

import structlog

from raftflow.cluster.consensus import outcast
from raftflow.cluster.consensus.boots import BootCount
from raftflow.cluster.consensus.channel import PeerChannel
from raftflow.cluster.consensus.configurations import REGULAR, Held
from raftflow.cluster.consensus.core import Core
from raftflow.cluster.consensus.ending import exit_process
from raftflow.cluster.consensus.flusher import Flusher
from raftflow.cluster.consensus.handshake import (
    NOT_A_MEMBER,
    STALE_DATA,
    HandshakeError,
    Purpose,
)
from raftflow.cluster.consensus.identity import Claim, claim_directory
from raftflow.cluster.consensus.insight import Insight
from raftflow.cluster.consensus.ledger import PeerLedger
from raftflow.cluster.consensus.membership import Configuration, Member
from raftflow.cluster.consensus.membership_file import MembershipFile
from raftflow.cluster.consensus.mesh import Mesh
from raftflow.cluster.consensus.outcast import Outcast, Standing
from raftflow.cluster.consensus.proof import Point
from raftflow.cluster.consensus.recovery import Recovery
from raftflow.cluster.consensus.settings import ConsensusConfig, hello_of, peer_info
from raftflow.cluster.consensus.snapshots import SnapshotFetcher, SnapshotSource, SnapshotStore
from raftflow.cluster.consensus.transport import RaftTransport
from raftflow.cluster.consensus.types import (
    ConsensusStatus,
    DriverStats,
    Listener,
    PeerInfo,
    Proposed,
    Role,
    SnapshotManifest,
    Unavailable,
)
from raftflow.cluster.consensus.watchdog import LoopWatchdog
from raftflow.raftlog.disk import OsDisk
from raftflow.raftlog.hardstate import HardState
from raftflow.raftlog.journal import Journal, LogEntry

log = structlog.get_logger()

TICK_S = 0.02
# A timer this late means that the whole process stood still; words of the peers wait unread.
_STALL_S = 0.1
_STALL_DRAIN_S = 1.0
_SNAPSHOT_EXPIRY_S = 5.0


class Consensus:
    def __init__(
        self,
        config: ConsensusConfig,
        *,
        store: SnapshotStore,
        claim: Claim | None = None,
        die: Callable[[BaseException], NoReturn] = exit_process,
    ) -> None:
        self.config = config
        # There is no mesh yet.
        self.channel = PeerChannel(serves=lambda peer: self._mesh.is_member(peer))  # noqa: PLW0108
        # Tells how long each flush took; metrics replace it.
        self.on_flush: Callable[[float], None] = lambda seconds: None
        # Told, at most once, that this node should stop in order; by default it ends at once.
        self.on_outcast: Callable[[Outcast], None] = self.fatal
        self._is_outcast = False
        self._built = False
        self._store = store
        self._claim = claim  # of the data directory, by an owner who releases it after us
        self._die = die
        self._listener: Listener | None = None
        self._disk = OsDisk()
        self._exits = AsyncExitStack()
        self._dead = False
        self._stopped = False
        self._tick_wanted = False
        self._ticks = 0
        self._flushes = 0
        self._flush_seconds = 0.0
        self._watchdog = LoopWatchdog()
        self._stalled_until = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._expire_at = 0.0
        self.recovery = Recovery(
            self.channel,
            disk=self._disk,
            directory=os.path.join(config.data_dir, "raft"),
            segment_bytes=config.segment_bytes,
        )
        self.insight = Insight(self.recovery)
        self._on_members: list[Callable[[Configuration], None]] = []
        self._addresses: dict[str, str] = {}  # of the other members, and of those leaving

    def set_listener(self, listener: Listener) -> None:
        self._listener = listener

    async def start(self) -> None:
        """Bind, check the disk, join. Raises IdentityError, AddressUnavailable, JournalError."""
        assert self._listener is not None, "set_listener() comes first"
        self._loop = asyncio.get_running_loop()
        try:
            await self._start()
        except BaseException:
            await self._exits.aclose()
            raise

    async def _start(self) -> None:
        config, exits = self.config, self._exits
        claim = self._claim or claim_directory(
            config.data_dir, cluster_id=config.cluster_id, node_id=config.node_id
        )
        if self._claim is None:
            exits.callback(claim.lock.release)
        self._transport = RaftTransport(
            on_received=self._wake,
            on_lost=self._peer_lost,
            on_error=self.fatal,
        )
        self._ledger = PeerLedger.open(config.data_dir)
        self._hello = hello_of(config, claim.identity)
        self._mesh = Mesh(
            hello=self._hello,
            listen=config.listen,
            peers={},
            handlers={Purpose.CHANNEL: self.channel},
            ledger=self._ledger,
            on_refused=self._refused,
            on_error=self.fatal,
            limits=config.limits,
            tls=config.tls,
        )
        exits.push_async_callback(self._mesh.stop)
        self.insight.mesh = self._mesh
        await self._mesh.bind()
        self._directory = os.path.join(config.data_dir, "raft")
        await asyncio.to_thread(self._open_disk)
        self._journal = await self._open_journal()
        exits.callback(self._journal.close)
        self._flusher = Flusher(flush=self._journal.flush, flushed=self._flushed, failed=self.fatal)
        self._build()
        self._built = True
        self._mesh.admit(Purpose.RAFT, self._transport)
        exits.push_async_callback(self._flusher.close)
        # Once more, so that no message meets a journal that is being closed.
        exits.push_async_callback(self._mesh.stop)
        exits.push_async_callback(self._source.close)
        exits.push_async_callback(self._fetcher.close)
        self._follow_members()
        if not self._mesh.started:
            await self._mesh.start()
        boots = BootCount(
            data_dir=config.data_dir,
            identity=claim.identity,
            mesh=self._mesh,
            channel=self.channel,
            ledger=self._ledger,
            fatal=self.fatal,
        )
        boots.start()
        exits.push_async_callback(boots.stop)
        self.recovery.begin(self, self._core, self._source, self._fetcher)
        exits.push_async_callback(self.recovery.stop)
        self._due = self._loop.time() + TICK_S
        self._timer = self._loop.call_at(self._due, self._on_timer)
        log.info(
            "consensus_started",
            node=config.node_id,
            cluster=config.cluster_id,
            listen=config.listen,
            term=self._core.term,
            first_index=self._journal.first_index,
            last_index=self._journal.last_index,
            applied_index=self._store.applied_index,
            voters=self.configuration.voters,
            configuration_index=self._core.configuration.index,
        )

    async def stop(self) -> None:
        """Leave the cluster in order. Hand leadership over first, if that matters."""
        if self._stopped:
            return
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        await self._exits.aclose()
        log.info("consensus_stopped", node=self.config.node_id)

    def propose(self, payload: bytes) -> Proposed:
        """Append at once; raises NotLeader. The outcome is told by on_apply and on_role."""
        if len(payload) > self.config.max_entry_bytes:
            raise ValueError(f"entry of {len(payload)} bytes, limit {self.config.max_entry_bytes}")
        proposed = self._core.propose(payload)
        self._wake()
        return proposed

    def change_membership(self, configuration: Configuration) -> Proposed:
        """Raises NotLeader, ChangeRefused. In force at once; committed like any entry."""
        proposed = self._core.change(configuration)
        self._wake()
        return proposed

    @property
    def configuration(self) -> Configuration:
        """Who belongs to the cluster: the newest configuration in the log, committed or not."""
        return self._core.configuration.configuration

    @property
    def configuration_index(self) -> int:
        return self._core.configuration.index

    @property
    def committed_configuration_index(self) -> int:
        return self._core.committed_configuration.index

    @property
    def first_seen(self) -> Mapping[str, str]:
        """The disk of each peer that counts while the configuration records none."""
        return self._ledger.first_seen

    @property
    def waiting_for(self) -> str:
        """What this node lacks after damage; empty when it is whole."""
        return self.recovery.waiting_for

    @property
    def incarnation(self) -> str:
        return self._hello.incarnation

    @property
    def no_vote(self) -> str:
        """Why this node counts in no majority at present; empty when it does."""
        return self.recovery.waiting_for or outcast.no_vote(
            self.configuration, self.config.node_id, self.incarnation
        )

    def on_members(self, callback: Callable[[Configuration], None]) -> None:
        """Called with the configuration in force: at the start, when it changes, and when it is
        committed."""
        self._on_members.append(callback)

    async def read_index(self, *, timeout_ms: int) -> int:
        """An index that, once applied here, makes a local read linearizable."""
        answer: asyncio.Future[int | None] = self._loop.create_future()

        def done(index: int | None) -> None:
            if not answer.done():
                answer.set_result(index)

        self._core.read_index(done)
        self._wake()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                index = await answer
        except TimeoutError as error:
            raise Unavailable(f"no read index within {timeout_ms} ms") from error
        if index is None:
            raise Unavailable("the leader could not confirm that it leads")
        return index

    async def transfer_leadership(self, to: str | None) -> bool:
        """Ask `to` (or the most advanced peer) to take over; True when the request was sent."""
        sent = self._core.transfer_leadership(to)
        self._wake()
        return sent

    def compact(self, index: int) -> None:
        """Drop the log up to `index`, except what a follower that fetches a copy still needs."""
        if self._stopped:
            return  # the store's last checkpoint comes after the journal is closed
        pinned = self._source.pinned_index()
        self._core.compact(index if pinned is None else min(index, pinned))

    def status(self) -> ConsensusStatus:
        return self._core.status()

    def newest_entry(self) -> bytes | None:
        """The last entry with a payload that the log still holds, committed or not."""
        journal = self._journal
        for index in range(journal.last_index, journal.prev_index, -1):
            (entry,) = journal.entries(index, index + 1, max_bytes=1)
            if entry.payload[:1] == REGULAR and len(entry.payload) > 1:
                return entry.payload[1:]
        return None

    @property
    def role(self) -> Role:
        # A node that repairs its log has connections already, and no core yet.
        return self._core.role if self._built else Role.FOLLOWER

    @property
    def commit_index(self) -> int:
        return self._core.commit_index

    def connected(self, peer: str) -> bool:
        """Whether Raft messages reach the peer, as far as this node knows."""
        return self._transport.connected(peer)

    @property
    def term(self) -> int:
        return self._core.term

    @property
    def leader(self) -> str | None:
        return self._core.leader if self._built else None

    @property
    def heard_commit_index(self) -> int:
        """What the leader said to be committed, be our log that far or not."""
        return self._core.heard_commit_index

    def peers(self) -> dict[str, PeerInfo]:
        """Every member, and this node."""
        own = Member(self.config.node_id, self.config.advertised, voter=False)
        members = {own.id: own} | {member.id: member for member in self.configuration.members}
        return {peer: self._peer_info(member) for peer, member in sorted(members.items())}

    def _peer_info(self, member: Member) -> PeerInfo:
        own = member.id == self.config.node_id
        known = self._hello if own else self._mesh.known.get(member.id)
        return peer_info(member, known, connected=own or self._transport.connected(member.id))

    def stats(self) -> DriverStats:
        transport = self._transport
        return DriverStats(
            ticks=self._ticks,
            flushes=self._flushes,
            flush_seconds=self._flush_seconds,
            messages_sent=transport.messages_sent,
            messages_received=transport.messages_received,
            messages_dropped=transport.messages_dropped,
            bytes_sent=transport.bytes_sent,
            bytes_received=transport.bytes_received,
            loop_lag=self._watchdog.snapshot(),
        )

    # Core callbacks ---------------------------------------------------------------------------

    def on_commit(self, entries: Sequence[LogEntry]) -> None:
        assert self._listener is not None
        self._listener.on_apply(entries)

    def on_role(self, role: Role, term: int, leader: str | None) -> None:
        log.info(
            "role_changed", node=self.config.node_id, role=role.value, term=term, leader=leader
        )
        assert self._listener is not None
        self._listener.on_role(role, term, leader)

    def on_configuration(self, index: int, configuration: Configuration, committed: bool) -> None:
        if committed:
            self._settle(Held(index, configuration))
            # By then those who left have heard of it.
            later = self.config.timing.election_max_ms / 1000
            self._loop.call_later(later, self._follow_members)
        self._follow_members(and_those_leaving=True)

    def on_snapshot_needed(self, peer: str) -> None:
        self._source.needed_by(peer)

    def on_snapshot_offer(self, leader: str, manifest: SnapshotManifest) -> None:
        self._fetcher.offered(leader, manifest)

    def wants_flush(self) -> None:
        self._flusher.request()

    def fatal(self, error: BaseException) -> NoReturn:
        self._dead = True
        if self._timer is not None:
            self._timer.cancel()
        try:
            log.critical(
                "node_stopping", node=self.config.node_id, reason=str(error), exc_info=error
            )
        finally:
            # Also when the log cannot be written: it may live on the disk that failed.
            self._die(error)

    # ------------------------------------------------------------------------------------------

    def _open_disk(self) -> None:
        directory, disk = self._directory, self._disk
        disk.makedirs(directory)  # its name durable, too: votes without their directory are lost
        born = self._store.applied_index == 0
        self._hard_state = HardState.open(directory, disk, may_be_new=born)
        self._membership = MembershipFile.open(directory, disk)
        self._held = self._membership.held or Held(0, self.config.birth)
        self._membership.store(self._held)
        self._standing = Standing(
            self._membership, directory, self.config.node_id, self._hello.incarnation
        )

    async def _open_journal(self) -> Journal:
        size, cache = self.config.segment_bytes, self.config.journal_cache_bytes
        opened = partial(
            Journal.open, self._directory, disk=self._disk, segment_bytes=size, cache_bytes=cache
        )
        peers = self._known_peers()
        applied = Point(self._store.applied_index, self._store.applied_term)
        meet = partial(self._meet, peers)
        members = {member.id for member in self._held.configuration.members} - {self.config.node_id}
        return await self.recovery.open_journal(opened, peers, members, applied, meet_peers=meet)

    def _known_peers(self) -> dict[str, str]:
        """Where the other members were last known to be, before the log is read."""
        members = self._held.configuration.members
        peers = {member.id: member.raft for member in members} | dict(self.config.voters)
        peers.pop(self.config.node_id, None)
        return peers

    async def _meet(self, peers: Mapping[str, str]) -> None:
        """Over the channel only: there is no core yet."""
        self._mesh.follow(peers, configuration=self._held.index)
        await self._mesh.start()

    def _build(self) -> None:
        self._source = SnapshotSource(
            store=self._store, channel=self.channel, ready=self._snapshot_ready, log=self._journal
        )
        self._fetcher = SnapshotFetcher(
            directory=os.path.join(self.config.data_dir, "snapshots", "incoming"),
            store=self._store,
            channel=self.channel,
            installing=self._snapshot_installing,
            installed=self._snapshot_installed,
            failed=self.fatal,
        )
        held = self._held
        lacks = self.recovery.lacks(
            self._journal, self._store.applied_index, alone=not self._known_peers()
        )
        self._core = Core(
            node_id=self.config.node_id,
            incarnation=self._hello.incarnation,
            configuration=held.configuration,
            configuration_index=held.index,
            journal=self._journal,
            hard_state=self._hard_state,
            transport=self._transport,
            applied_index=self._store.applied_index,
            applied_term=self._store.applied_term,
            callbacks=self,
            timing=self.config.timing,
            first_seen=self._ledger.first_seen,
            abstaining=lacks.promises,
            awaiting_copy=lacks.state,
        )
        self.insight.begin(self._core, self._journal, self._source, self._fetcher)

    def _wake(self) -> None:
        """Tick once, however many reasons there are. A turn later than the reason: what was
        committed is applied by then, and what follows from it proposed, so that one message to
        each peer carries both the commit index and the next entry."""
        if not self._tick_wanted:
            self._tick_wanted = True
            self._loop.call_soon(self._loop.call_soon, self._tick)

    def _tick(self) -> None:
        self._tick_wanted = False
        if self._dead or self._stopped or self._stalled_until > 0:
            return
        self._ticks += 1
        try:
            self._core.tick()
        except Exception as error:  # noqa: BLE001
            self.fatal(error)
        self._standing.level = self._standing.level or self._core.is_level

    def _on_timer(self) -> None:
        now = self._loop.time()
        late = now - self._due
        self._watchdog.observe(late, now_s=now)
        if late > _STALL_S:
            # Deadlines have passed while nobody read the socket: read first, judge afterwards.
            self._stalled_until = now + _STALL_DRAIN_S
            self._drained_bytes = -1
            self._drain()
        else:
            self._wake()
        self._due = now + TICK_S
        self._timer = self._loop.call_at(self._due, self._on_timer)
        if now >= self._expire_at:
            self._expire_at = now + _SNAPSHOT_EXPIRY_S
            self._source.expire()

    def _drain(self) -> None:
        """After a stall: turn the loop until a whole turn brought no bytes."""
        received = self._mesh.bytes_received
        if received != self._drained_bytes and self._loop.time() < self._stalled_until:
            self._drained_bytes = received
            self._loop.call_soon(self._loop.call_soon, self._drain)
            return
        self._stalled_until = 0.0
        self._wake()

    def _flushed(self, index: int, seconds: float) -> None:
        if self._dead or self._stopped:
            return
        self._flushes += 1
        self._flush_seconds += seconds
        self.on_flush(seconds)
        try:
            self._core.flushed(index)
        except Exception as error:  # noqa: BLE001
            self.fatal(error)
        self._wake()

    def _settle(self, held: Held) -> None:
        if self._standing.settle(held, self.configuration):
            self._cast_out(f"was removed from its cluster (entry {held.index})")

    def _refused(self, peer: str, refusal: HandshakeError) -> None:
        """A peer (or, by what it says, this node itself) will not have us."""
        # A log that is under repair says nothing yet; all this is told again.
        if refusal.reason == NOT_A_MEMBER and self._built:
            led, now = self._core.leader is not None, self._loop.time()
            if self._standing.surely_removed(as_of=refusal.configuration, led=led, now_s=now):
                self._cast_out(
                    f"does not belong to its cluster any more ({peer}: {refusal.detail})"
                )
            else:
                log.info("waits_to_be_added", node=self.config.node_id, told_by=peer)
        elif refusal.reason == STALE_DATA:
            self.fatal(outcast.old_copy(self.config.data_dir, seen_by=peer))

    def _cast_out(self, why: str) -> None:
        if not self._is_outcast:
            self._is_outcast = True
            config = self.config
            self.on_outcast(
                outcast.no_member(
                    config.node_id, why, directory=config.data_dir, address=config.advertised
                )
            )

    def _peer_lost(self, peer: str) -> None:
        self._core.peer_lost(peer)

    def _snapshot_ready(self, peer: str, manifest: SnapshotManifest) -> None:
        self._core.snapshot_ready(peer, manifest)
        self._wake()

    def _snapshot_installing(self, manifest: SnapshotManifest) -> None:
        if (held := _held(manifest)) is not None:
            self._settle(held)

    def _snapshot_installed(self, manifest: SnapshotManifest) -> None:
        self._core.snapshot_installed(manifest.index, manifest.term, _held(manifest))
        self._wake()

    def _follow_members(self, *, and_those_leaving: bool = False) -> None:
        """Meet the members of the newest configuration, and of the last committed one: the newest
        may yet be undone."""
        if self._stopped or self._dead:
            return
        before = self._core.committed_configuration.configuration
        addresses = {
            member.id: self.config.voters.get(member.id, member.raft)
            for member in (*before.members, *self.configuration.members)
            if member.id != self.config.node_id
        }
        self._addresses = self._addresses | addresses if and_those_leaving else addresses
        self._mesh.follow(self._addresses, configuration=self.committed_configuration_index)
        for callback in self._on_members:
            callback(self.configuration)


def _held(manifest: SnapshotManifest) -> Held | None:
    if manifest.configuration is None:
        return None
    return Held(manifest.configuration_index, manifest.configuration)
