"""One simulated node: what the driver and the replica do around the real core, journal and vote."""

from __future__ import annotations

import hashlib
import random
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from pysyncobj import syncobj as engine
from pysyncobj.node import Node as RaftNode
from pysyncobj.transport import Transport

from raftflow.cluster.consensus import wire
from raftflow.cluster.consensus.configurations import Held
from raftflow.cluster.consensus.core import Core
from raftflow.cluster.consensus.membership import Configuration
from raftflow.cluster.consensus.membership_file import MembershipFile
from raftflow.cluster.consensus.types import Role, SnapshotManifest
from raftflow.raftlog import abstaining
from raftflow.raftlog.errors import JournalDamaged, JournalError
from raftflow.raftlog.hardstate import HardState
from raftflow.raftlog.journal import Journal, LogEntry
from tests.sim.checkers import Violation
from tests.sim.disk import PowerLost, SimDisk
from tests.sim.network import Endpoint
from tests.sim.options import CLOCKS
from tests.sim.sick import Sickness

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.sim.world import World

DIRECTORY = "/raft"
TICK_S = 0.020
KEYS = 8


class FailStop(Exception):
    """A node ended its process."""


@dataclass(frozen=True, slots=True)
class State:
    """A toy store: registers, and a digest over everything that was ever applied."""

    index: int = 0
    term: int = 0
    digest: int = 0
    registers: tuple[bytes, ...] = (b"",) * KEYS

    def apply(self, entry: LogEntry) -> State:
        registers = self.registers
        if entry.payload:
            key = entry.payload[0] % KEYS
            registers = (*registers[:key], entry.payload, *registers[key + 1 :])
        digest = zlib.crc32(entry.payload, zlib.crc32(b"%d" % entry.term, self.digest))
        return State(entry.index, entry.term, digest, registers)


class WatchedJournal(Journal):
    """The real journal; the checkers see what is appended and cut."""

    node: SimNode

    def append(self, entries: Sequence[LogEntry]) -> None:
        self.node.world.checks.on_append(self.node, entries)
        super().append(entries)

    def truncate_from(self, index: int) -> None:
        self.node.world.checks.on_truncate(self.node, index)
        self.node.world.trace(f"{self.node.name} cuts its log from {index} to {self.last_index}")
        super().truncate_from(index)

    def reset(self, index: int, term: int) -> None:
        self.node.world.checks.on_reset(self.node, index, term)
        super().reset(index, term)


def brief(message: wire.Message) -> str:
    entries = message.get("entries", ())
    span = f" entries {entries[0].index}-{entries[-1].index}" if entries else ""
    skipped = ("type", "entries")
    facts = " ".join(f"{key}={value}" for key, value in message.items() if key not in skipped)
    return f"{message['type']} {facts}{span}"


class SimTransport(Transport):  # type: ignore[misc]
    def __init__(self, node: SimNode) -> None:
        super().__init__(None, None, None)
        self._node = node

    def send(self, target: RaftNode, message: wire.Message) -> bool:
        node = self._node
        node.world.checks.on_send(node, target.id, message)
        if node.world.tells:
            node.world.trace(f"{node.name} > {target.id} {brief(message)}")
        return node.world.network.send(node.name, target.id, wire.encode(message))


