"""One node's log, vote, state and copies on a real disk, without its network and its calls.

`live` makes a history: it votes, appends, applies, checkpoints, compacts, installs a copy of
another node over entries that nobody committed, and goes on; each promise is marked in the trace of
the shim at the moment when it is made. `recover` does with a directory what a start of the node
does.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from pysyncobj.node import Node as RaftNode
from pysyncobj.transport import Transport
from replica_rig import play
from strategies import random_wishes

from raftflow.cluster.consensus.configurations import Held
from raftflow.cluster.consensus.core import Core
from raftflow.cluster.consensus.identity import claim_directory
from raftflow.cluster.consensus.membership import Configuration, Member
from raftflow.cluster.consensus.membership_file import MembershipFile
from raftflow.cluster.consensus.snapshots import SnapshotFetcher
from raftflow.cluster.consensus.types import Role, SnapshotManifest, Timing
from raftflow.cluster.replica import Replica, ReplicaSettings
from raftflow.cluster.store import Store, StoreSettings, WriterTimes
from raftflow.raftlog.disk import OsDisk
from raftflow.raftlog.hardstate import HardState
from raftflow.raftlog.journal import Journal, LogEntry
from raftflow.raftlog.segment import HEADER_BYTES

BIRTH = Held(0, Configuration(members=(Member(id="n1", raft="127.0.0.1:1", voter=True),)))
EAGER = StoreSettings(times=WriterTimes(linger_ms=0, checkpoint_every_ms=30))
SEGMENT_BYTES = HEADER_BYTES + 6_000


def mark(text: str) -> None:
    """A promise, for the trace. Nothing without the shim."""
    shim = getattr(ctypes.CDLL(None), "disk_shim_mark", None)
    if shim is not None:
        shim(text.encode())


class MarkingHardState(HardState):
    def store(self, term: int, voted_for: str | None) -> None:
        super().store(term, voted_for)
        mark(f"voted {term} {voted_for or '-'}")


class Alone(Transport):  # type: ignore[misc]
    """Nobody is reached."""

    def __init__(self) -> None:
        super().__init__(None, None, [])

    def send(self, node: RaftNode, message: Any) -> bool:
        return False


class Died(Exception):
    """The process would have ended here."""


class CrashNode:
    """Opened with `open`. One coroutine at a time drives it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.roles: list[Role] = []
        self._flush_wanted = False

    @classmethod
    async def open(cls, folder: Path) -> CrashNode:
        """What `raftflow serve` does with its data directory, in the same order."""
        node = cls(folder)
        node.claim = claim_directory(str(folder), cluster_id="crash", node_id="n1")
        node.store = await Store.open(folder / "state.db", settings=EAGER, on_fatal=node.fatal)
        settings = ReplicaSettings(snapshots=folder / "snapshots" / "made", log_tail_entries=5)
        node.replica = Replica(store=node.store, settings=settings)
        node.open_log()
        node.replica.attach(node)  # type: ignore[arg-type]
        return node

    def open_log(self) -> None:
        raft, disk = str(self.folder / "raft"), OsDisk()
        disk.makedirs(raft)
        born = self.store.written.index == 0
        self.hard_state = MarkingHardState.open(raft, disk, may_be_new=born)
        self.membership = MembershipFile.open(raft, disk)
        if self.membership.held is None:
            self.membership.store(BIRTH)
        held = self.membership.held
        assert held is not None
        self.journal = Journal.open(raft, disk=disk, segment_bytes=SEGMENT_BYTES)
        self.core = Core(
            node_id="n1",
            incarnation=self.claim.identity.incarnation,
            configuration=held.configuration,
            configuration_index=held.index,
            first_seen={},
            journal=self.journal,
            hard_state=self.hard_state,
            transport=Alone(),
            applied_index=self.store.written.index,
            applied_term=self.store.written.term,
            callbacks=self,  # type: ignore[arg-type]
            timing=Timing(),
        )

    async def close(self) -> None:
        """As a crash would, as far as one process can."""
        await self.replica.stop()
        await self.store.abandon()
        self.journal.close()
        self.claim.lock.release()

    # ---- driving ---

    async def pump(self) -> None:
        """Tick, flush and apply until nothing is left to do."""
        self.core.tick()
        while self._flush_wanted or self.journal.needs_flush:
            self._flush_wanted = False
            index = self.journal.flush()
            self.core.flushed(index)
            self.core.tick()
            mark(f"acknowledged {self.core.commit_index}")
        await self.replica.wait_applied(self.core.commit_index, timeout_ms=20_000)

    async def lead(self) -> None:
        while self.core.role is not Role.LEADER:
            await self.pump()
        await self.pump()

    # ---- what the core and the replica call ---

    def on_commit(self, entries: Sequence[LogEntry]) -> None:
        self.replica.on_apply(entries)

    def on_role(self, role: Role, term: int, leader: str | None) -> None:
        self.roles.append(role)

    def wants_flush(self) -> None:
        self._flush_wanted = True

    def compact(self, index: int) -> None:
        mark(f"checkpointed {self.store.checkpointed_index}")
        self.core.compact(index)

    def on_configuration(self, index: int, configuration: Configuration, committed: bool) -> None:
        raise AssertionError("no member changes")

    def on_snapshot_needed(self, peer: str) -> None:
        raise AssertionError("nobody is there")

    def on_snapshot_offer(self, leader: str, manifest: SnapshotManifest) -> None:
        raise AssertionError("nobody is there")

    def fatal(self, error: BaseException) -> NoReturn:
        raise Died(str(error)) from error