class SimNode:
    """Survives its processes: the disk and the durable part of the store stay."""

    only_processes_crash = False

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.disk = SimDisk()
        self.disks = 1
        self.birth = world.birth
        self.first_seen: dict[str, str] = {}  # which disk each peer came with; on disk at once
        self.met: dict[str, str] = {}  # and in this process's life, last
        self.contacts: set[str] = set()
        self.durable = State()
        self.rng = random.Random(world.rng.getrandbits(64))
        self._chance = random.Random(self.rng.getrandbits(64))  # the core's
        self.usual_skew_ms, self.clock_rate = self._clock()
        self.skew_ms = self.usual_skew_ms
        self.flush_s = 0.001
        self.tick_s = TICK_S
        self.flushes = 0
        self.alive = False
        self.abstains = False
        self.sickness = Sickness(self, DIRECTORY)
        self.incarnation = 0
        self.paused_until = 0.0
        self.state = self.durable
        self.delivered = 0
        self.flushing = False
        self.flush_again = False
        self.syncing = False
        self.fetching: str | None = None
        self.copies: dict[str, Any] = {}
        self.inbox: list[Callable[[], None]] = []
        self.journal: WatchedJournal
        self.hard_state: HardState
        self.core: Core

    def _clock(self) -> tuple[int, float]:
        """How far its wall clock is off, and how fast its clocks run."""
        skew_ms, millionths = CLOCKS[self.world.options.clocks]
        fast = 1.0 + self.rng.uniform(-millionths, millionths) / 1e6
        return self.rng.randint(-skew_ms, skew_ms), fast

    # -- life

    def start(self) -> None:
        world = self.world
        self.alive = True
        self.incarnation += 1
        self.state = self.durable
        self.delivered = self.state.index
        self.flushing = self.flush_again = self.syncing = False
        self.fetching = None
        self.copies = {}
        self.inbox = []
        self.paused_until = 0.0
        self.sickness.end()
        with self.acting():
            if not self._open_disk():
                self.alive = False
                return
            self._open()
        self.sickness.recover()
        endpoint = Endpoint(
            self._deliver, self._connected, self._disconnected, self._calls, self._welcomes
        )
        world.network.attach(self.name, endpoint)
        self._later(self.rng.random() * TICK_S, self._tick)

    def replace_disk(self, birth: Configuration) -> None:
        """Everything it had is gone; it begins with what its operator says, as another disk."""
        self.world.checks.on_disk_lost(self)
        self.disk = SimDisk()
        self.disks += 1
        self.durable = self.state = State()
        self.birth = birth
        self.first_seen = {}

    @property
    def first_disk_id(self) -> str:
        return f"{self.name}1"

    @property
    def disk_id(self) -> str:
        return f"{self.name}{self.disks}"

    def _open_disk(self) -> bool:
        """False: the log is damaged, and its repair has begun."""
        self.hard_state = HardState.open(DIRECTORY, self.disk)
        self.membership = MembershipFile.open(DIRECTORY, self.disk)
        if self.membership.held is None:
            self.membership.store(Held(0, self.birth))
        try:
            self.journal = WatchedJournal.open(
                DIRECTORY, disk=self.disk, segment_bytes=self.world.segment_bytes
            )
        except JournalDamaged:
            held = self.membership.held
            assert held is not None
            members = {member.id for member in held.configuration.members} - {self.name}
            if not members:
                raise
            self.sickness.begin(sorted(members))
            return False
        self.journal.node = self
        return True

    def _open(self) -> None:
        world = self.world
        held = self.membership.held
        assert held is not None
        self.abstains = abstaining.marked(self.disk, DIRECTORY)
        world.checks.on_start(self)
        self.transport = SimTransport(self)
        self.core = Core(
            node_id=self.name,
            incarnation=self.disk_id,
            configuration=held.configuration,
            configuration_index=held.index,
            journal=self.journal,
            hard_state=self.hard_state,
            transport=self.transport,
            applied_index=self.state.index,
            applied_term=self.state.term,
            callbacks=self,
            timing=world.timing,
            first_seen=self.first_seen,
            abstaining=self.abstains,
            awaiting_copy=self.state.index < self.journal.prev_index,
        )
        self.met = {self.name: self.disk_id}
        self.first_seen.setdefault(self.name, self.disk_id)
        self.contacts = set()
        self._follow_members()
        world.checks.on_started(self)

    @contextmanager
    def acting(self) -> Iterator[None]:
        """What happens now happens by this node's clock and chance."""
        clock = self.world.clock
        before, clock.rate = clock.rate, self.clock_rate
        chance, engine.random = engine.random, self._chance
        try:
            yield
        finally:
            clock.rate, engine.random = before, chance

    def kill(self, *, power: bool) -> None:
        """`power`: unsynced data goes too, and nobody resets the connections."""
        if power and self.flushing and self.rng.random() < 0.5:
            self.disk.stop_at_sync = True
            try:
                self.journal.flush()
            except PowerLost:
                pass
        self.alive = False
        self.journal._broken = None  # The checkers go on reading what it had on disk.
        self.world.network.detach(self.name, reset=not power)
        if power:
            self.disk.lose_power(self.rng)
        else:
            self.disk.kill_process()

    def pause(self, seconds: float) -> None:
        self.paused_until = max(self.paused_until, self.world.clock.now + seconds)
        self._later(seconds, self.resume, even_paused=True)

    @property
    def paused(self) -> bool:
        return self.world.clock.now < self.paused_until

    def resume(self) -> None:
        if not self.paused:
            inbox, self.inbox = self.inbox, []
            for position, event in enumerate(inbox):
                if not self.alive or self.paused:
                    self.inbox.extend(inbox[position:])
                    return
                self.do(event)

    def _later(
        self, delay_s: float, event: Callable[[], None], *, even_paused: bool = False
    ) -> None:
        incarnation = self.incarnation

        def happen() -> None:
            if self.incarnation == incarnation and self.alive:
                if self.paused and not even_paused:
                    self.inbox.append(event)
                else:
                    self.do(event)

        self.world.clock.after(delay_s, happen)

    def do(self, event: Callable[[], None]) -> None:
        try:
            clock = self.world.clock
            before = clock.rate, engine.random  # `acting`, without its price
            clock.rate, engine.random = self.clock_rate, self._chance
            try:
                event()
            finally:
                clock.rate, engine.random = before
        except FailStop:
            if not self.disk.failed:
                raise
            self.world.trace(f"{self.name} ends itself: its disk failed")
            self.kill(power=False)
            self.world.restart_after(self, self.rng.uniform(0.05, 0.5))
        else:
            self.world.checks.after_step(self)

    # -- what the driver does

    def _tick(self) -> None:
        self.core.tick()
        self._later(self.tick_s, self._tick)

    def _deliver(self, source: str, raw: bytes) -> None:
        def receive() -> None:
            self.transport._onMessageReceived(RaftNode(source), wire.decode(raw))
            self.core.tick()

        self._now_or_later(receive)

    def _connected(self, peer: str) -> None:
        disk = self.world.nodes[peer].disk_id

        def connect() -> None:
            self.first_seen.setdefault(peer, disk)
            self.met[peer] = disk
            self.transport._onNodeConnected(RaftNode(peer, incarnation=disk))

        self._now_or_later(connect)

    def _disconnected(self, peer: str) -> None:
        self._now_or_later(lambda: self.transport._onNodeDisconnected(RaftNode(peer)))

    def _now_or_later(self, event: Callable[[], None]) -> None:
        if self.paused:
            self.inbox.append(event)
        else:
            self.do(event)

    def propose(self, payload: bytes) -> None:
        proposed = self.core.propose(payload)
        self.world.checks.on_propose(self, proposed, payload)
        self.core.tick()

    # -- Callbacks

    def wants_flush(self) -> None:
        if self.flushing:
            self.flush_again = True
            return
        self.flushing = True
        self.flushes += 1
        self._later(self.flush_s * self.rng.uniform(0.5, 1.5), self._flush)

    def _flush(self) -> None:
        try:
            index = self.journal.flush()
        except JournalError as error:
            self.fatal(error)
        # Another thread did it; the loop hears of it a little later.
        self._later(self.rng.random() * 0.0005, lambda: self._flushed(index))

    def _flushed(self, index: int) -> None:
        self.flushing = False
        self.core.flushed(index)
        if self.flush_again or self.journal.needs_flush:
            self.flush_again = False
            self.wants_flush()
        self.core.tick()

    def on_commit(self, entries: Sequence[LogEntry]) -> None:
        self.world.checks.on_commit(self, entries)
        for entry in entries:
            if entry.index > self.state.index:
                self.state = self.state.apply(entry)
                self.world.checks.on_state(self)
        self.delivered = entries[-1].index
        if not self.syncing:
            self.syncing = True
            self._later(self.rng.uniform(0.002, 0.05), self._sync_store)

    def _sync_store(self) -> None:
        """Write-behind, and compaction after it."""
        self.syncing = False
        self.durable = self.state
        keep = self.world.keep_entries
        if self.durable.index - self.journal.prev_index > keep * 2:
            self.core.compact(self.durable.index - self.rng.randrange(keep))

    def on_role(self, role: Role, term: int, leader: str | None) -> None:
        self.world.checks.on_role(self, role, term, leader)
        if role is Role.LEADER and not self.only_processes_crash:
            self.world.checks.on_elected(self, term)
        if self.world.tells:
            self.world.trace(f"{self.name} is {role.value} in term {term}, led by {leader}")

    def on_configuration(self, index: int, configuration: Configuration, committed: bool) -> None:
        if committed:
            self.membership.store(Held(index, configuration))  # a disk that fails ends it here
        self.world.checks.on_configuration(self, index, configuration, committed)
        if committed:
            self._later(self.world.timing.election_max_ms / 1000, self._forget_who_left)
        self._follow_members()

    def _follow_members(self) -> None:
        self.contacts |= self._members()
        self.world.network.meet(self.name)

    def _members(self) -> set[str]:
        held = (self.core.configuration, self.core.committed_configuration)
        return {member.id for each in held for member in each.configuration.members}

    def _forget_who_left(self) -> None:
        left, self.contacts = self.contacts - self._members(), self._members()
        for peer in sorted(left):
            self.world.network.part(self.name, peer)

    def _calls(self, peer: str) -> bool:
        return peer in self.contacts

    def _welcomes(self, peer: str) -> bool:
        """As `handshake.check_call` does."""
        theirs = self.world.nodes[peer].core.committed_configuration.index
        return peer in self.contacts or theirs > self.core.committed_configuration.index

    def on_snapshot_needed(self, peer: str) -> None:
        self._later(self.rng.uniform(0.001, 0.05), lambda: self._copy_store(peer))

    def _copy_store(self, peer: str) -> None:
        copy = self.durable
        name = f"{self.name}-{self.incarnation}-{copy.index}-{copy.term}"
        self.copies[name] = copy
        digest = hashlib.sha256(repr(copy).encode()).hexdigest()
        self.core.snapshot_ready(peer, SnapshotManifest(copy.index, copy.term, 100, digest, name))
        self.world.stats["snapshots offered"] += 1

    def on_snapshot_offer(self, leader: str, manifest: SnapshotManifest) -> None:
        if self.fetching == manifest.snapshot_id:
            return
        self.fetching = manifest.snapshot_id
        delay = self.rng.uniform(0.005, 0.2)
        self._later(delay, lambda: self._fetched(leader, manifest))

    def _fetched(self, leader: str, manifest: SnapshotManifest) -> None:
        source = self.world.nodes[leader]
        if self.fetching != manifest.snapshot_id:
            return
        self.fetching = None
        reachable = self.world.network.is_connected(self.name, leader)
        copy = source.copies.get(manifest.snapshot_id)
        if not reachable or not source.alive or copy is None:
            return
        if manifest.index > self.state.index:
            if manifest.configuration is not None:
                held = Held(manifest.configuration_index, manifest.configuration)
                try:
                    self.membership.store(held)
                except JournalError as error:
                    self.fatal(error)
            self._install(copy)
            self.world.checks.on_state(self)
            self.world.stats["snapshots installed"] += 1
            self.world.trace(f"{self.name} installs {manifest.snapshot_id}")
        # The store is durable; the process may die before the core hears of it.
        self._later(
            self.rng.random() * 0.003,
            lambda: self._installed(manifest),
        )

    def _install(self, copy: Any) -> None:
        self.state = self.durable = copy

    def _installed(self, manifest: SnapshotManifest) -> None:
        held = None
        if manifest.configuration is not None:
            held = Held(manifest.configuration_index, manifest.configuration)
        self.core.snapshot_installed(manifest.index, manifest.term, held)
        self.delivered = max(self.delivered, manifest.index)
        self.core.tick()

    def fatal(self, error: BaseException) -> NoReturn:
        if isinstance(error, Violation):
            raise error
        raise FailStop(f"{self.name}: {error!r}") from error