class CopyChannel:
    """The channel to a peer that has a copy."""

    def __init__(self, path: str) -> None:
        self._content = Path(path).read_bytes()

    async def call(self, _peer: str, method: str, request: bytes, *, timeout_ms: int) -> bytes:
        assert method == "snapshot.read"
        offset = int.from_bytes(request[:8], "little")
        size = int.from_bytes(request[8:12], "little")
        return self._content[offset : offset + size]

    def notify(self, _peer: str, _method: str, _payload: bytes) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Truth:
    """The committed entries from 1 on, and the digest of the state after each."""

    entries: tuple[LogEntry, ...]
    digests: tuple[bytes, ...]  # [0] is that of an empty state


async def live(folder: Path, elsewhere: Path, *, seed: int, wishes: int = 60) -> list[LogEntry]:
    """The history. Returns the committed entries; everything but ``folder`` is another disk."""
    _, planned = play(random_wishes(seed, wishes))
    own, with_copy = len(planned) // 2, len(planned) * 3 // 4
    node = await CrashNode.open(folder)
    mark("born")
    await node.lead()
    for entry in planned[1:own]:
        node.core.propose(entry.payload)
        if entry.index % 3:
            await node.pump()
        if entry.index % 7 == 0:
            await node.replica.written(node.replica.applied_index)
    await node.pump()
    copy, manifest = await copy_of(planned[:with_copy], elsewhere)
    await _receive(node, copy, manifest)
    await node.close()
    node = await CrashNode.open(folder)
    await node.lead()
    for entry in planned[with_copy:]:
        node.core.propose(entry.payload)
        await node.pump()
    await node.replica.written(node.replica.applied_index)
    await node.store.checkpoint()
    mark(f"checkpointed {node.store.checkpointed_index}")
    first = node.journal.first_index
    assert first > with_copy, "the log was begun anew and compacted"
    after = node.journal.entries(first, node.journal.last_index + 1, 1 << 30)
    committed = [*planned[:with_copy], LogEntry(with_copy + 1, node.core.term, b"")]
    committed += [
        LogEntry(number, node.core.term, entry.payload)
        for number, entry in enumerate(planned[with_copy:], start=with_copy + 2)
    ]
    tail = [LogEntry(e.index, e.term, e.payload[1:]) for e in after]
    assert tail == committed[first - 1 :], "the truth is what the log says"
    await node.close()
    return committed


async def _receive(node: CrashNode, copy: str, manifest: SnapshotManifest) -> None:
    """Entries that were never committed come from a leader of term 2; that of term 3 has a copy."""
    node.hard_state.store(2, None)
    last = node.journal.last_index
    node.journal.append([LogEntry(last + n, 2, b"\0lost %d" % n) for n in (1, 2, 3)])
    node.journal.flush()
    node.hard_state.store(3, "n2")

    def installed(manifest: SnapshotManifest) -> None:
        node.core.snapshot_installed(manifest.index, manifest.term)
        mark(f"acknowledged {manifest.index}")

    fetcher = SnapshotFetcher(
        directory=str(node.folder / "snapshots" / "incoming"),
        store=node.replica,
        channel=CopyChannel(copy),  # type: ignore[arg-type]
        installing=lambda _manifest: None,
        installed=installed,
        failed=node.fatal,
    )
    fetcher.offered("n2", manifest)
    assert fetcher._task is not None
    await fetcher._task
    assert node.replica.applied_index == manifest.index


async def copy_of(entries: Sequence[LogEntry], folder: Path) -> tuple[str, SnapshotManifest]:
    """What another node that applied these would send."""
    os.makedirs(folder, exist_ok=True)
    store = await Store.open(folder / "state.db", settings=EAGER)
    replica = Replica(store=store, settings=ReplicaSettings(snapshots=folder / "copies"))
    replica.attach(_NoLog())  # type: ignore[arg-type]
    replica.on_apply(entries)
    await replica.wait_applied(entries[-1].index, timeout_ms=30_000)
    await replica.written(entries[-1].index)
    made = await replica.make_copy()
    await replica.stop()
    await store.close()
    return made


async def truth_of(entries: Sequence[LogEntry], folder: Path) -> Truth:
    """Apply them one by one, on a disk that never fails."""
    store = await Store.open(folder / "truth.db", settings=EAGER)
    replica = Replica(store=store, settings=ReplicaSettings(snapshots=folder / "no-copies"))
    replica.attach(_NoLog())  # type: ignore[arg-type]
    digests = [replica.digest]
    replica.subscribe(lambda _applied, _batch: digests.append(replica.digest))
    replica.on_apply(entries)
    await replica.wait_applied(entries[-1].index, timeout_ms=60_000)
    await replica.stop()
    await store.close()
    return Truth(tuple(entries), tuple(digests))


class _NoLog:
    def compact(self, _index: int) -> None:
        pass

    def fatal(self, error: BaseException) -> NoReturn:
        raise error


@dataclass(frozen=True, slots=True)
class Found:
    """What a start found in a directory, before anything was added."""

    term: int
    voted_for: str | None
    stored_index: int
    stored_digest: bytes
    prev_index: int
    entries: tuple[LogEntry, ...]


async def recover(folder: Path) -> Found:
    """Start, look, and die again."""
    os.makedirs(folder, exist_ok=True)
    node = await CrashNode.open(folder)
    journal, written = node.journal, node.store.written
    last, prev = journal.last_index, journal.prev_index
    entries = journal.entries(prev + 1, last + 1, 1 << 30) if last > prev else []
    found = Found(
        node.hard_state.term,
        node.hard_state.voted_for,
        written.index,
        written.digest,
        prev,
        tuple(LogEntry(e.index, e.term, e.payload[1:]) for e in entries),
    )
    await node.close()
    return found


async def replay(folder: Path, truth: Truth, upto: int) -> bytes:
    """Start, apply the log up to there, and say the digest."""
    node = await CrashNode.open(folder)
    start = node.store.written.index
    if upto > start:
        entries = node.journal.entries(start + 1, upto + 1, 1 << 30)
        node.replica.on_apply([LogEntry(e.index, e.term, e.payload[1:]) for e in entries])
        await node.replica.wait_applied(upto, timeout_ms=20_000)
    digest = node.replica.digest
    await node.close()
    return digest


def run(coroutine: Any) -> Any:
    return asyncio.run(coroutine)
